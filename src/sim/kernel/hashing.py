"""Identify a state, or one field of it, by 64 bits.

The state hash is xxh3-64 over the complete arena, seeded with xxh3-64 of the layout's key (schema.layout_key). Equal
bytes with different names, dtypes, shapes or capacities therefore hash differently. The hash detects accidents, not
attacks: xxh3 is not a cryptographic hash.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from sim.kernel.schema import Layout, Slot

FIELD_HASH_BYTES = 2
HASH_NAME = "xxh3-64"  # Written to the tape; a different function gets a different name.


hash_bytes = xxhash.xxh3_64_intdigest  # Of the bytes of an arena, and the seed of its layout.


def hash_arena(layout: Layout, arena: npt.NDArray[np.uint8]) -> int:
    """The state hash of an arena of this layout, from 0 to 2**64 - 1."""
    return hash_bytes(arena.data, layout.hash_seed)


def hash_field(arena: npt.NDArray[np.uint8], slot: Slot) -> int:
    """xxh3-64, seed 0, of one field's bytes at full capacity."""
    return xxhash.xxh3_64_intdigest(arena[slot.offset : slot.offset + slot.size_bytes].data)


def field_memory(layout: Layout, arena: npt.NDArray[np.uint8]) -> list[memoryview]:
    """The bytes of each field at full capacity, in the arena's order, for hash_fields."""
    return [arena[slot.offset : slot.offset + slot.size_bytes].data for slot in layout.slots.values()]


def hash_fields(fields: Sequence[memoryview]) -> bytes:
    """The lowest 16 bits of the hash of each field: first all high bytes, then all low ones.

    In this order two slices of the joined digests give both. For a dozen fields the call itself takes half of the time.
    """
    digests = b"".join(map(xxhash.xxh3_64_digest, fields))  # Big-endian, 8 bytes each.
    return digests[6::8] + digests[7::8]


def short_hash(state_hash: int) -> bytes:
    """The lowest 16 bits of a state hash, big-endian: the hash that a frame holds of the state after each phase."""
    return (state_hash & 0xFFFF).to_bytes(FIELD_HASH_BYTES, "big")


def split_short(hashes: bytes) -> list[bytes]:
    """The short hashes in a concatenation of results of short_hash."""
    return [hashes[at : at + FIELD_HASH_BYTES] for at in range(0, len(hashes), FIELD_HASH_BYTES)]


def differing_fields(names: Sequence[str], left: bytes, right: bytes) -> list[str]:
    """The names of the fields whose 16 bits differ between two results of hash_fields.

    Raises ValueError if one of them is not of that many fields.
    """
    count = len(names)
    if {len(left), len(right)} != {FIELD_HASH_BYTES * count}:
        raise ValueError(
            f"expected {FIELD_HASH_BYTES * count} bytes of hashes for {count} fields, got {len(left)} and {len(right)}"
        )
    return [name for i, name in enumerate(names) if left[i] != right[i] or left[count + i] != right[count + i]]
