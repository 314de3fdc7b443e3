"""verify tells of the order of sets where a step may iterate over one whose order differs between processes, and says which."""

from __future__ import annotations

import ast
import datetime as dt
import enum
import importlib
import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from replayer.desync.sets import set_making, state_sets
from replayer.desync.sets.set_making import SetLine, lines_that_make, set_line
from replayer.desync.sets.state_sets import TooManyError, ordered_by_seed

LINE = "the iteration order of sets of texts"

INN = """
import json


class Inn:
    def __init__(self):
        self.nights, self.cooked, {names}

    def step(self, inputs):
        self.nights += 1
        self.cooked += 1
        if self.nights == 15:
            self.nights += self.cooked * {factor}

    def save(self):
        return json.dumps([self.nights, sorted(self.names)]).encode()

    def load(self, saved):
        self.nights, names = json.loads(saved)
        self.names = type(self.names)(names)
"""
DRIVER = """
import recorder
from inn import Inn

with recorder.Recorder("run.tape", Inn(), keyframe_interval_ticks=10, trial_ms=0) as tape:
    for _ in range(20):
        tape.step(None)
"""


def verified(folder: Path, names: str, edited: str = "") -> str:
    """What verify prints of a module in a new process: the count of meals is not saved."""
    (folder / "inn.py").write_text(INN.format(names=names, factor=1))
    (folder / "drive.py").write_text(DRIVER)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    subprocess.run([sys.executable, "-B", "drive.py"], cwd=folder, env=environment, check=True)
    if edited:
        (folder / "inn.py").write_text(INN.format(names=names, factor=edited))
    command = [sys.executable, "-B", "-m", "replayer", "verify", "run.tape", "--sim", "inn:Inn"]
    ran = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    assert "DESYNC at tick 15" in ran.stdout
    return ran.stdout


def told(printed: str) -> str:
    [line] = [line for line in printed.splitlines() if LINE in line]
    return line


def test_a_program_without_sets_is_not_told_of_them(tmp_path: Path) -> None:
    assert LINE not in verified(tmp_path, "self.names = 0, 0, ['Ada', 'Bob']")


def test_a_set_of_texts_in_the_state_is_named(tmp_path: Path) -> None:
    line = told(verified(tmp_path, "self.names = 0, 0, {'Ada', 'Bob'}"))
    assert "not tested: PYTHONHASHSEED was not set" in line
    assert "; before the step, Inn.names is such a set; replay certify --factor hash-seed" in line


def test_of_a_set_that_holds_no_texts_so_far_only_its_line_is_known(tmp_path: Path) -> None:
    line = told(verified(tmp_path, "self.names = 0, 0, {4, 5, 6}"))
    assert "; whether the step iterates over such a set is not known: inn.py:7 may make one; " in line


def test_of_edited_code_the_recorded_one_is_not_known(tmp_path: Path) -> None:
    line = told(verified(tmp_path, "self.names = 0, 0, []", edited="2"))
    assert (
        "; whether the recorded code iterates over such a set is not known: it is not known to be the code of now;"
        in line
    )


@pytest.mark.parametrize(
    "text",
    [
        "{1, 2}",
        "{n for n in names}",
        "frozenset(names)",
        "groups = defaultdict(set)",
        "one.keys() & other.keys()",
        "keys = one.items()",
        "walk(one.keys())",
        "for name in one.keys() - two: pass",
        "sorted(set(names), key=len)",
        "name in {1, 2} | others",
        "from collections.abc import KeysView",
        "eval(text)",
        "hashlib.algorithms_available",
        "held.union(others)",
        "def walk(names: set[str] = frozenset()): pass",
        "def sorted(one): return one & two\nsorted(one.keys())",
        "for name in kinds.Set(names): pass",
        "for name in held.frozenset('abc'): pass",
        "longer = max(one.keys(), two.keys(), key=len) - three",
        "shorter = min(one.keys(), two.keys(), key=len) - three",
        "list = joined\nlist(one.keys())",
        "from joining import tuple\ntuple(one.keys())",
        "import joining as sorted\nsorted(one.keys())",
        "class list: pass\nlist(one.keys())",
        "from joining import *\nlist(one.keys())",
        "def walk(sorted): return sorted(one.keys())",
        "len = joined\nlen({1, 2})",
    ],
)
def test_lines_that_may_make_a_set_are_found(text: str) -> None:
    assert lines_that_make(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "name in {'oak', 'elm'}",
        "name not in set(names)",
        "len({*names})",
        "for name, one in trees.items(): pass",
        "shelf.items.append(one)",
        "shelf.items = [shelf.items[0]]",
        "for one in shelf.items: pass",
        "[name for name in trees.keys()]",
        "list(trees.keys()) + sorted(trees.items())",
        "max(trees.items(), key=tallest)",
        "'oak' in trees.keys()",
        "names: set[str]",
        "def walk(names: set[str]) -> frozenset[str]: pass",
        "light.set(3)",
        "{'oak': 1}",
    ],
)
def test_lines_that_make_no_set_with_an_order_that_counts_are_not_found(text: str) -> None:
    assert lines_that_make(ast.parse(text)) == []


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """Load modules of these texts, as the only ones of the user."""
    monkeypatch.syspath_prepend(folder)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    for name in texts:
        importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    monkeypatch.setattr(set_making, "is_users", lambda name: name in texts)


