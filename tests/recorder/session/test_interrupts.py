"""An interrupt at any instruction of a step: the recording goes on, or says that its step failed; the tape is right."""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import recorder
import replayer
from recorder import ConcurrentStepError, Recorder
from recorder.calls_under_way import is_another_under_way
from recorder.errors import SimulationFailedError
from sim.adapters.find_adapter import adapt

PARTS = 60
KEYFRAME_TICKS = 2


class Game:
    """Two attributes that belong together."""

    def __init__(self) -> None:
        self.turns = 0
        self.seen: list[int] = []

    def step(self, card: int = 0) -> int:
        self.turns += 1
        self.seen.append(card)
        return self.turns


class Saved:
    """The same with save and load."""

    def __init__(self) -> None:
        self.turns = self.seen = 0

    def step(self, card: int = 0) -> int:
        self.turns += 1
        self.seen += card
        return self.turns

    def save(self) -> bytes:
        return self.turns.to_bytes(4, "little") + self.seen.to_bytes(4, "little")

    def load(self, data: bytes) -> None:
        self.turns, self.seen = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:], "little")


STEPS = (
    Recorder.step,
    Recorder._step_whole,
    Recorder._leave_half_done,
    is_another_under_way,
)
WAYS: dict[str, Any] = {
    "plain object": (lambda path: recorder.record(Game(), path, **OPTIONS), lambda: adapt(Game()), Game.step),
    "save and load": (lambda path: Recorder(path, Saved(), **OPTIONS), Saved, Saved.step),
}
OPTIONS: dict[str, Any] = {"trial_ms": 0, "keyframe_interval_ticks": KEYFRAME_TICKS, "sync": "never"}


class Interrupt:
    """Raises KeyboardInterrupt before one instruction, by its number, of those of some functions."""

    def __init__(self, codes: set[CodeType], at: int) -> None:
        self.codes, self.at = codes, at
        self.count = 0

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, _event: str, _: Any) -> Any:
        if frame.f_code not in self.codes:
            return None
        frame.f_trace_opcodes = True
        return self._instruction

    def _instruction(self, _frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt
        return self._instruction


def interrupted(path: Path, way: str, at: int) -> bool:
    """Interrupt the third step, which has no keyframe, or the fourth, which has one; False if it ended before."""
    start, world, own_step = WAYS[way]
    codes = {one.__code__ for one in (*STEPS, own_step)}
    tape = start(path)
    tape.step(1)
    tape.step(2)
    came = False
    try:
        with Interrupt(codes, at):
            tape.step(3)
            tape.step(4)
    except KeyboardInterrupt:
        came = True
    try:
        for card in range(5, 8):
            tape.step(card)
    except SimulationFailedError:
        pass
    tape.close()
    with replayer.open(path, world=world) as run:
        report = run.verify()
        assert report.ok, f"instruction {at}: {report}"
        assert len(run) >= 3, "the ticks before are kept"
    return came


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.seldom(0.15)
def test_an_interrupt_at_any_instruction(tmp_path: Path, way: str, part: int) -> None:
    """No later step is told that another one is under way; all that is on the tape replays."""
    for number in itertools.count():
        if not interrupted(tmp_path / f"{number}.tape", way, part + 1 + number * PARTS):
            break
    assert number > 3, "hardly an instruction was interrupted"


def test_a_step_that_waits_elsewhere_is_still_under_way(tmp_path: Path) -> None:
    """After an interrupted call was forgotten, two steps at one time are refused as before."""
    tape = Recorder(tmp_path / "a.tape", Saved(), **OPTIONS)
    with pytest.raises(KeyboardInterrupt), Interrupt({Recorder.step.__code__}, 12):
        tape.step(1)
    refused: list[BaseException] = []

    def run() -> None:
        try:
            tape.step(2)
        except ConcurrentStepError as error:
            refused.append(error)

    def during(_: Any) -> None:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(30)

    tape.simulation.step = during
    tape.step(3)
    assert len(refused) == 1
    assert not tape._steps
    tape.close()
