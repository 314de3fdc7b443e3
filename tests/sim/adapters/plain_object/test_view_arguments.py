"""Calls with views of arrays: they share their memory in a replay with what they shared it with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters.interface.adapter_registry import NotCapturedError


class Grid:
    """Keeps arrays, and writes to them later."""

    def __init__(self) -> None:
        self.cells = np.zeros((3, 4))
        self.reshaped = np.zeros(12).reshape(3, 4)  # A view of an array that only this one holds.
        self.layers = [np.zeros(6)]
        self.kept: list[Any] = []

    def play(self, *values: Any) -> None:
        """Keep the arguments."""
        self.kept.append(values)

    def paint(self) -> None:
        """Write to the first argument of each call."""
        for (first, *_), number in zip(self.kept, range(1, 99), strict=False):
            array = first[0] if isinstance(first, list) else first
            array += number


class Keeper:
    """Keeps what its step gets, and adds it up."""

    def __init__(self, keep: str) -> None:
        self.keep, self.total = keep, 0.0
        self.kept: Any = {"last": None, "in a dict": {}}.get(keep, [])

    def step(self, row: Any) -> None:
        """Keep a row."""
        self.total += float(row.sum())
        if self.keep == "all":
            self.kept = [*self.kept[-2:], row]
        elif self.keep == "last":
            self.kept = row
        elif self.keep == "in a dict":
            self.kept[len(self.kept) % 3] = (row[:2], row[1:])

    def values(self) -> Any:
        """The total, and what is kept."""
        return self.total, repr(self.kept)


def cut(*places: Any) -> list[Any]:
    """Views of one array."""
    array = np.zeros(6)
    return [array[place] for place in places]


VIEWS: dict[str, Any] = {
    "a row of the game": lambda grid: [grid.cells[1]],
    "a row of a reshaped array": lambda grid: [grid.reshaped[1]],
    "a reshaped array": lambda grid: [grid.reshaped],
    "its columns, and itself": lambda grid: [grid.reshaped.T, grid.reshaped, grid.reshaped[2]],
    "a part of an array in a list": lambda grid: [grid.layers[0][:3], 1],
    "two views": lambda _: cut(np.s_[:4], np.s_[2:]),
    "two views in a list": lambda _: [cut(np.s_[:4], np.s_[2:])],
    "an array and its view": lambda _: cut(np.s_[...], np.s_[2:4]),
    "a view alone": lambda _: [np.arange(6.0)[2:]],
    "another shape": lambda _: [np.arange(6.0).reshape(2, 3)],
    "a row of a small table": lambda _: [np.arange(40.0).reshape(10, 4)[3]],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_its_memory_in_a_replay(name: str, tmp_path: Path) -> None:
    """Also where its bytes are in one piece, as those of an array of its own."""

    def state(grid: Any) -> Any:
        kept = [one.tolist() for values in grid.kept for value in values for one in (value if type(value) is list else [value])
                if isinstance(one, np.ndarray)]  # fmt: skip
        return grid.cells.tolist(), grid.reshaped.tolist(), grid.layers[0].tolist(), kept

    with recorder.record(Grid(), tmp_path / "run.tape", step=("play", "paint"), quiet=True, trial_ms=0) as grid:
        grid.play(*VIEWS[name](grid.subject))
        grid.paint()
        live = state(grid.subject)
    with replayer.open(tmp_path / "run.tape", world=Grid) as run:
        assert run.verify().ok
        run.seek(2)
        assert state(run.subject) == live


@pytest.mark.parametrize("keep", ["all", "last", "in a dict"])
def test_rows_of_one_array_that_the_object_keeps(keep: str, tmp_path: Path) -> None:
    """The first call writes the array; the others find it by what was kept."""
    rows = np.arange(80.0).reshape(20, 4)
    with recorder.record(Keeper(keep), tmp_path / "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=4) as one:
        for row in rows:
            one.step(row)
        live = one.subject.values()
    with replayer.open(tmp_path / "run.tape", world=lambda: Keeper(keep)) as run:
        assert run.verify().ok
        run.seek(-1)
        assert run.subject.values() == live


def test_a_row_of_a_large_array_that_the_object_keeps_is_refused(tmp_path: Path) -> None:
    """A replay would have the row alone. What is not kept, and a copy, are recorded."""
    rows = np.arange(4000.0).reshape(20, 200)
    with recorder.record(Keeper("none"), tmp_path / "none.tape", quiet=True, trial_ms=0) as one:
        for row in rows:
            one.step(row)
    with recorder.record(Keeper("all"), tmp_path / "copies.tape", quiet=True, trial_ms=0) as one:
        for row in rows:
            one.step(row.copy())
    for name, keep in (("none", "none"), ("copies", "all")):
        with replayer.open(tmp_path / f"{name}.tape", world=lambda keep=keep: Keeper(keep)) as run:
            assert run.verify().ok
    with (
        recorder.record(Keeper("all"), tmp_path / "run.tape", quiet=True, trial_ms=0) as one,
        pytest.raises(NotCapturedError, match=r"such as a row of a large table.*row\.copy\(\)"),
    ):
        one.step(rows[0])


def test_a_row_of_an_array_that_was_assigned_just_now_is_refused(tmp_path: Path) -> None:
    """In a replay, no steps lead to it: the assignment comes first."""
    with recorder.record(Grid(), tmp_path / "run.tape", step=("play", "paint"), quiet=True, trial_ms=0) as grid:
        grid.paint()
        grid.reshaped = np.ones(12).reshape(3, 4)
        with pytest.raises(TypeError, match="no attributes, items and keys of the recorded object lead to it"):
            grid.play(grid.subject.reshaped[1])