def test_code_that_is_not_searched_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(
        tmp_path,
        monkeypatch,
        ferry_plan="import random\n\n\ndef plan():\n    import graphlib\n",
        ferry="import ferry_plan\n",
    )
    assert set_line() == SetLine("ferry_plan.py:5", "graphlib")
    (tmp_path / "ferry.py").write_text("import ferry_plan\n\nFULL = {'car', 'bus'}\n")
    assert set_line() == SetLine("ferry.py:3"), "a line of the user's own comes first"


def test_a_module_of_the_user_that_is_not_loaded_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(tmp_path, monkeypatch, dock="import math\n\n\ndef moor():\n    import dock_later\n")
    assert set_line() == SetLine("dock.py:5", "dock_later")
    (tmp_path / "dock.py").write_text("import math\n")
    assert set_line() is None


class Boat:
    __slots__ = ("crew", "extra")

    def __init__(self, crew: Any) -> None:
        self.crew = crew


class Tide(enum.Enum):
    LOW, HIGH = 1, 2


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name


@pytest.mark.parametrize(
    ("held", "path"),
    [
        ({"crew": {"Ada", "Bob"}}, "x['crew'] is"),
        ([0, ({1: frozenset({"a", "b"})},)], "x[1][0][1] is"),
        (SimpleNamespace(boat=Boat({b"a", b"b"})), "x.boat holds"),
        (deque([{("a", 1), ("b", 2)}]), "x holds"),
        (np.array([{"a", "b"}, None]), "x holds"),
        (lambda names=frozenset("ab"): names, "x holds"),
        ({frozenset("ab"): [1]}, "x holds"),
        ({dt.date(2024, 1, 2), Tide.LOW}, "x is"),
        ({Tide.LOW, Tide.HIGH}, "x is"),
        ({dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (1, 2)}, "x may be"),
        ({Named("a"), Named("b")}, "x may be"),
        ([(0, {Named("a"), Named("b")})], "x[0][1] may be"),
        ({Boat(1), Boat(2), None}, None),
        ({3, 4}, None),
        ([{"one"}, set()], None),
        (SimpleNamespace(kind=str, module=ast), None),
    ],
)
def test_a_set_in_the_state_is_found_where_the_seed_decides_its_order(held: Any, path: str | None) -> None:
    assert ordered_by_seed(held, "x") == (path and f"{path} such a set")


def test_a_large_state_is_not_searched_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_sets, "OBJECTS_MAX", 10)
    with pytest.raises(TooManyError):
        ordered_by_seed([[] for _ in range(20)], "x")


def test_the_program_that_starts_a_command_makes_no_set(tmp_path: Path) -> None:
    """It is the module __main__ of each replay by the command, and imports this library alone."""
    script = tmp_path / "replay"
    script.write_text("import sys\nfrom simulation_flight_recorder import replay\nsys.exit(replay())\n")
    assert list(set_making._lines_of(str(script), "__main__", is_package=False)) == []
    script.write_text("import sys\nfrom simulation_of_others import replay\nsys.exit(replay())\n")
    assert [one.imported for one in set_making._lines_of(str(script), "__main__", is_package=False)] == [
        "simulation_of_others"
    ]
