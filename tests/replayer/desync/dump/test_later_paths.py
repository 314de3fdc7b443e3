"""Of recorded objects, a tick has hashes of kinds of values; the paths of these kinds are those of the next keyframe."""

from __future__ import annotations

import datetime as dt
import random
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
from replayer import Tape
from replayer.desync.dump import later_paths
from replayer.desync.object_diff import compare_objects, objects_in, shown_fields
from replayer.report.report_text import where_lines
from replayer.timeline.verify import verify_tape

TEXTS, SPECIAL, ARRAYS = (
    "texts, tuples, decimals, dates and the like",
    "contents of sets or random generators or the like",
    "arrays in objects",
)


class Ship:
    """With a value of each kind."""

    def __init__(self, name: str) -> None:
        self.name, self.fuel, self.way = name, 10, [1.5, 2.5]
        self.crew = {"cook": 1, "mate": 2}
        self.chart = np.zeros((2, 2))
        self.dice = random.Random(1)
        self.seen: deque[Any] = deque([("isle", 3)])
        self.since = dt.date(2024, 5, 1)


class Fleet:
    """From the fifth tick on, another value is changed where CHANGED says so; later the gold is another one as well."""

    changed: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.ships = [Ship("Ada"), Ship("Bea")]
        self.tick, self.gold, self.weather = 0, 5, "sun"
        self.purse = [1, 2]

    def step(self) -> None:
        """Make a step."""
        self.tick += 1
        if self.changed and self.tick == 5:
            for change in self.changed:
                exec(change, {"self": self, "dt": dt})
        if self.changed and self.tick == 8:
            self.gold += 1
            self.ships[0].fuel += 1
            self.ships[1].name = "Cleo"
            self.purse[0] += 1


def told(tmp_path: Path, *changed: str, interval: int = 10) -> list[str]:
    """What verify says of the values of a run in which these statements run at the fifth tick, and others at the eighth."""
    with recorder.record(
        Fleet(), tmp_path / "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=interval
    ) as fleet:
        for _ in range(15):
            fleet.step()

    class Changed(Fleet):
        pass

    Changed.__qualname__, Changed.__name__, Changed.changed = Fleet.__qualname__, Fleet.__name__, changed
    (finding,) = verify_tape(tmp_path / "run.tape", Changed).findings
    assert finding.tick == 5
    return where_lines(finding)


OF_SHIPS = "values of Ship objects"
OF_LISTS = "values of the recorded object itself or of lists"
CASES = {
    "a number of an object": (["self.ships[1].fuel += 1"], OF_SHIPS, "ships[…].fuel, ships[1].name"),
    "a text of an object": (
        ["self.ships[0].name = 'Eve'"],
        f"{TEXTS}, {OF_SHIPS}",
        "ships[…].name, ships[0].fuel",
    ),
    "a text of the recorded object": (
        ["self.weather = 'rain'"],
        f"{TEXTS}, {OF_LISTS}",
        "weather, purse[0], ships[1].name",
    ),
    "a tuple in a deque": (
        ["self.ships[0].seen[0] = ('reef', 3)"],
        f"{TEXTS}, values of deque objects",
        "ships[1].name, ships[0].seen[0][0]",
    ),
    "a generator": (["self.ships[1].dice.random()"], SPECIAL, "ships[1].dice"),
    "an array": (["self.ships[1].chart[0, 1] = 2.0"], ARRAYS, "ships[1].chart[0, 1]"),
    "a value of a dict": (["self.ships[0].crew['mate'] = 3"], "values of dicts", "ships[0].crew['mate']"),
    "an item of a list": (["self.ships[1].way[1] = 9.5"], OF_LISTS, "purse[0], ships[1].way[1]"),
}


@pytest.mark.parametrize("name", CASES)
def test_paths_of_the_kinds_that_differ_at_the_tick_are_named(name: str, tmp_path: Path) -> None:
    """And none of other kinds, which differ at the keyframe alone; each as one that differs there."""
    changed, kind, paths = CASES[name]
    first, second, *_ = told(tmp_path, *changed)
    assert first == f"fields that differ at tick 5: {kind}"
    assert second == f"at the keyframe of tick 10, values of these kinds differ: {paths}"


def test_where_nothing_of_these_kinds_differs_any_more_nothing_is_named(tmp_path: Path) -> None:
    """The lists have other lengths at the tick: of which, no path tells."""
    lines = told(tmp_path, "self.ships.pop()")
    assert lines[0].startswith("fields that differ at tick 5: ")
    assert "lengths of lists" in lines[0]
    assert not any("ships[1].name" in line for line in lines[1:2])


def test_at_a_keyframe_the_values_of_the_tick_itself_are_told(tmp_path: Path) -> None:
    lines = told(tmp_path, "self.weather = 'rain'", interval=5)
    assert not any(", values of these kinds differ" in line for line in lines)


def test_many_paths_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_paths, "_SHOWN", 1)
    lines = told(tmp_path, "self.weather = 'rain'", "self.ships[0].since = dt.date(2025, 1, 1)")
    assert lines[1] == "at the keyframe of tick 10, values of these kinds differ: weather and 4 more"


def test_the_fields_of_a_value_are_those_whose_hash_it_changes(tmp_path: Path) -> None:
    """Beside a comparison of the fields of two states, which looks up no path."""
    states = []
    for number in range(2):
        with recorder.record(
            Fleet(), tmp_path / f"{number}.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=1
        ) as fleet:
            fleet.ships[1].crew["cook"] += number
            fleet.step()
        with Tape(tmp_path / f"{number}.tape") as tape:
            states.append(tape.snapshot(tape.keyframes[-1]))
    one, other = states
    diff, tree = compare_objects((one, other)), objects_in(one)
    assert diff is not None
    assert tree is not None
    [difference] = diff.differences
    changed = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    assert shown_fields(tree.fields_of(difference.path)) == shown_fields(changed)
    assert tree.fields_of("ships[7].fuel") == []
