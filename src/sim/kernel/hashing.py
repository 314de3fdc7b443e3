"""Identify a state, or one field of it, by 64 bits.

The state hash is xxh3-64 over the whole arena, seeded with xxh3-64 of the layout's key (schema.layout_key), so that
the same bytes under other names, dtypes, shapes or capacities hash differently. It finds accidents, not attacks:
xxh3 is not a cryptographic hash.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from sim.kernel.schema import Layout, Slot

FIELD_HASH_BYTES = 2
HASH_NAME = "xxh3-64"  # Written to the tape; another function gets another name.


def hash_arena(layout: Layout, arena: npt.NDArray[np.uint8]) -> int:
    """The state hash of an arena of this layout, from 0 to 2**64 - 1."""
    return xxhash.xxh3_64_intdigest(arena.data, layout.hash_seed)


def hash_field(arena: npt.NDArray[np.uint8], slot: Slot) -> int:
    """xxh3-64, seed 0, of one field's bytes at full capacity."""
    return xxhash.xxh3_64_intdigest(arena[slot.offset : slot.offset + slot.size_bytes].data)


def field_memory(layout: Layout, arena: npt.NDArray[np.uint8]) -> list[memoryview]:
    """The bytes of each field at full capacity, in the arena's order, for hash_fields."""
    return [arena[slot.offset : slot.offset + slot.size_bytes].data for slot in layout.slots.values()]


def hash_fields(fields: Sequence[memoryview]) -> bytes:
    """The lowest 16 bits of the hash of each field: first all high bytes, then all low ones.

    So that both come out of one string of digests by two slices; for a dozen fields half of the time is the call.
    """
    digests = b"".join(map(xxhash.xxh3_64_digest, fields))  # Big-endian, 8 bytes each.
    return digests[6::8] + digests[7::8]


def short_hash(state_hash: int) -> bytes:
    """The lowest 16 bits of a state hash, big-endian: what frames say of the state behind each phase."""
    return (state_hash & 0xFFFF).to_bytes(FIELD_HASH_BYTES, "big")


def split_short(hashes: bytes) -> list[bytes]:
    """The results of short_hash that stand back to back."""
    return [hashes[at : at + FIELD_HASH_BYTES] for at in range(0, len(hashes), FIELD_HASH_BYTES)]


def differing_fields(names: Sequence[str], one: bytes, other: bytes) -> list[str]:
    """The names of the fields whose 16 bits differ between two results of hash_fields.

    Raises ValueError if one of them is not of so many fields.
    """
    count = len(names)
    if {len(one), len(other)} != {FIELD_HASH_BYTES * count}:
        raise ValueError(f"{len(one)} and {len(other)} bytes of hashes for {count} fields")
    return [name for i, name in enumerate(names) if one[i] != other[i] or one[count + i] != other[count + i]]
