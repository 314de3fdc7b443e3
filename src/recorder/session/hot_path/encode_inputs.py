"""Encode the inputs of a tick. Refuse, naming the tick, inputs that could not be read back from the tape."""

from __future__ import annotations

from typing import Any

from recorder.format.blocks.frame import ensure_inputs_fit
from sim.kernel.hooks import KeepsAttempts
from sim.kernel.plain_data import PlainEncoder, decode_plain

SMALL_INTS = [bytes([number]) for number in range(128)]  # MessagePack has them in one byte; most actions are of them.
NIL = b"\xc0"  # None, of steps without inputs.


def encode_inputs(encoder: PlainEncoder, inputs: Any, tick: int) -> bytes:
    """Encode inputs for a frame. Raises TypeError or ValueError for inputs that cannot be recorded."""
    if type(inputs) is int and 0 <= inputs < len(SMALL_INTS):
        return SMALL_INTS[inputs]
    if inputs is None:
        return NIL
    try:
        encoded, sure = encoder.encode(inputs)
        if not sure:
            decode_plain(encoded)
    except TypeError as error:
        raise TypeError(f"the inputs of tick {tick} cannot be recorded: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"the inputs of tick {tick} cannot be recorded: {error}") from None
    ensure_inputs_fit(tick, encoded)
    return encoded


def encode_attempt(
    encoder: PlainEncoder, keeps: KeepsAttempts | None, inputs: Any, error: Exception, tick: int
) -> bytes:
    """The encoded inputs of a step that raised error, if the simulation can record that; otherwise raise error again."""
    recorded = None
    try:
        recorded = keeps.attempted(inputs, error) if keeps is not None else None
    except Exception as failed:  # noqa: BLE001 - an adapter may raise anything, which must not hide the error
        error.add_note(f"the recording ends before this step: {failed}")
    if recorded is None:
        raise error
    return encode_inputs(encoder, recorded, tick)
