"""Chained hashes, or links: 64 bits that identify the state at a tick by what it changed and by the tick before.

A link is the XXH3-64, seed 0, of what the frame of the tick before identifies its state by (8 bytes, see ``identity_of``;
a link is one itself) and of the words that the tick has changed, field by field in the order of the arena, the fields
that have some only: number of the field among all, u32 | how many words, u32 | their numbers, u32 each | the words; all
little-endian. So a chain of links leads back to the last tick whose frame has the hash of the whole state.

A hash of the whole state costs time with the size of the state, a link with what has changed: a tenth to a hundredth of
it on large states. It stands for the state only together with the changes themselves, see change_replay.
"""

from __future__ import annotations

import struct

import xxhash

from sim.kernel.changes.tick_changes import FieldWords
from sim.kernel.schema import Layout

LINK_BYTES = 8

_FIELD = struct.Struct("<II")


def identity_of(state_hash: int) -> bytes:
    """What a link comes upon where the frame before it has the hash of a state."""
    return state_hash.to_bytes(LINK_BYTES, "little")


class HashChain:
    """Makes links of states of one layout."""

    def __init__(self, layout: Layout) -> None:
        self._fields = list(enumerate(layout.slots))

    def extend(self, before: bytes, fields: FieldWords) -> bytes:
        """The link of a tick that has changed these words; before: what identifies the tick before it, 8 bytes."""
        digest = xxhash.xxh3_64(before)
        for number, name in self._fields:
            if name in fields:
                numbers, words = fields[name]
                if len(numbers):
                    digest.update(_FIELD.pack(number, len(numbers)))
                    digest.update(numbers.data)
                    digest.update(words.data)
        return digest.intdigest().to_bytes(LINK_BYTES, "little")
