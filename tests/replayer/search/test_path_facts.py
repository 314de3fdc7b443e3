"""Questions about recorded objects with a lookup file: the answers of a plain loop, and intervals that need no step."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from replayer.search.lookup.interval_facts import IntervalFacts
from replayer.search.lookup.lookup_file import lookup_path, stored, write_lookup
from replayer.search.lookup.make_lookup import Measured, measured_intervals
from replayer.search.watched_value import ABSENT, are_same

TICKS, INTERVAL = 120, 10


class Unit:
    """A member of the crowd."""

    def __init__(self, number: int) -> None:
        self.name, self.hp, self.share, self.alive = f"unit {number}", 10, 0.5, True


class Crowd:
    """Units that come and go, values that change seldom, and kinds that change."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.units = [Unit(number) for number in range(4)]
        self.gold = {"red": 0, "blue": -3}
        self.mood = "calm"
        self.odd: Any = 1
        self.depth = 0.0
        self.marks = [1, 2, 3]
        self.grid = np.zeros((2, 3), np.int32)
        self.late: Any = None

    def advance(self, order: str | None = None) -> None:
        """One tick: each part changes in some ticks only, some of them in a few."""
        rng, chance = self.rng, self.rng.random
        if order:
            self.gold[order] = self.gold.get(order, 0) + 5
        for unit in self.units:
            if chance() < 0.05:
                unit.hp -= rng.choice([1, 2, 4])
                unit.share = rng.choice([0.25, -0.5, 0.75])
            unit.alive = unit.hp > 0
        if chance() < 0.03:
            self.units = [unit for unit in self.units if unit.alive]
        if chance() < 0.03:
            self.units.append(Unit(rng.randrange(100)))
        if chance() < 0.03:
            self.mood = rng.choice(["calm", "angry"])
        if chance() < 0.03:
            self.odd = rng.choice([1, 2.5, "two", None, True, 1 << 70, [1], math.nan])
        if chance() < 0.03:
            self.depth = rng.choice([0.0, -0.0, 1.5, math.inf, math.nan])
        if chance() < 0.04:
            self.marks[rng.randrange(len(self.marks))] += 1
        if chance() < 0.02:
            self.marks.append(9)
        if chance() < 0.03:
            self.grid[rng.randrange(2), rng.randrange(3)] += 1
        if chance() < 0.03 and self.late is None:
            self.late = Unit(7)


def orders(tick: int) -> str | None:
    """The input of a tick."""
    return {40: "red", 41: "green", 90: "red"}.get(tick)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Crowd], int]:
    """A tape with a lookup file, the objects of a plain loop at each tick, and the seed."""
    seed = random.randrange(1 << 20)
    path = tmp_path_factory.mktemp("crowd") / "crowd.tape"
    options = {"keyframe_interval_ticks": INTERVAL, "keyframe_after_ms": None, "quiet": True, "trial_ms": 0}
    with recorder.record(Crowd(seed), path, step="advance", **options) as game:
        for tick in range(1, TICKS + 1):
            game.advance(orders(tick))
    with replayer.open(path, Crowd) as run:
        intervals = [stored(one) for one in measured_intervals(run.tape, run.counted_cursor(), Measured())]
        write_lookup(run.tape, lookup_path(path), intervals)
    plain = Crowd(seed)
    states = [copy.deepcopy(plain)]
    for tick in range(1, TICKS + 1):
        plain.advance(orders(tick))
        states.append(copy.deepcopy(plain))
    return path, states, seed


def hps(crowd: Crowd) -> list[int]:
    """Of all units."""
    return [unit.hp for unit in crowd.units]


def share_or_gold(crowd: Crowd, number: int) -> bool:
    """Without a unit the first part has no value, so the whole has none."""
    return bool(crowd.units) and (max(unit.share for unit in crowd.units) > 0.7 or crowd.gold["red"] > number)


