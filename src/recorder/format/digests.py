"""BLAKE2b, for what names a run, marks its blocks and seals them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b


def new_digest(size_bytes: int, content: bytes = b"") -> blake2b:
    """A digest of size_bytes, that begins with content and takes more by ``update``."""
    import hashlib  # noqa: PLC0415 - it brings OpenSSL along: of what importing the recorder takes it would be a twentieth.

    return hashlib.blake2b(content, digest_size=size_bytes)
