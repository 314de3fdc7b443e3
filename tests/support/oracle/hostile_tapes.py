"""Small tapes with right checksums and contents that no recorder would write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recorder.format.blocks.file_header import make_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.segments.segment_encoder import Piece, SegmentEncoder, frames_piece, full_pieces
from sim import Field, Schema, State
from sim.kernel.plain_data import encode_plain

from keyframe_payloads import encode_full

SETTINGS: dict[str, Any] = {
    "keyframe_interval_ticks": 300,
    "full_every": 10,
    "durability": "block",
    "sync_interval_s": 1.0,
    "sync_each_block": False,
    "on_error": "continue",
    "keep_ticks": None,
    "keep_s": None,
    "split_bytes": None,
    "deterministic": True,
}


class Still:
    """A simulation that never changes: every tick has the same hash."""

    def __init__(self, size: int = 4) -> None:
        self.state = State(Schema(Field("x", "i8", (size,))))

    def step(self, inputs: Any) -> None:
        """Take any inputs."""


STILL_HASH = Still().state.snapshot().hash()


def meta(**more: Any) -> bytes:
    """A META payload."""
    known = {"world": None, "simulation": "Still", "mode": "events", "settings": SETTINGS, "notes": {}}
    return encode_plain({**known, **more})


def full(tick: int) -> list[Piece]:
    """A full keyframe."""
    return full_pieces(tick, encode_full(tick, STILL_HASH, Still().state.snapshot()))[0]


def frames(first: int, count: int, inputs: bytes = b"\x01", state_hash: int = STILL_HASH) -> Piece:
    """Frames of consecutive ticks."""
    encoded = [encode_frame(tick, state_hash, inputs) for tick in range(first, first + count)]
    return frames_piece(first, count, b"".join(encoded))


def write_tape(
    path: Path, pieces: Sequence[Piece], meta_payload: bytes | None = None, outcome: Any = None, *, sealed: bool = True
) -> bytes:
    """Write a tape of these blocks; return its bytes."""
    encoder = SegmentEncoder(make_file_header(bytes(16), 0, 0), meta_payload if meta_payload is not None else meta())
    parts = [encoder.start()]
    for piece in pieces:
        parts += [encoder.place(piece), encoder.index_if_due()]
    if sealed:
        parts += [encoder.last_index(), encoder.end(outcome or {"reason": "tea"}, final=True)]
    path.write_bytes(b"".join(parts))
    return b"".join(parts)
