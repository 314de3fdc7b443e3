"""Inputs of a desync left out: a planted one needs exactly its causes, and the new tape shows it; sections are kept."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.exit_codes import SAME, USAGE
from replayer.commands.main import main
from replayer.tape.copied_range import UnfitTapeError
from sim import Field, Schema, State

TICKS, INTERVAL = 120, 10


class Cellar:
    """Opening the door twice makes a draught that no field holds; a candle then burns faster."""

    def __init__(self, *, leaks: bool = True) -> None:
        self.state = State(Schema(Field("candle", "i8"), Field("steps", "i8"), Field("noise", "i8")))
        self.leaks, self.draught = leaks, 0

    def step(self, inputs: Any) -> None:
        """Follow an order."""
        state = self.state
        state["steps"][...] += 1
        if inputs == "open":
            self.draught += self.leaks
        elif inputs == "light":
            state["candle"][...] += 10 + (self.draught >= 2)
        elif inputs is not None:
            state["noise"][...] += inputs


def tight() -> Cellar:
    """A cellar without a draught."""
    return Cellar(leaks=False)


def recorded(path: Path, factory: Any = Cellar) -> None:
    """A run in which the door is opened at ticks 13 and 37, and the candle lit at tick 75."""
    chance = random.Random(5)
    orders = {13: "open", 37: "open", 75: "light", 90: "open"}
    options: Any = {"keyframe_interval_ticks": INTERVAL, "trial_ms": 0}
    looks = [0]
    with recorder.Recorder(path, factory(), aux=lambda _: {"camera": looks[0] // 9}, **options) as tape:
        for tick in range(1, TICKS + 1):
            looks[0] = tick
            tape.step(orders.get(tick, chance.choice([None, 1, 2])))


@pytest.mark.seldom(0.15)
def test_a_desync_needs_its_causes_alone(tmp_path: Path) -> None:
    """The two openings and the candle; and verify finds it in the new tape at the same tick."""
    path, small = tmp_path / "run.tape", tmp_path / "small.tape"
    recorded(path)
    report = replayer.shrink(path, world=Cellar, desync=True, output=small)
    assert [(one.tick, one.value) for one in report.inputs] == [(13, "open"), (37, "open"), (75, "light")]
    assert (report.tick, report.recorded_tick, report.failure) == (75, 75, "a desync in candle")
    verified = replayer.verify_tape(small, Cellar)
    assert verified.first_bad == 75
    with replayer.Tape(path) as before, replayer.Tape(small) as after:
        assert [after.aux[tick] for tick in range(76)] == [before.aux[tick] for tick in range(76)]
        assert after.aux[75] == {"camera": 8}


@pytest.mark.seldom(0.18)
def test_several_trials_at_once_find_the_same(tmp_path: Path) -> None:
    """Of a desync, of a condition with many and with few inputs; whatever was tried ahead."""
    path = tmp_path / "run.tape"
    recorded(path)
    alone, together = (replayer.shrink(path, world=Cellar, desync=True, jobs=jobs) for jobs in (1, 3))
    assert (together.inputs, together.tick) == (alone.inputs, alone.tick)
    for limit in (3, 11, 40):
        found = [replayer.shrink(path, f"noise > {limit}", Cellar, jobs=jobs) for jobs in (1, 2, 5)]
        assert [(one.inputs, one.tick) for one in found[1:]] == [(found[0].inputs, found[0].tick)] * 2


def test_a_run_without_a_desync_is_refused(tmp_path: Path) -> None:
    """One line, and nothing is written."""
    path = tmp_path / "run.tape"
    recorded(path, tight)
    with pytest.raises(UnfitTapeError, match="does not come in the recorded run"):
        replayer.shrink(path, world=tight, desync=True, output=tmp_path / "small.tape")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run.tape"]


@pytest.mark.seldom(0.18)
def test_a_tape_that_ends_in_an_exception_of_its_own(tmp_path: Path) -> None:
    """The ticks before it are replayed; the step that raised when it was recorded is no finding."""

    class Ends(Cellar):
        def step(self, inputs: Any) -> None:
            if inputs == "break":
                raise ValueError("boom")
            super().step(inputs)

    def tight_end() -> Ends:
        return Ends(leaks=False)

    for factory, desync_tick in ((Ends, 37), (tight_end, None)):
        path = tmp_path / f"{factory.__name__}.tape"
        orders = {13: "open", 31: "open", 37: "light"}
        with recorder.Recorder(path, factory(), keyframe_interval_ticks=INTERVAL, trial_ms=0) as tape:
            for tick in range(1, 38):
                tape.step(orders.get(tick, 1))
            with pytest.raises(ValueError, match="boom"):
                tape.step("break")
        assert replayer.verify_tape(path, factory).first_bad == desync_tick
        if desync_tick is not None:
            report = replayer.shrink(path, world=factory, desync=True)
            assert [(one.tick, one.value) for one in report.inputs] == [(13, "open"), (31, "open"), (37, "light")]
        else:
            with pytest.raises(UnfitTapeError, match=r"does not come in the recorded run.*verify"):
                replayer.shrink(path, world=factory, desync=True)


def test_other_code_is_no_desync_to_shrink(tmp_path: Path) -> None:
    """The run itself differs from the tape: that is named with its tick."""
    path = tmp_path / "run.tape"
    recorded(path)
    with pytest.raises(replayer.DesyncError, match="75"):
        replayer.shrink(path, world=tight, desync=True)


@pytest.mark.seldom(0.18)
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says where the new tape diverges, and takes one failure only."""
    path, small = tmp_path / "run.tape", tmp_path / "small.tape"
    recorded(path)
    words = ["shrink", str(path), "-o", str(small), "--sim", f"{__name__}:Cellar"]
    assert status([*words, "--desync", "--until", "candle > 3"]) == USAGE
    assert status([*words, "--desync"]) == SAME
    out = capsys.readouterr().out
    assert "a desync in candle: needs 3 of" in out
    assert "replay verify finds the desync at tick 75" in out
    small.unlink()
    assert status([*words, "--desync", "--json"]) == SAME
    facts = json.loads(capsys.readouterr().out)
    assert (facts["tick"], facts["is_desync"], facts["verified"]) == (75, True, True)


def status(words: list[str]) -> int:
    """Run a command line and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)
