"""The digests of a note on code as bytes, one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recorder.ambient.outside.line_digests import LINE_BYTES

NAME_BYTES = 4
DIGEST_BYTES = 6  # Of a thousand other definitions, one has the digest of a changed one with a chance of 4e-12.


def joined(digests: Iterable[bytes]) -> bytes:
    """The digests, ascending."""
    return b"".join(sorted(digests))


def parted(joined: bytes) -> frozenset[bytes]:
    """The digests of what joined() gives."""
    return frozenset(joined[start : start + DIGEST_BYTES] for start in range(0, len(joined), DIGEST_BYTES))


def parted_if_any(joined: Any) -> frozenset[bytes] | None:
    """The digests; None for what is no list of them, as of a note without one."""
    return parted(joined) if type(joined) is bytes and not len(joined) % DIGEST_BYTES else None


def parted_lines(joined: Any) -> dict[bytes, bytes]:
    """The digests of the lines of functions, by the digests of the functions' names."""
    lines, place = dict[bytes, bytes](), 0
    while type(joined) is bytes and place + NAME_BYTES < len(joined):
        start = place + NAME_BYTES + 1
        end = start + joined[start - 1] * LINE_BYTES
        lines[joined[place : start - 1]] = joined[start:end]
        place = end
    return lines
