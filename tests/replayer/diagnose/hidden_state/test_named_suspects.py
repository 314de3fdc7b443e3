"""A suspect is what differs: not an object that has another name in the live run, nor what a compiler reads."""

from __future__ import annotations

import itertools
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from recorder.ambient.ambient_diff import find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots
from replayer import SyncTest
from replayer.diagnose.hidden_state.naming_lines import lines_naming
from replayer.diagnose.hidden_state.outside_sources import OutsideReads, OutsideSources
from sim.kernel.simulation import as_simulation

from small_worlds import Walkers


class Player:
    """Has a rating."""

    def __init__(self, name: str, rating: int) -> None:
        self.name, self.rating = name, rating


class League:
    """Two containers of the same players; load() makes two players of each."""

    def __init__(self) -> None:
        self.teams = {"ulm": [Player("wren", 7), Player("aldo", 5)], "bonn": [Player("gorm", 6)]}
        self.ladder = [player for team in self.teams.values() for player in team]

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.teams["ulm"][1].rating += 2
        self.ladder.sort(key=lambda player: (-player.rating, player.name))

    def save(self) -> bytes:
        teams = {name: [vars(player) for player in team] for name, team in self.teams.items()}
        return json.dumps([teams, [vars(player) for player in self.ladder]]).encode()

    def load(self, saved: bytes) -> None:
        teams, ladder = json.loads(saved)
        self.teams = {name: [Player(**one) for one in team] for name, team in teams.items()}
        self.ladder = [Player(**one) for one in ladder]


def test_a_part_of_a_shared_object_is_not_absent_in_the_live_run() -> None:
    """It is there, under the other name: what differs is that the two names lead to one object."""
    live, copy = League(), League()
    copy.load(live.save())
    ambients = [take_ambient(Roots(League), as_simulation(one)) for one in (live, copy)]
    candidates = find_candidates(*ambients)

    assert [one.kind for one in candidates] == ["alias"] * 3
    assert "absent" not in " ".join(one.detail for one in candidates)


def test_a_clock_that_a_compiler_reads_is_not_read_by_the_step() -> None:
    """Numba times itself when a step first calls a compiled function."""
    names: dict[str, Any] = {"__name__": "numba.core.event", "time": time}
    own: dict[str, Any] = {"__name__": "game", "time": time}
    for module in (names, own):
        exec(compile("def read():\n    return time.time()\n", "/elsewhere/site-packages/rules.py", "exec"), module)
    reads = OutsideReads()

    with OutsideSources(Roots(Walkers())).counted(reads):
        names["read"]()
        exec(compile("made = time.time()", "/elsewhere/site-packages/rules.py", "exec"), own)  # As an import does.
        assert reads.sources == {}
        own["read"]()
    assert list(reads.sources) == ["time.time"]


def test_reads_of_a_clock_are_counted_by_line() -> None:
    """All 3 reads were said to be at the line of the first one."""
    names: dict[str, Any] = {"__name__": "game", "time": time}
    exec(compile("def read():\n    time.time()\n    time.time()\n    time.monotonic()\n", "/game.py", "exec"), names)
    reads = OutsideReads()
    with OutsideSources(Roots(Walkers())).counted(reads):
        names["read"]()
        exec(compile("\ntime.time()", "/game.py", "exec"), names)
    assert reads.sources["time.time"].places_text() == "game.py:2 (2 times), game.py:3 (1 time)"
    assert reads.sources["time.monotonic"].places_text() == "game.py:4"


def test_a_line_of_another_generator_does_not_name_that_of_the_module(tmp_path: Path) -> None:
    """A method of its name: ``self.rng.random()`` was said to name np.random."""
    file = tmp_path / "dice.py"
    file.write_text(
        "a = self.rng.random()\n"
        "b = np.random.random(3)\n"
        "c = np.random.default_rng(4)\n"
        "d = random.choice('ab')\n"
        "e = random.Random(4)\n"
    )
    lines = [(str(file), number) for number in range(1, 6)]
    assert lines_naming("np.random", lines) == ("dice.py:2",)
    assert lines_naming("random", lines) == ("dice.py:4",)
    assert lines_naming("Dice.rng", lines) == ("dice.py:1",)


class Rota:
    """Goes round a list; load() makes the iterator again, at its place."""

    def __init__(self) -> None:
        self.day, self.who = 0, itertools.cycle(["ann", "ben", "cid"])

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.day += 1
        next(self.who)

    def save(self) -> bytes:
        return str(self.day).encode()

    def load(self, saved: bytes) -> None:
        self.day, names = int(saved), ["ann", "ben", "cid"]
        self.who = itertools.cycle(names)
        for _ in range(self.day % 3):
            next(self.who)


def test_what_an_iterator_keeps_for_itself_is_no_pair_of_names() -> None:
    """It was "Rota.who and Rota.who"."""
    assert [name for name in SyncTest(Rota, ticks=40).run().moves if " and " in name] == []


