"""Encode and decode tick frames: the inputs of one tick and the hash of the resulting state.

A frame is the MessagePack array [tick, state_hash, inputs, field_hashes, phase_hashes]. tick and state_hash always have
their 9-byte form: an encoder need not check their size. In place of state_hash there may be a chained hash, binary (see
hash_chain.py). field_hashes and phase_hashes are binary; they locate a difference between two states without the states.
phase_hashes, or both, may be missing. A FRAMES payload is frames back to back. Later versions may add elements; readers
ignore elements that they do not know.

Invariants:
    1. Frame t holds the inputs that turned the state at tick t - 1 into the state at tick t, and the hash of the
       latter.
    2. Frames of a block are gapless: the next frame's tick is this tick + 1.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import attrs
import msgpack

from recorder.errors import CorruptError
from recorder.format.blocks.block import BlockHeader
from recorder.format.blocks.hash_chain import LINK_BYTES, identity_of
from recorder.format.limits import INPUT_BYTES_MAX
from sim.kernel.plain_data import DECODE_ERRORS, decode_plain, make_unpacker

_HEAD = struct.Struct(">BBQBQ")
pack_head = _HEAD.pack  # Of a frame with a state hash.
_LINKED_HEAD = struct.Struct(f">BBQBB{LINK_BYTES}s")
_UINT64_END = 1 << 64  # Of ticks and hashes.
ARRAY_OF_3, ARRAY_OF_4, ARRAY_OF_5, UINT64 = 0x93, 0x94, 0x95, 0xCF
_BIN_8, _BIN_16, _BIN_32 = 0xC4, 0xC5, 0xC6
HEAD_BYTES = _HEAD.size
assert HEAD_BYTES == 19


@attrs.frozen
class Frame:
    """One tick of a run.

    Attributes:
        tick: the tick that the inputs led to.
        state_hash: of the state at tick; None if the frame has a chained hash instead.
        encoded_inputs: as on the tape.
        field_hashes: 2 bytes for each field, see sim.kernel.hashing.hash_fields; empty if not recorded.
        phase_hashes: 2 bytes for each phase of the step; empty if not recorded.
        offset: of the block that contains the frame, for messages.
        link: the chained hash, 8 bytes, see recorder.format.blocks.hash_chain; empty if the frame has a state hash.
    """

    tick: int
    state_hash: int | None
    encoded_inputs: bytes
    field_hashes: bytes = b""
    phase_hashes: bytes = b""
    offset: int = attrs.field(default=0, eq=False)
    link: bytes = b""

    def encode(self) -> bytes:
        """Encode the frame as on the tape."""
        proof = self.link if self.state_hash is None else self.state_hash
        return encode_frame(self.tick, proof, self.encoded_inputs, self.field_hashes, self.phase_hashes)

    @property
    def identity(self) -> bytes:
        """The 8 bytes that the chained hash of the next tick is based on."""
        return self.link if self.state_hash is None else identity_of(self.state_hash)

    def proof(self) -> dict[str, str]:
        """The hash of the frame by its name, as 16 hexadecimal digits: "state_hash", or "link" for a chained hash."""
        return {"link": self.link.hex()} if self.state_hash is None else {"state_hash": f"{self.state_hash:016x}"}

    @property
    def inputs(self) -> Any:
        """The inputs of the step as plain data; decoded at each access, since a step may change its inputs.

        Raises CorruptError if they cannot be decoded.
        """
        try:
            return decode_plain(self.encoded_inputs)
        except ValueError as error:
            raise CorruptError(self.offset, f"inputs of tick {self.tick} that cannot be decoded: {error}") from None


def ensure_inputs_fit(tick: int, encoded_inputs: bytes) -> None:
    """Raise ValueError if the encoded inputs of a tick are longer than INPUT_BYTES_MAX."""
    if len(encoded_inputs) > INPUT_BYTES_MAX:
        raise ValueError(
            f"the inputs of tick {tick} take {len(encoded_inputs)} bytes, expected at most {INPUT_BYTES_MAX}"
        )


def encode_frame(
    tick: int, proof: int | bytes, encoded_inputs: bytes, field_hashes: bytes = b"", phase_hashes: bytes = b""
) -> bytes:
    """Encode one frame. proof: the state hash, or a chained hash.

    encoded_inputs: the inputs encoded by plain_data; the caller has checked them with ensure_inputs_fit.
    """
    assert len(encoded_inputs) <= INPUT_BYTES_MAX
    if not field_hashes and not phase_hashes:
        if type(proof) is int:  # Most frames by far.
            return pack_head(ARRAY_OF_3, UINT64, tick, UINT64, proof) + encoded_inputs
        return _head(ARRAY_OF_3, tick, proof) + encoded_inputs
    frame = with_field_hashes(
        _head(ARRAY_OF_5 if phase_hashes else ARRAY_OF_4, tick, proof), encoded_inputs, field_hashes
    )
    return frame + _bin_head(len(phase_hashes)) + phase_hashes if phase_hashes else frame


def with_field_hashes(head: bytes, encoded_inputs: bytes, field_hashes: bytes) -> bytes:
    """Join the parts of a frame up to the hashes of its fields, with one copy of large inputs."""
    return b"".join((head, encoded_inputs, _bin_head(len(field_hashes)), field_hashes))


def _head(first: int, tick: int, proof: int | bytes) -> bytes:
    if isinstance(proof, int):
        return pack_head(first, UINT64, tick, UINT64, proof)
    return _LINKED_HEAD.pack(first, UINT64, tick, _BIN_8, LINK_BYTES, proof)


@functools.lru_cache(maxsize=64)  # A run has few lengths, and needs them at each tick.
def _bin_head(length: int) -> bytes:
    """The MessagePack header of binary data of this length."""
    if length < 1 << 8:
        return struct.pack(">BB", _BIN_8, length)
    return struct.pack(">BH", _BIN_16, length) if length < 1 << 16 else struct.pack(">BI", _BIN_32, length)


def decode_frames(header: BlockHeader, payload: bytes) -> list[Frame]:
    """Decode the frames of a FRAMES block, in order.

    Raises CorruptError if they are not frames, or not those that the header states (invariant 2).
    """
    frames = unpack_frames(payload, header.offset)
    if [frame.tick for frame in frames] != list(range(header.first_tick, header.first_tick + header.tick_count)):
        raise CorruptError(
            header.offset,
            f"expected frames of {header.tick_count} ticks from {header.first_tick} on, got different ticks",
        )
    return frames


def decode_frame(encoded: bytes, offset: int) -> Frame:
    """Decode a single frame. offset: of its block, for messages. Raises CorruptError if it is not a frame."""
    frames = unpack_frames(encoded, offset)
    if len(frames) != 1:
        raise CorruptError(offset, f"expected one frame, got {len(frames)}")
    return frames[0]


def _binary(unpacker: msgpack.Unpacker) -> bytes:
    """The next element if it is binary, otherwise no bytes: a later version may use this place differently."""
    element = unpacker.unpack()
    return element if type(element) is bytes else b""


def unpack_frames(payload: bytes, offset: int) -> list[Frame]:
    """Decode frames back to back. offset: of their block, for messages. Raises CorruptError if they are not frames."""
    frames: list[Frame] = []
    unpacker = make_unpacker(payload)
    unpack, tell, skip, take_head = unpacker.unpack, unpacker.tell, unpacker.skip, unpacker.read_array_header
    end, size_bytes = 0, len(payload)
    try:
        while end < size_bytes:
            element_count, tick, proof = take_head(), unpack(), unpack()
            is_link = type(proof) is not int
            is_proof = (type(proof) is bytes and len(proof) == LINK_BYTES) if is_link else 0 <= proof < _UINT64_END
            # MessagePack also has negative numbers.
            if element_count < 3 or type(tick) is not int or not 0 <= tick < _UINT64_END or not is_proof:
                raise ValueError("an item that is not a frame")
            start = tell()
            skip()
            end = tell()
            encoded_inputs = payload[start:end]
            if end - start > INPUT_BYTES_MAX:
                ensure_inputs_fit(tick, encoded_inputs)
            field_hashes = phase_hashes = b""
            if element_count > 3:
                field_hashes = _binary(unpacker)
                if element_count > 4:
                    phase_hashes = _binary(unpacker)
                    for _ in range(element_count - 5):
                        skip()
                end = tell()
            state_hash, link = (None, proof) if is_link else (proof, b"")
            frames.append(Frame(tick, state_hash, encoded_inputs, field_hashes, phase_hashes, offset, link))
    except DECODE_ERRORS as error:
        raise CorruptError(offset, f"frames that cannot be decoded: {error}") from None
    return frames
