"""DROP blocks: the frames that the recording could not keep, and the reason."""

from __future__ import annotations

import attrs

from recorder.errors import CorruptError
from sim.kernel.plain_data import decode_plain


@attrs.frozen
class Drop:
    """Ticks whose frames could not be kept.

    Attributes:
        first_tick, last_tick: the range of ticks.
        why: the reason in one line.
    """

    first_tick: int
    last_tick: int
    why: str


def decode_drop(payload: bytes, offset: int) -> Drop:
    """Decode the DROP block at offset. Raises CorruptError if it is not one."""
    try:
        match decode_plain(payload):
            case {"first_tick": int(first), "last_tick": int(last), "why": str(why)} if 0 <= first <= last:
                return Drop(first, last, why)
    except ValueError as error:
        raise CorruptError(offset, f"a DROP block that cannot be decoded: {error}") from None
    raise CorruptError(offset, "a DROP block that is incomplete")
