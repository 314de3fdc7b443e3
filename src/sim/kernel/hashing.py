"""Identify a state, or one field of it, by 64 bits.

The state hash is xxh3-64 over the whole arena, seeded with xxh3-64 of the layout's key (schema.layout_key), so that
the same bytes under other names, dtypes, shapes or capacities hash differently. It finds accidents, not attacks:
xxh3 is not a cryptographic hash.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xxhash

from sim.kernel.schema import Layout, Slot

HASH_NAME = "xxh3-64"  # Written to the tape; another function gets another name.


def hash_arena(layout: Layout, arena: npt.NDArray[np.uint8]) -> int:
    """The state hash of an arena of this layout, from 0 to 2**64 - 1."""
    return xxhash.xxh3_64_intdigest(arena.data, layout.hash_seed)


def hash_field(arena: npt.NDArray[np.uint8], slot: Slot) -> int:
    """xxh3-64, seed 0, of one field's bytes at full capacity."""
    return xxhash.xxh3_64_intdigest(arena[slot.offset : slot.offset + slot.size_bytes].data)