def test_lines_that_draw_by_names_that_the_file_imports_are_named(tmp_path: Path) -> None:
    """A function of the module, and the module by another name; not a class, nor what has the name elsewhere."""
    file = tmp_path / "deal.py"
    file.write_text(
        "from random import Random, choice as pick, random\n"
        "import random as chance\n"
        "from numpy import random as draws\n"
        "a = random()\n"
        "b = self.random + table.pick()\n"
        "c = list(map(pick, decks))\n"
        "d = Random(4), 'random'\n"
        "e = chance.shuffle(a), chance.Random(4)\n"
        "f = draws.rand(3)\n"
        "g = draws.default_rng(3)\n"
    )
    lines = [(str(file), number) for number in range(1, 11)]
    assert lines_naming("random", lines) == ("deal.py:4", "deal.py:6", "deal.py:8")
    assert lines_naming("np.random", lines) == ("deal.py:9",)


def test_a_generator_expression_is_named_by_its_own_name(tmp_path: Path) -> None:
    """Not by .0, as Python calls what it goes through: other lines have a 0."""
    game = tmp_path / "game.py"
    game.write_text("total = 0\nname = next(names)\n")
    lines = [(str(game), 1), (str(game), 2)]
    assert lines_naming("module registry: names: .0", lines) == ("game.py:2",)


def test_a_value_inside_a_container_is_named_in_lines_with_its_own_name(tmp_path: Path) -> None:
    """And not in those that name the container alone."""
    file = tmp_path / "garden.py"
    file.write_text("for plant in self.plants:\n    plant.roots += 1\nbag = self.bag\n")
    lines = [(str(file), number) for number in (1, 2, 3)]

    assert lines_naming("Garden.plants[…].roots", lines) == ("garden.py:2",)
    assert lines_naming("Garden.rows[(1, [2])].roots", lines) == ("garden.py:2",)
    assert lines_naming("Garden.bag['wood']", lines) == ("garden.py:3",)


def test_a_global_is_named_by_lines_that_lead_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what has its name elsewhere: an attribute, and a parameter of another module."""
    waves, game = tmp_path / "waves.py", tmp_path / "game.py"
    waves.write_text("foes = iter([1])\nnow = next(foes)\nself.foes = 3\n")
    game.write_text("import waves\nself.foes = []\na = next(waves.foes)\nb = foes\n")
    other = tmp_path / "other.py"
    other.write_text("from waves import foes\nc = foes\nd = self.foes\n")
    module = types.ModuleType("waves")
    module.__file__ = str(waves)
    monkeypatch.setitem(sys.modules, "waves", module)
    lines = [(str(path), number) for path in (waves, game, other) for number in range(2, 5)]

    assert lines_naming("module waves: foes", lines) == ("waves.py:2", "game.py:3", "other.py:2")


class Cart:
    late = 0  # Of the class, until a drive gives a cart its own.

    def drive(self) -> int:
        self.late = self.late + 1
        return self.late


class Depot:
    """Its carts are made again by a load, without what they had."""

    def __init__(self) -> None:
        self.carts, self.sum = [Cart()], 0

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.sum += self.carts[0].drive()

    def save(self) -> bytes:
        return json.dumps(self.sum).encode()

    def load(self, saved: bytes) -> None:
        self.carts, self.sum = [Cart()], json.loads(saved)


def test_of_an_attribute_that_a_copy_lacks_the_value_of_its_class_is_told() -> None:
    """The copy reads that one: it is not without any."""
    (suspect,) = SyncTest(Depot, ticks=20).run().suspects

    assert suspect.proved
    assert suspect.detail.endswith("absent for the copy, whose class has 0")


class Shared:
    """Two names of one list, which a load makes two of: the steps of a copy end it."""

    def __init__(self) -> None:
        self.left = [5, 6, 7]
        self.right = self.left

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.left.append(sum(self.left) % 7)
        self.right.pop(0)

    def save(self) -> bytes:
        return json.dumps([self.left, self.right]).encode()

    def load(self, saved: bytes) -> None:
        self.left, self.right = json.loads(saved)


class Gate:
    """All gates together open twelve times."""

    opened = 0

    def __init__(self) -> None:
        self.tick = 0

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.tick += 1
        Gate.opened += 1
        if Gate.opened > 12:
            raise ValueError("stuck")

    def save(self) -> bytes:
        return json.dumps(self.tick).encode()

    def load(self, saved: bytes) -> None:
        self.tick = json.loads(saved)


def test_a_used_instance_that_cannot_run_elsewhere_tells_no_more_than_the_fresh_one() -> None:
    """Neither making nor loading it raised, and it was not restored to where it was to go on from."""
    report = SyncTest(Shared, ticks=20).run()

    assert [finding.way for finding in report.findings] == ["fresh"]
    assert report.first_bad == 1


def test_a_step_elsewhere_that_raises_is_told_as_such() -> None:
    (finding,) = SyncTest(Gate, ticks=9, puts_back=True).run().findings

    assert finding.way == "used"
    assert finding.note is not None
    assert finding.note.startswith(
        "step 5 of those that it was to run elsewhere, restored at tick 0, raised ValueError"
    )
    assert "no values outside the state were compared" in str(finding)
