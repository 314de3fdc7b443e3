"""Golden tapes: equal runs give equal bytes, and a run that differs is named with its first tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from failing_worlds import Robot, Till

import replayer
from replayer.regression.failed_tapes import TAPES_MAX, TestRecorder, file_name
from replayer.regression.golden_tapes import compare_golden, record_golden

SALES = [[["sell", number % 3]] for number in range(30)]


class Generous(Till):
    """Pays one for an article."""

    def sell(self, article: int) -> None:
        super().sell(article)
        if article == 2:
            self.state["cash"][...] -= 1


class Rude(Till):
    """Refuses an article."""

    def sell(self, article: int) -> None:
        if article == 2:
            raise RuntimeError("no such thing")
        super().sell(article)


def play(robot: Any) -> None:
    """Push."""
    for number in range(12):
        robot.push("right" if number % 3 else "left")


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """The golden tape of a till."""
    path = tmp_path / "tapes" / "till.tape"
    assert record_golden(path, Till, SALES) == 30
    return path


def test_equal_runs_give_equal_bytes(golden: Path) -> None:
    """Of a simulation with a state, and of an object that a function plays with."""
    before = golden.read_bytes()
    record_golden(golden, Till, SALES)
    assert golden.read_bytes() == before
    assert compare_golden(golden, Till, SALES) is None
    robot = golden.with_name("robot.tape")
    for _ in range(2):
        record_golden(robot, Robot, play, step="push")
    assert compare_golden(robot, Robot, play, step="push") is None
    assert compare_golden(robot, Robot, ["left", "right", "right"] * 4, step="push") is None
    assert sorted(path.name for path in golden.parent.iterdir()) == ["robot.tape", "till.tape"]


@pytest.mark.parametrize(
    ("world", "inputs", "tick", "text"),
    [
        (Generous, SALES, 3, "DESYNC at tick 3; all ticks before it match"),
        (Rude, SALES, 3, "the step raised RuntimeError: no such thing"),
        (
            Till,
            [*SALES[:4], [["sell", 0]], *SALES[5:]],
            5,
            "the inputs of tick 5 are [['sell', 0]], and were [['sell', 1]]",
        ),
        (Till, SALES[:-1], None, "the run has 29 ticks, and had 30"),
        (Till, [*SALES, []], None, "the run has 31 ticks, and had 30"),
    ],
)
def test_a_run_that_differs(golden: Path, world: Any, inputs: list[Any], tick: int | None, text: str) -> None:
    """The first tick is named, and the golden tape stays as it is."""
    before = golden.read_bytes()
    differs = compare_golden(golden, world, inputs)
    assert differs is not None
    assert differs.tick == tick
    assert text in differs.text
    assert golden.read_bytes() == before


def test_what_cannot_be_recorded_leaves_the_old_tape(golden: Path) -> None:
    """Its error is that of the simulation."""
    before = golden.read_bytes()
    with pytest.raises(RuntimeError):
        record_golden(golden, Rude, SALES)
    assert [path.name for path in golden.parent.iterdir()] == ["till.tape"]
    assert golden.read_bytes() == before


def test_a_test_of_many_examples_keeps_the_last_ones(tmp_path: Path) -> None:
    """As hypothesis runs them: the last example is the one that fails."""
    (tmp_path / "scratch").mkdir()
    recorder = TestRecorder(tmp_path / "scratch", tmp_path / "kept", "test_till.py::test_many")
    for ticks in range(1, TAPES_MAX + 4):
        tape = recorder(Till())
        for _ in range(ticks):
            tape.step([["sell", 0]])
    recorder.keep(None)
    recorder.discard()
    kept = [replayer.Tape(path).last_tick for path in (tmp_path / "kept").iterdir()]
    assert sorted(kept) == list(range(4, TAPES_MAX + 4))


def test_tapes_of_a_failed_test_replace_older_ones(tmp_path: Path) -> None:
    """Under the name of the test, with its outcome; those of a passed one are removed."""
    for ticks in (5, 3):
        recorder = TestRecorder(
            tmp_path / "scratch", tmp_path / "kept", "tests/test_till.py::TestTill::test_one[a/b c]"
        )
        (tmp_path / "scratch").mkdir()
        tape, robot = recorder(Till()), recorder(Robot(), step="push")
        for inputs in SALES[:ticks]:
            tape.step(inputs)
        robot.push("left")
        recorder.keep(AssertionError("too few"))
        recorder.discard()
    first, second = tmp_path / "kept" / "tests-test_till-TestTill-test_one-a-b-c.tape", None
    second = first.with_name(f"{first.stem}-2.tape")
    assert sorted((tmp_path / "kept").iterdir()) == sorted([first, second])
    assert not (tmp_path / "scratch").exists()
    assert recorder.kept[0].endswith(f"replay seek {first} --tick 3 --sim failing_worlds:Till")
    with replayer.open(first, Till) as run:
        assert run.verify().ok
        assert (run.last_tick, run.tape.outcome["exception"]) == (3, "AssertionError: too few")
    assert replayer.verify_tape(second, Robot).ok
    assert len(file_name("x" * 300, 1)) < 130
