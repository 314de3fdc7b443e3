"""Steps of which only a frame is due: what they record, and what ends them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import xxhash

import recorder
from recorder import PeerDesyncError, Recorder
from recorder.format.journal_bytes import journal_contents
from recorder.storage.file_names import journal_path
from replayer.tape.tape import Tape
from sim import Field, Schema, State

ONLY_FRAMES: Any = {"blame": "none", "trial_ms": 0, "durability": "tick", "deterministic": True}


class Adder:
    """Adds its inputs, if they are numbers, and notes each state."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "i8")))
        self.hashes: list[int] = []
        self.field_hashes: list[bytes] = []  # The lowest 16 bits of that of the one field.

    def step(self, inputs: Any) -> int:
        self.state["sum"][...] += inputs if type(inputs) is int and abs(inputs) < 1000 else 1
        self.hashes.append(self.state.hash())
        self.field_hashes.append(xxhash.xxh3_64_digest(self.state["sum"].tobytes())[-2:])
        return int(self.state["sum"])


# MessagePack's own bytes.
INPUTS: list[tuple[Any, bytes]] = [
    (0, b"\x00"), (1, b"\x01"), (127, b"\x7f"), (128, b"\xcc\x80"), (-1, b"\xff"), (True, b"\xc3"), (False, b"\xc2"),
    (None, b"\xc0"), (1.0, b"\xcb\x3f\xf0" + bytes(6)), ("a", b"\xa1a"), ([1], b"\x91\x01"), (1 << 63, b"\xcf\x80" + bytes(7)),
]  # fmt: skip


@pytest.mark.parametrize("blame", ["none", "fields"])
def test_the_frames_that_are_kept_and_written(tmp_path: Path, blame: str) -> None:
    """Before a step returns, its frame is in the journal, with the bytes that SPEC.md states; later on the tape."""
    world, path = Adder(), tmp_path / "a.tape"

    def frame(tick: int, encoded: bytes) -> bytes:
        numbers = b"\xcf" + struct.pack(">Q", tick) + b"\xcf" + struct.pack(">Q", world.hashes[-1])
        if blame == "none":
            return b"\x93" + numbers + encoded
        return b"\x94" + numbers + encoded + b"\xc4\x02" + world.field_hashes[-1]

    tape = Recorder(path, world, **ONLY_FRAMES | {"blame": blame})
    tape.step(5)  # What comes next depends on the first step.
    wanted = [frame(1, b"\x05")]
    for tick, (inputs, encoded) in enumerate(INPUTS, 2):
        before = int(world.state["sum"])
        assert tape.step(inputs) == before + (inputs if type(inputs) is int and abs(inputs) < 1000 else 1)
        assert tape.tick == tick
        assert tape._is_plain
        wanted.append(frame(tick, encoded))
        kept = journal_contents(Path(journal_path(path)).read_bytes()).frames
        assert [one.encode() for one in kept] == wanted
    tape.close()
    with Tape(path) as opened:
        assert [opened.frame(tick).encode() for tick in range(1, len(wanted) + 1)] == wanted


def test_a_peer_that_comes_late_is_compared(tmp_path: Path) -> None:
    """Of a tick to come as well, although the steps before compared nothing."""
    with Recorder(tmp_path / "a.tape", Adder(), **ONLY_FRAMES) as tape:
        for number in range(5):
            tape.step(number)
        tape.report_hash(7, 1)
        tape.step(5)
        with pytest.raises(PeerDesyncError):
            tape.step(6)


def test_a_step_that_raises_and_inputs_that_cannot_be_recorded(tmp_path: Path) -> None:
    """The first ends the recording of what does not keep attempts; of the second nothing has happened."""
    world = Adder()
    tape = Recorder(tmp_path / "a.tape", world, **ONLY_FRAMES)
    tape.step(1)
    tape.step(1)
    with pytest.raises(TypeError, match="the inputs of tick 3"):
        tape.step(object())
    assert tape.step(1) == 3
    world.step = lambda _: 1 // 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        tape.step(1)
    with pytest.raises(recorder.SimulationFailedError):
        tape.step(1)
    tape.close()
    with Tape(tmp_path / "a.tape") as opened:
        assert opened.last_tick == 3