CONDITIONS: list[tuple[str, Callable[[Crowd, int], Any]]] = [
    ("units[:].hp.min() < {n}", lambda c, n: min(hps(c)) < n if c.units else False),
    ("units[:].hp.sum() >= {n} * 3", lambda c, n: sum(hps(c)) >= n * 3),
    ("(units[:].hp > {n}).any()", lambda c, n: any(hp > n for hp in hps(c))),
    ("units[:].share.max() > 0.7 or gold['red'] > {n}", share_or_gold),
    ("gold['blue'] == {n}", lambda c, n: c.gold["blue"] == n),
    ("gold['green'] < {n}", lambda c, n: "green" in c.gold and c.gold["green"] < n),
    ("units[1].hp <= {n}", lambda c, n: len(c.units) > 1 and c.units[1].hp <= n),
    ("not units[:].alive.all()", lambda c, _: not all(unit.alive for unit in c.units)),
    ("marks.max() > {n}", lambda c, n: max(c.marks) > n),
    ("marks[0] + marks[1] > {n}", lambda c, n: c.marks[0] + c.marks[1] > n),
    ("grid.sum() > {n} - 5", lambda c, n: int(c.grid.sum()) > n - 5),
    ("grid[1, 2] == {n} - 5", lambda c, n: int(c.grid[1, 2]) == n - 5),
    ("depth > {n}", lambda c, n: c.depth > n),
    ("not (depth <= {n})", lambda c, n: not c.depth <= n),
    ("(units[:].hp + units[:].hp).max() > {n} * 2", lambda c, n: max(hps(c)) * 2 > n * 2 if c.units else False),
    ("late.hp == {n}", lambda c, n: c.late is not None and c.late.hp == n),
    ("tick > 100 and units[:].hp.max() < {n}", lambda c, n: False if not c.units else max(hps(c)) < n),
    ("mood == 'angry' and gold['red'] > {n}", lambda c, n: c.mood == "angry" and c.gold["red"] > n),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize("which", range(len(CONDITIONS)))
def test_conditions_have_the_answers_of_a_plain_loop(crowd: tuple[Path, list[Crowd], int], which: int) -> None:
    """All ticks, for numbers that are reached and numbers that are not."""
    path, states, seed = crowd
    text, holds = CONDITIONS[which]
    with replayer.open(path, Crowd) as run:
        for number in random.Random(seed + which).sample((-4, 0, 3, 5, 9, 10, 12, 40), 3):
            condition = text.format(n=number)
            expected = [tick for tick, state in enumerate(states) if holds(state, number)]
            if text.startswith("tick > 100"):
                expected = [tick for tick in expected if tick > 100]
            found = run.find(condition)
            assert found.ticks == expected, (condition, seed)
            assert run.first(condition) == (expected[0] if expected else None), (condition, seed)
            assert run.last(condition) == (expected[-1] if expected else None), (condition, seed)


def test_a_value_that_is_never_reached_costs_no_step(crowd: tuple[Path, list[Crowd], int]) -> None:
    """All intervals are skipped; without the file none is."""
    path, _, _ = crowd
    with replayer.open(path, Crowd) as run:
        found = run.find("gold['red'] > 1000 or gold['blue'] < -1000")
        assert (found.ticks, found.simulated) == ([], 0)
        assert found.skipped_intervals == found.intervals == TICKS // INTERVAL + 1


WATCHED: list[tuple[str, Callable[[Crowd], Any]]] = [
    ("units[0].hp", lambda c: c.units[0].hp if c.units else ABSENT),
    ("units[3].name", lambda c: c.units[3].name if len(c.units) > 3 else ABSENT),
    ("gold['red']", lambda c: c.gold["red"]),
    ("gold['blue']", lambda c: c.gold["blue"]),
    ("gold['green']", lambda c: c.gold.get("green", ABSENT)),
    ("mood", lambda c: c.mood),
    ("depth", lambda c: c.depth),
    ("marks[2]", lambda c: c.marks[2]),
    ("marks", lambda c: np.array(c.marks)),
    ("late.hp", lambda c: c.late.hp if c.late is not None else ABSENT),
    ("grid", lambda c: c.grid),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize("which", range(len(WATCHED)))
def test_last_writes_are_those_of_a_plain_loop(crowd: tuple[Path, list[Crowd], int], which: int) -> None:
    """At random ticks, value by value; -0.0 is another value than 0.0, and NaN the same as NaN."""
    path, states, seed = crowd
    name, read = WATCHED[which]
    values = [read(state) for state in states]
    numbers = random.Random(seed + which)
    with replayer.open(path, Crowd) as run:
        for at in (TICKS, *numbers.sample(range(TICKS), 2)):
            if values[at] is ABSENT and values[0] is ABSENT:
                continue
            expected = next((t for t in range(at, 0, -1) if not are_same(values[t - 1], values[t])), None)
            found = run.last_write(name, at=at, line=False)
            assert found.tick == expected, (name, at, seed)
            if expected is not None:
                assert are_same(found.before, values[expected - 1])
                assert are_same(found.after, values[expected])
    if name == "gold['blue']":
        assert found.skipped_intervals == found.intervals
        assert found.simulated < INTERVAL  # To see that the value is there.


def test_facts_of_paths_survive_their_file(crowd: tuple[Path, list[Crowd], int]) -> None:
    """Plain data and back; facts without paths are those of older files."""
    path, _, _ = crowd
    with replayer.open(path, Crowd) as run:
        facts = next(measured_intervals(run.tape, run.counted_cursor(), Measured()))
    assert "gold['blue']" in facts.kept
    assert facts.zones is not None
    assert "units[:].hp" in facts.zones
    assert IntervalFacts.from_plain(facts.to_plain()) == facts
    assert len(IntervalFacts(0, 9, facts.changed, None).to_plain()) == 3
    with pytest.raises(ValueError, match="no facts"):
        IntervalFacts.from_plain([*facts.to_plain(), []])
