"""An object whose step needs arguments is tried with those of its first recorded steps, and nothing is claimed before."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import recorder
import replayer
from recorder.adapted.later_trial import STEPS
from recorder.errors import RecordingWarning

pytestmark = pytest.mark.tried

TRIAL_MS = 2000.0  # The machine may be busy.
SAME = "restored and run again with the same states and results"


class Shop:
    def __init__(self) -> None:
        self.random = random.Random(1)
        self.cash, self.names = 0.0, ["a"]

    def advance(self, dt: float, order: str | None = None) -> float:
        if order == "explode":
            raise RuntimeError("boom")
        self.cash += self.random.random() * dt
        self.names.append(str(order))
        del self.names[:-5]
        return self.cash


class Ticket:
    """Numbered by its class: no seek restores the number."""

    count = 0

    def __init__(self) -> None:
        self.number = Ticket.count
        Ticket.count += 1


class Office:
    """Shows what a seek does not restore only if it is ordered to."""

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []
        self.total = 0

    def advance(self, order: str) -> int:
        if order == "draw":
            self.tickets.append(Ticket())
            self.total += self.tickets[-1].number
            del self.tickets[:-3]
        return self.total


class Warmed:
    """A step is slower the first time, by what a module keeps: runs after the first one are all equal."""

    warm: ClassVar[set[float]] = set()

    def __init__(self) -> None:
        self.misses = 0

    def advance(self, x: float, y: float) -> None:
        key = x * 10 + y
        if key not in Warmed.warm:
            Warmed.warm.add(key)
            self.misses += 1


def play(subject: Any, path: Path, calls: list[Callable[[Any], Any]], **options: Any) -> list[str]:
    """Record these calls, and return the texts of all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        game = recorder.record(subject, path, step="advance", **{"trial_ms": TRIAL_MS, **options})
        for call in calls:
            call(game)
        game.close()
    return [str(one.message) for one in caught if issubclass(one.category, RecordingWarning)]


def test_nothing_is_claimed_before_the_first_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After some steps they are made again in a copy, from the start, with the recorded arguments."""
    path = tmp_path / "run.tape"
    calls: list[Callable[[Any], Any]] = [lambda game: game.advance(1), lambda game: game.advance(0.5, order="x")] * 6
    assert not play(Shop(), path, calls)
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == f"not tried yet: advance() needs arguments; it is tried with those of the first {STEPS} steps"
    assert (
        second
        == f"recording {path}: Shop: exact, untested: Shop captured; no attribute of these objects, and of what they hold, is left out"
    )
    assert third.startswith(f"recording {path}: tried 1 run of {STEPS} steps with the recorded arguments in ")
    assert third.endswith(f": {SAME}")
    with replayer.open(path, world=Shop) as run:
        assert run.verify().ok
        assert run.last_tick == len(calls)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_short_recording_is_tried_at_its_close(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = 0 if count else 1  # That it saw no step.
    assert len(play(Shop(), tmp_path / "run.tape", [lambda game: game.advance(2)] * count)) == expected
    lines = capsys.readouterr().err.splitlines()[2:]
    assert len(lines) == bool(count)
    assert all(SAME in line and f"of {count} step" in line for line in lines)


@pytest.mark.parametrize("at", [0, 4])
def test_a_step_that_raises_ends_what_is_tried(at: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Or begins it again, if it was the first one."""

    def explode(game: Any) -> None:
        with pytest.raises(RuntimeError, match="boom"):
            game.advance(1, order="explode")

    calls: list[Callable[[Any], Any]] = [lambda game: game.advance(3)] * 12
    assert not play(Shop(), tmp_path / "run.tape", [*calls[:at], explode, *calls[at:]])
    (line,) = capsys.readouterr().err.splitlines()[2:]
    assert f"tried 1 run of {at or STEPS} steps with the recorded arguments in " in line
    assert line.endswith(SAME)
    with replayer.open(tmp_path / "run.tape", world=Shop) as run:
        assert run.verify().ok
        assert run.last_tick == 13


@pytest.mark.seldom(0.18)
def test_what_only_real_arguments_show_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With None nothing differs."""
    Ticket.count = 0
    (warned,) = play(Office(), tmp_path / "run.tape", [lambda game: game.advance("draw")] * 10)
    assert warned.startswith("a step reads Ticket.count (class attribute), which a restore does not bring back")
    assert ". The recording continues, and may not replay exactly: replay verify compares every tick" in warned
    first, _, third = capsys.readouterr().err.splitlines()
    assert " with None as the argument in " in first
    assert first.endswith(f"{SAME}; it is tried again with the arguments of the first {STEPS} steps")
    assert "tried 1 run of 8 steps with the recorded arguments" in third


def test_the_recorded_run_itself_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What has changed for good in the first run makes all later runs equal, and different from the recording."""
    Warmed.warm.clear()
    path = tmp_path / "run.tape"
    (warned,) = play(Warmed(), path, [lambda game: game.advance(1, 2)] * 10)
    assert warned.startswith(
        "restored to the first recorded tick, it does not run again as it was recorded: the state after step 1 differs: "
        "misses; "
    )
    assert f"`replay check {Warmed.__module__}:Warmed --inputs {path}` tries more" in warned
    assert "not tried yet" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{"trial_ms": 0}, {"quiet": True}])
def test_nothing_is_printed_that_was_not_asked_for(
    options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a trial the line claims less; quiet prints nothing at all."""
    assert not play(Shop(), tmp_path / "run.tape", [lambda game: game.advance(1)] * 10, **options)
    printed = capsys.readouterr().err
    assert printed.endswith(
        "Shop: exact, untested: Shop captured; no attribute of these objects, and of what they hold, is left out\n"
    ) is ("quiet" not in options)
    assert "tried" not in printed


def test_a_run_that_ends_by_an_exception_is_not_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    game = recorder.record(Shop(), tmp_path / "run.tape", step="advance")
    game.advance(1)
    game.close({"reason": "exception", "exception": "ZeroDivisionError"})
    assert len(capsys.readouterr().err.splitlines()) == 2
