"""Chained hashes, or links: 64 bits that identify the state at a tick by its changes and by the tick before.

A link is the XXH3-64, seed 0, of the identity of the tick before (8 bytes: its state hash, see ``identity_of``, or its
link) and of the words that the tick changed. Words come field by field in the order of the arena, only fields with
changed words: number of the field among all, u32 | count of words, u32 | their numbers, u32 each | the words; all
little-endian. The chain leads back to the last tick whose frame has a state hash.

The time for a state hash grows with the size of the state, the time for a link with the size of the changes: on large
states it is a tenth to a hundredth. A link identifies a state only together with the changes, see change_replay.
"""

from __future__ import annotations

import struct

import xxhash

from sim.kernel.changes.many_changes import ManyChanges
from sim.kernel.changes.tick_changes import FieldWords, TickChanges
from sim.kernel.schema import Layout

LINK_BYTES = 8

_FIELD = struct.Struct("<II")


def identity_of(state_hash: int) -> bytes:
    """The identity of a tick whose frame has a state hash: the base of the next link."""
    return state_hash.to_bytes(LINK_BYTES, "little")


class HashChain:
    """Makes the links for states of one layout."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._fields = list(enumerate(layout.slots))

    def extend_by(self, before: bytes, changes: TickChanges) -> bytes:
        """The link of a tick with these changes, which hold values; before: as for extend."""
        if not isinstance(changes, ManyChanges):
            return self.extend(before, changes.by_field(self._layout))
        digest = xxhash.xxh3_64(before)
        for number, name in self._fields:
            if name in changes.fields:
                many = changes.fields[name]
                digest.update(_FIELD.pack(number, many.count))
                for numbers in many.numbers():
                    digest.update(numbers.data)
                digest.update(many.words.data)
        return digest.intdigest().to_bytes(LINK_BYTES, "little")

    def extend(self, before: bytes, fields: FieldWords) -> bytes:
        """The link of a tick that changed these words; before: the identity of the tick before it, 8 bytes."""
        digest = xxhash.xxh3_64(before)
        for number, name in self._fields:
            if name in fields:
                numbers, words = fields[name]
                if len(numbers):
                    digest.update(_FIELD.pack(number, len(numbers)))
                    digest.update(numbers.data)
                    digest.update(words.data)
        return digest.intdigest().to_bytes(LINK_BYTES, "little")
