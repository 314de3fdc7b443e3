"""BLAKE2b digests: for run ids, the markers of blocks and the seal of a tape."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b


def new_digest(size_bytes: int, content: bytes = b"") -> blake2b:
    """Make a digest of size_bytes that begins with content; ``update`` adds more."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, which would be a twentieth of the recorder's import time.

    return hashlib.blake2b(content, digest_size=size_bytes)
