"""Arrays that see one memory: whichever of them owns it, a replay is right, and its states are the recorded ones.

``tools/campaigns/random_programs.py`` compares many more random runs.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import adapt, fields

from arrays_of_one_memory import Part, Sharing
from seen_in_each_way import compare

RUNS = 6


def test_random_runs_are_the_same_however_they_are_seen(tmp_path: Path) -> None:
    for _ in range(RUNS):
        seed = random.randrange(1 << 32)
        compare(Sharing, seed, tmp_path / f"{seed}.tape")


@pytest.mark.parametrize("seed", [7, 17, 27, 43, 44, 1057])
def test_runs_that_differed_once(seed: int, tmp_path: Path) -> None:
    compare(Sharing, seed, tmp_path / "run.tape")


class Steps:
    """Its array is made by reshape in step 3; a step does what is asked of it at its tick."""

    do: ClassVar[dict[int, Callable[[Any], None]]]

    def __init__(self, do: dict[int, Callable[[Any], None]]) -> None:
        self.t = 0
        self.grid: Any = None
        self.rows: list[Any] = []
        self.part = Part()
        type(self).do = do

    def step(self, _: Any = None) -> None:
        self.t += 1
        if self.t == 3:
            self.grid = np.arange(6.0).reshape(3, 2)
        if self.t in self.do:
            self.do[self.t](self)
        if self.grid is not None:
            self.grid += 1

    def values(self) -> tuple[Any, ...]:
        grid = None if self.grid is None else self.grid.tolist()
        return self.t, grid, [row.tolist() for row in self.rows]


def keep_a_row(steps: Steps) -> None:
    steps.rows.append(steps.grid[1])


def get_an_attribute(steps: Steps) -> None:
    steps.name = "another structure"  # type: ignore[attr-defined]


def lose_the_grid(steps: Steps) -> None:
    steps.grid = None


def keep_the_grid_elsewhere(steps: Steps) -> None:
    steps.part.found, steps.grid = steps.grid, np.zeros((3, 2))  # type: ignore[attr-defined]


def see_it_in_its_place(steps: Steps) -> None:
    steps.grid = steps.grid.reshape(-1).reshape(3, 2)


def lose_the_rows(steps: Steps) -> None:
    steps.rows.clear()


CASES: dict[str, dict[int, Callable[[Any], None]]] = {
    "a row is kept, and then an attribute comes": {7: keep_a_row, 9: get_an_attribute},
    "a row outlives the array": {7: keep_a_row, 9: lose_the_grid, 12: get_an_attribute},
    "a row is taken in the step that drops the array": {7: lambda s: (keep_a_row(s), lose_the_grid(s))},
    "the array moves while a row is kept": {7: keep_a_row, 9: keep_the_grid_elsewhere, 13: get_an_attribute},
    "the array moves alone": {7: keep_the_grid_elsewhere, 9: get_an_attribute, 13: lose_the_rows},
    "a view takes the array's place": {
        6: see_it_in_its_place,
        7: keep_a_row,
        9: see_it_in_its_place,
        13: get_an_attribute,
    },
    "rows come and go": {6: keep_a_row, 8: lose_the_rows, 9: get_an_attribute, 11: keep_a_row, 14: lose_the_rows},
}


@pytest.mark.parametrize("do", CASES.values(), ids=CASES)
def test_each_tick_is_reached_from_each_keyframe(do: dict[int, Callable[[Any], None]], tmp_path: Path) -> None:
    """The plain loop beside the recording is the truth, by a new timeline for each tick."""
    tape, live = tmp_path / "steps.tape", Steps(do)
    recorded = recorder.record(live, tape, fields(), quiet=True, trial_ms=0, keyframe_interval_ticks=5)
    truth = [live.values()]
    for _ in range(20):
        recorded.step(None)
        truth.append(live.values())
    recorded.close()

    def world() -> Any:
        return adapt(Steps(do), fields())

    for tick, values in enumerate(truth):
        with replayer.open(tape, world=world) as run:
            run.seek(tick)
            assert run.subject.values() == values
    with replayer.open(tape, world=world) as run:
        report = run.verify()
    assert report.ok
    assert report.wrong_keyframes == []


class Given:
    """Its array is a view of all of one that its maker has, too."""

    made: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        base = np.arange(6.0)
        self.made[:] = [base]
        self.t = 0
        self.buffer: Any = None
        self.grid = base.reshape(2, 3)
        self.rows: list[Any] = []

    def step(self) -> None:
        self.t += 1
        self.grid += 1
        if self.buffer is not None:
            self.buffer[0] += 10

    def keep(self, row: Any) -> None:
        self.rows.append(row)

    def values(self) -> str:
        return repr((self.t, self.grid, self.buffer, self.rows))


@pytest.mark.parametrize("how", ["assigned", "passed"])
def test_a_base_that_comes_from_outside_shares_its_memory(how: str, tmp_path: Path) -> None:
    game = Given()
    (base,) = Given.made
    recorded: Any = recorder.record(
        game, tmp_path / "given.tape", step=["step", "keep"], quiet=True, trial_ms=0, keyframe_interval_ticks=5
    )
    truth = [game.values()]
    for tick in range(16):
        if tick == 6 and how == "assigned":
            recorded.buffer = base
        if tick in (6, 8) and how == "passed":
            recorded.keep(base if tick == 6 else game.grid[1])
        else:
            recorded.step()
        truth.append(game.values())
    recorded.close()
    with replayer.open(tmp_path / "given.tape", world=Given) as run:
        for tick, values in enumerate(truth):
            run.seek(tick)
            assert run.subject.values() == values
        report = run.verify()
    assert report.ok
    assert report.wrong_keyframes == []


class Watching:
    """It knows by a weak reference if an array that it had is still there."""

    def __init__(self) -> None:
        self.t = 0
        self.grid = np.arange(6.0).reshape(2, 3)
        self.seen = weakref.ref(self.grid)
        self.is_gone = False

    def step(self) -> None:
        self.t += 1
        self.is_gone = self.seen() is None
        if self.t % 4 == 2:
            self.grid = np.arange(6.0).reshape(2, 3)
        if self.t % 4 == 0:
            self.seen = weakref.ref(self.grid)


def test_an_array_that_a_weak_reference_sees_is_not_kept_for_later_steps(tmp_path: Path) -> None:
    plain, live = Watching(), Watching()
    with recorder.record(
        live, tmp_path / "watching.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=5
    ) as watching:
        for _ in range(12):
            plain.step()
            watching.step()
            assert live.is_gone == plain.is_gone
    with replayer.open(tmp_path / "watching.tape", world=Watching) as run:
        assert run.verify().ok
