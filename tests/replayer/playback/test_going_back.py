"""Going backwards tick by tick: each tick is simulated once, or twice where not all states of an interval fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replayer
from replayer.playback.near_states import HELD_BYTES
from sim import Field, Schema, State, Table

from small_worlds import record
from viewed_worlds import Pond

TICKS, INTERVAL, ARRIVAL = 400, 200, 399


class CountedPond(Pond):
    """A pond that counts its steps."""

    steps = 0

    def step(self, inputs: Any) -> None:
        CountedPond.steps += 1
        super().step(inputs)


def pond_tape(folder: Path) -> tuple[Path, list[int]]:
    """Record a pond; its tape, and the hash of each state of a plain run."""
    path = folder / "pond.tape"
    record(path, Pond(), [[]] * TICKS, keyframe_interval_ticks=INTERVAL)
    truth, hashes = Pond(), list[int]()
    for _ in range(TICKS + 1):
        hashes.append(truth.state.hash())
        truth.step([])
    return path, hashes


@pytest.mark.parametrize("stride", [1, 7])
def test_each_tick_is_simulated_once(tmp_path: Path, stride: int) -> None:
    """From the last tick to the first, over a keyframe; the states are those of a plain run."""
    path, hashes = pond_tape(tmp_path)
    with replayer.open(path, CountedPond) as run:
        run.seek(ARRIVAL)
        CountedPond.steps = 0
        while run.tick >= stride:
            run.seek(run.tick - stride)
            assert run.state.hash() == hashes[run.tick]
    assert CountedPond.steps <= ARRIVAL


@pytest.mark.parametrize(("stride", "states"), [(1, 28), (7, 28), (7, 3), (1, 0)])
def test_each_tick_is_simulated_twice_where_few_states_fit(tmp_path: Path, stride: int, states: int) -> None:
    """28 states are twice the square root of an interval; with fewer it takes more steps, and never another state."""
    path, hashes = pond_tape(tmp_path)
    with replayer.open(path, CountedPond, near_bytes=states * (Pond().state.layout.size_bytes + HELD_BYTES)) as run:
        run.seek(ARRIVAL)
        CountedPond.steps = 0
        while run.tick >= stride:
            run.seek(run.tick - stride)
            assert run.state.hash() == hashes[run.tick]
            assert run._cursor is not None
            assert len(run._cursor._near) <= states
        if states >= 28:
            assert CountedPond.steps <= 2 * ARRIVAL
        for tick in (ARRIVAL, 3, 250, 249, 251, 180):
            run.seek(tick)
            assert run.state.hash() == hashes[tick]


class Growing:
    """A table that gets 4,000 rows more every 20 ticks."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("day", "i8"), Table("rows", Field("value", "i8"), capacity=4)))

    def step(self, inputs: Any) -> None:
        """The last row says when it came."""
        del inputs
        state = self.state
        state["day"][...] += 1
        if int(state["day"]) % 20 == 0:
            state.add_rows("rows", 4000)
            state["rows.value"][-1] = state["day"]


@pytest.mark.parametrize("near_bytes", [0, 100_000, 1 << 20])
def test_the_budget_holds_while_the_state_grows(tmp_path: Path, near_bytes: int) -> None:
    """When a seek begins at the keyframe the state is small: a thousand of it would fit, but not of what it becomes."""
    path = tmp_path / "growing.tape"
    record(path, Growing(), [[]] * 300, keyframe_interval_ticks=1000)
    truth, hashes = Growing(), []
    for _ in range(301):
        hashes.append(truth.state.hash())
        truth.step([])
    with replayer.open(path, Growing, near_bytes=near_bytes) as run:
        for tick in (300, *range(299, 270, -1), 40, *range(39, 25, -1), 290, *range(289, 285, -1)):
            run.seek(tick)
            assert run.state.hash() == hashes[tick]
            assert run._cursor is not None
            assert sum(one.arena.nbytes for one in run._cursor._near.values()) <= near_bytes


def test_a_budget_below_nothing_is_refused(tmp_path: Path) -> None:
    """One line."""
    path = tmp_path / "pond.tape"
    record(path, Pond(), [[]] * 3)
    with pytest.raises(ValueError, match="near_bytes: expected at least 0, got -1"):
        replayer.open(path, Pond, near_bytes=-1)
