"""What the state is depends on the objects of a simulation alone: not on garbage, nor on who else holds their memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import adapt, fields

HELD: list[Any] = []  # As a variable of a notebook, or a list of the caller.


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    """Garbage stays until the end of a test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    HELD.clear()
    gc.collect()


def hold_by_a_dead_cycle(array: Any) -> None:
    ring: list[Any] = [array]
    ring.append(ring)


HOLDERS: dict[str, Callable[[Any], None]] = {
    "a dead cycle": hold_by_a_dead_cycle,
    "a list of the caller": HELD.append,
}


class Sea:
    """Its waves are a new array, made by reshape, in each third step; the size says whether the field is a hot one."""

    hold: ClassVar[Callable[[Any], None] | None] = None  # Who else gets each base.

    def __init__(self, size: int = 6) -> None:
        self.t = 0
        self.waves = self.made(np.arange(float(size)))
        self.depth = np.ones(3)
        self.name = "calm"
        self.rows: list[Any] = []

    def made(self, flat: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if type(self).hold is not None:
            type(self).hold(flat)
        return flat.reshape(2, -1)

    def step(self, inputs: Any) -> None:
        self.t += 1
        self.waves += inputs or 0
        if self.t % 3 == 0:
            self.waves = self.made(np.arange(float(self.waves.size)) * self.t)
        if self.t % 7 == 0:
            setattr(self, f"mark{self.t}", [self.t])  # The structure is another one: everything is surveyed again.

    def values(self) -> tuple[Any, ...]:
        return self.t, self.waves.tolist(), self.depth.tolist()


def record(path: Path, hold: Callable[[Any], None] | None, size: int, ticks: int = 24) -> list[tuple[Any, ...]]:
    Sea.hold = staticmethod(hold) if hold else None  # type: ignore[assignment]
    try:
        sea = Sea(size)
        recorded = recorder.record(sea, path, fields(), quiet=True, trial_ms=0, keyframe_interval_ticks=8)
        truth = [sea.values()]
        for tick in range(ticks):
            recorded.step(tick % 4)
            truth.append(sea.values())
        recorded.close()
    finally:
        Sea.hold = None
    return truth


SIZES = {"hot": 6, "large": 6000}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_state_is_the_same_whoever_holds_the_memory(holder: str, size: int) -> None:
    found = []
    for hold in (None, HOLDERS[holder]):
        Sea.hold = staticmethod(hold) if hold else None  # type: ignore[assignment]
        try:
            simulation = adapt(Sea(size), fields())
            found.append([simulation.state.hash()])
            for tick in range(24):
                simulation.step(tick % 4)
                found[-1].append(simulation.state.hash())
        finally:
            Sea.hold = None
    assert found[0] == found[1]


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("recorded", [None, *HOLDERS])
@pytest.mark.parametrize("replayed", [None, *HOLDERS])
def test_a_used_timeline_seeks_whoever_holds_the_memory(
    recorded: str | None, replayed: str | None, size: int, tmp_path: Path
) -> None:
    truth = record(tmp_path / "sea.tape", HOLDERS.get(recorded or ""), size)
    Sea.hold = staticmethod(HOLDERS[replayed]) if replayed else None  # type: ignore[assignment]
    try:
        with replayer.open(tmp_path / "sea.tape", world=lambda: adapt(Sea(size), fields())) as run:
            for tick in (5, 17, 2, 23, 9, 0, 14):
                run.seek(tick)
                assert run.simulation.subject.values() == truth[tick]
                for _ in range(4):
                    run.simulation.subject.step(1)  # What was handed out is used.
                HELD.append(run.simulation.subject.waves.base)
                hold_by_a_dead_cycle(run.simulation.subject.waves.base)
            assert run.verify().ok
    finally:
        Sea.hold = None


class Pair:
    """Two names for one memory: each way to hold it, from the start or from a step on."""

    def __init__(self, way: str, *, at_start: bool) -> None:
        self.t = 0
        self.way = way
        self.grid = np.zeros((2, 3))
        self.other: Any = None
        if at_start:
            self.share()

    def share(self) -> None:
        flat = np.arange(6.0)
        HELD.append(flat)
        self.grid = flat.reshape(2, 3)
        self.other = WAYS[self.way](flat)

    def step(self, _: Any) -> None:
        self.t += 1
        if self.t == 5:
            self.share()
        self.grid += 1

    def values(self) -> tuple[Any, ...]:
        return self.t, self.grid.tolist(), FOUND[self.way](self.other) if self.other is not None else None


WAYS: dict[str, Callable[[Any], Any]] = {
    "the base": lambda flat: flat,
    "a view of all of it": lambda flat: flat.reshape(3, 2),
    "a view of a part": lambda flat: flat[2:],
    "a base in a list in a tuple": lambda flat: ([flat],),
    "a view in a dict": lambda flat: {"row": flat[:3]},
    "a view in an array of objects": lambda flat: np.array([flat[1:], None], object),
}
FOUND: dict[str, Callable[[Any], Any]] = {
    "the base": lambda one: one.tolist(),
    "a view of all of it": lambda one: one.tolist(),
    "a view of a part": lambda one: one.tolist(),
    "a base in a list in a tuple": lambda one: one[0][0].tolist(),
    "a view in a dict": lambda one: one["row"].tolist(),
    "a view in an array of objects": lambda one: one[0].tolist(),
}


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_what_the_objects_share_stays_shared(way: str, *, at_start: bool, tmp_path: Path) -> None:
    pair = Pair(way, at_start=at_start)
    recorded = recorder.record(
        pair, tmp_path / "pair.tape", fields(), quiet=True, trial_ms=0, keyframe_interval_ticks=4
    )
    truth = [pair.values()]
    for _ in range(12):
        recorded.step(None)
        truth.append(pair.values())
    recorded.close()
    with replayer.open(tmp_path / "pair.tape", world=lambda: adapt(Pair(way, at_start=at_start), fields())) as run:
        for tick in (3, 11, 6, 0, 9, 5, 12):
            run.seek(tick)
            assert run.simulation.subject.values() == truth[tick]
            run.simulation.subject.step(None)
        assert run.verify().ok


def test_what_the_caller_writes_through_the_base_is_in_the_next_state() -> None:
    flat = np.arange(6.0)
    sea = Sea()
    sea.waves = flat.reshape(2, 3)
    simulation = adapt(sea, fields())
    flat[0] = 40.0
    assert simulation.recapture() == ["Sea.waves"]
    flat[5] = 50.0
    simulation.step(0)
    assert simulation.state["Sea.waves"].tolist() == [[40.0, 1.0, 2.0], [3.0, 4.0, 50.0]]
