"""WRITES blocks: the rows that the steps of an interval wrote, as bitmaps. The recording can be replayed without them.

The payload is the plain data [first_step, last_step, layout, bits]: see SPEC.md. A row whose bit is not set was not
written by any of the steps; one whose bit is set may have been written with an equal value.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from recorder.errors import CorruptError
from sim.kernel.marks import Rows
from sim.kernel.plain_data import DECODE_ERRORS, decode_plain, encode_plain
from sim.kernel.schema import Layout


@attrs.frozen
class WritesOfSteps:
    """The content of one block.

    Attributes:
        first_step, last_step: the ticks that the steps lead to, both included.
        layout: the seed of the state hashes; None if the layout changed, and then any row may have been written.
        bits: a bitmap for each field with such rows: row r is bit r mod 8 of byte r div 8.
    """

    first_step: int
    last_step: int
    layout: int | None
    bits: Mapping[str, bytes]


def encode_writes(first_step: int, last_step: int, layout: Layout, rows: Mapping[str, Rows] | None) -> bytes:
    """The payload of a block. rows: flat numbers of the rows written, by field; None if the layout has changed."""
    bits = {} if rows is None else {name: _bitmap(layout, name, numbers) for name, numbers in rows.items()}
    return encode_plain([first_step, last_step, None if rows is None else layout.hash_seed, bits])


def _bitmap(layout: Layout, name: str, numbers: Rows) -> bytes:
    flags = np.zeros(layout.slots[name].row_count, np.bool_)
    flags[numbers] = True
    return np.packbits(flags, bitorder="little").tobytes()


def decode_writes(payload: bytes, offset: int) -> WritesOfSteps:
    """Decode a block. offset: for messages. Raises CorruptError if it is not a WRITES block."""
    try:
        match decode_plain(payload):
            case [int(first), int(last), (None | int()) as layout, dict(bits)] if 0 < first <= last:
                if all(isinstance(name, str) and isinstance(value, bytes) for name, value in bits.items()):
                    return WritesOfSteps(first, last, layout, bits)
    except DECODE_ERRORS as error:
        raise CorruptError(offset, f"a WRITES block that cannot be decoded: {error}") from None
    raise CorruptError(offset, "a WRITES block that is incomplete")
