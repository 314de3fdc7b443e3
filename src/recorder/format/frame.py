"""Encode and decode tick frames: what went into one tick, and the hash of what came out.

A frame is the MessagePack array [tick, state_hash, inputs], tick and state_hash always in their 9-byte form so that a
frame is written without looking at their size. A FRAMES payload is frames back to back. Later versions may add
elements after inputs; readers ignore those that they do not know.

Invariants:
    1. Frame t holds the inputs that turned the state at tick t - 1 into the state at tick t, and the hash of the
       latter.
    2. Frames of a block are gapless: the next frame's tick is this tick + 1.
"""

from __future__ import annotations

import struct
from typing import Any

import attrs

from recorder.errors import CorruptError
from recorder.format.block import BlockHeader
from recorder.format.limits import INPUT_BYTES_MAX
from recorder.format.plain_data import DECODE_ERRORS, make_unpacker

_HEAD = struct.Struct(">BBQBQ")
_ARRAY_OF_3, _UINT64 = 0x93, 0xCF
HEAD_BYTES = _HEAD.size
assert HEAD_BYTES == 19


@attrs.frozen
class Frame:
    """One tick of a run.

    Attributes:
        tick: that the inputs led to.
        state_hash: of the state at tick.
        inputs: plain data, as given to the step.
    """

    tick: int
    state_hash: int
    inputs: Any


def encode_frame(tick: int, state_hash: int, encoded_inputs: bytes) -> bytes:
    """One frame. encoded_inputs: what plain_data.encode_plain made of the inputs.

    Raises ValueError if the inputs are longer than INPUT_BYTES_MAX.
    """
    if len(encoded_inputs) > INPUT_BYTES_MAX:
        raise ValueError(f"the inputs of tick {tick} take {len(encoded_inputs)} bytes, more than {INPUT_BYTES_MAX}")
    return _HEAD.pack(_ARRAY_OF_3, _UINT64, tick, _UINT64, state_hash) + encoded_inputs


def decode_frames(header: BlockHeader, payload: bytes) -> list[Frame]:
    """The frames of a FRAMES block, in order.

    Raises CorruptError if they are no frames or not those that the header announces (invariant 2).
    """
    frames: list[Frame] = []
    try:
        unpacker, end = make_unpacker(payload), 0
        for item in unpacker:
            end = unpacker.tell()  # Not after the loop: then it also counts the bytes of a frame that is cut off.
            match item:
                case [int(tick), int(state_hash), inputs, *_]:
                    frames.append(Frame(tick, state_hash, inputs))
                case _:
                    raise ValueError("an item that is no frame")
        if end != len(payload):
            raise ValueError("the last one is cut off")
    except DECODE_ERRORS as error:
        raise CorruptError(header.offset, f"frames that cannot be decoded: {error}") from None
    if [frame.tick for frame in frames] != list(range(header.first_tick, header.first_tick + header.tick_count)):
        raise CorruptError(
            header.offset,
            f"frames of other ticks than the {header.tick_count} from {header.first_tick} that were announced",
        )
    return frames
