"""Zstandard frames with their size inside: compress them, and decompress them within limits.

The package zstandard is optional and imported when it is needed: only packed tapes have such content.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from recorder.errors import UnsupportedVersionError

OWN_FRAME_BYTES_MIN = 512  # Of a stream: below that, the head of a frame costs more than it saves.
_SIZE = struct.Struct("<I")
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


def compress_frames(streams: Sequence[bytes], level: int) -> bytes:
    """Compress streams as frames of their own, since they are unlike; small ones with the next. Raises MissingCodecError.

    Returns the number of frames, u8; the size of each, u32; the frames.
    """
    groups = [b""]
    for stream in streams:
        if len(groups[-1]) >= OWN_FRAME_BYTES_MIN and len(stream) >= OWN_FRAME_BYTES_MIN:
            groups.append(b"")
        groups[-1] += stream
    return _with_sizes([compress_frame(group, level) for group in groups])


def _with_sizes(frames: list[bytes]) -> bytes:
    assert len(frames) < 1 << 8
    return struct.pack(f"<B{len(frames)}I", len(frames), *map(len, frames)) + b"".join(frames)


def decompress_frames(stored: bytes, max_bytes: int) -> bytes:
    """The joined content of the frames that compress_frames made. Raises ValueError, also beyond max_bytes; as above."""
    count = stored[0] if stored else 0
    at = 1 + count * _SIZE.size
    if not count or len(stored) < at:
        raise ValueError("no sizes of frames")
    sizes = [size for (size,) in _SIZE.iter_unpack(stored[1:at])]
    if at + sum(sizes) != len(stored):
        raise ValueError(f"{len(stored)} bytes for {count} frames of {sum(sizes)} bytes")
    contents: list[bytes] = []
    for size in sizes:
        contents.append(decompress_frame(stored[at : at + size], max_bytes - sum(map(len, contents))))
        at += size
    return b"".join(contents)


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
