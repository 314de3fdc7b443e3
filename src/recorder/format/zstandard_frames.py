"""One Zstandard frame with its size inside: compress it, and decompress it within limits.

The package zstandard is optional and imported when it is needed: only packed tapes have such content.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from recorder.errors import UnsupportedVersionError

WINDOW_BYTES_MAX = 32 << 20  # Of the memory that decompressing may look back on; no payload is larger.


class MissingCodecError(UnsupportedVersionError):
    """The tape is packed, and the package that unpacks it is not installed."""

    def __init__(self) -> None:
        super().__init__("Zstandard", "LZ4")

    def __str__(self) -> str:
        return "the tape is packed, and reading it needs the package zstandard: pip install zstandard"


def ensure_zstandard() -> None:
    """Raise MissingCodecError if packed tapes cannot be read here."""
    if find_spec("zstandard") is None:
        raise MissingCodecError


def _package() -> Any:
    try:
        import zstandard  # noqa: PLC0415 - optional, and takes long to import
    except ImportError:
        raise MissingCodecError from None
    return zstandard


def compress_frame(content: bytes, level: int) -> bytes:
    """Compress content as one frame. level: 1 to 22. Raises MissingCodecError."""
    packed: bytes = _package().ZstdCompressor(level=level, write_content_size=True).compress(content)
    return packed


def decompress_frame(stored: bytes, max_bytes: int) -> bytes:
    """The content of one frame. Memory is not taken before its size is known to be at most max_bytes.

    Raises ValueError for anything but one complete frame of that size at most, MissingCodecError.
    """
    package = _package()
    try:
        facts = package.get_frame_parameters(stored)
        if not 0 <= facts.content_size <= max_bytes:
            raise ValueError(f"a frame of {facts.content_size} bytes, expected at most {max_bytes}")
        unpack = package.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX).decompress
        content: bytes = unpack(stored, max_output_size=max_bytes, allow_extra_data=False)
    except package.ZstdError as error:
        raise ValueError(str(error)) from None
    return content
