"""Class statements, decorators and what names stand for are compared with those of the recording, and named with their line."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import recorder
from recorder.ambient.outside.code_parts.code_note import CodeNote, decode_code_note
from recorder.ambient.outside.loaded_code import KEY, CodeComparison, code_note, compare_code
from replayer import Tape
from replayer.desync.code_comparison import asks_for_earlier_code, compared_code, names_a_change

from project_paths import SOURCES

NAME, RATES = "statements_of_a_ferry", "rates_of_a_ferry"
FERRY = """import enum
import functools
from collections import namedtuple
from dataclasses import dataclass, field

import attrs
import rates_of_a_ferry as rates
from rates_of_a_ferry import EARLY, low as fare


def loud(function):
    @functools.wraps(function)
    def calling(*args):
        return function(*args)

    return calling


def twice(function):
    @functools.wraps(function)
    def calling(*args):
        return function(*args) * 2

    return calling


class Kind(type):
    pass


class Deck:
    def load(self):
        return 1


class Hold:
    def load(self):
        return 2


class Boat(Deck, Hold):
    __slots__ = ("at",)
    best = max


@dataclass(order=True)
class Guest:
    grade: int
    since: int
    names: list = field(default_factory=list)


@attrs.frozen
class Crate:
    weight: int
    place: int


Berth = namedtuple("Berth", "row column")


class Ferry:
    def __init__(self):
        self.day = 0

    @property
    def wind(self):
        return self.day % 3

    @staticmethod
    def size(*args):
        return 4

    @loud
    @twice
    def cost(self):
        return fare() + rates.high() + EARLY

    def load(self):
        return 3

    def step(self):
        self.day += self.wind + self.size() + self.cost() + Boat().load() + len(Berth(1, 2))
"""
RATE = "\nEARLY = 5\n\n\ndef low():\n    return 1\n\n\ndef high():\n    return 2\n"
Loading = Callable[..., types.ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loading]:
    """Loads the two modules from these sources, as a new process would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def loaded(ferry: str = FERRY, rates: str = RATE) -> types.ModuleType:
        for name, text in ((RATES, rates), (NAME, ferry)):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(NAME)

    yield loaded
    for name in (NAME, RATES):
        sys.modules.pop(name, None)


def note_of(module: types.ModuleType) -> CodeNote:
    """The note on the code of the ferry, as read from a tape."""
    note = decode_code_note(code_note(module.Ferry())[KEY])
    assert note is not None
    return note


def compared(note: CodeNote, module: types.ModuleType) -> CodeComparison:
    found = compare_code(note, module.Ferry())
    assert found is not None
    return found


def line(text: str, source: str) -> int:
    return source[: source.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "named", "at"),
    [
        ("class Boat(Deck, Hold)", "class Boat(Hold, Deck)", "the class statement of Boat", "class Boat"),
        ("class Deck:", "class Deck(metaclass=Kind):", "the class statement of Deck", "class Deck"),
        ('__slots__ = ("at",)', '__slots__ = ("at", "to")', "the class statement of Boat", "class Boat"),
        (
            "@dataclass(order=True)",
            "@dataclass(order=True, frozen=True)",
            "the class statement of Guest",
            "class Guest",
        ),
        (
            "    grade: int\n    since: int\n",
            "    since: int\n    grade: int\n",
            "the fields of Guest",
            "class Guest",
        ),
        ("default_factory=list", "default_factory=dict", "the fields of Guest", "class Guest"),
        (
            "    weight: int\n    place: int\n",
            "    place: int\n    weight: int\n",
            "the fields of Crate",
            "class Crate",
        ),
        ("@property", "@functools.cached_property", "Ferry.wind, now a cached_property", "def wind"),
        ("@property", "@functools.cache", "Ferry.wind, now a cache without a limit", "def wind"),
        ("    @staticmethod\n", "", "Ferry.size, now a function without a decorator", "def size"),
        ("    @staticmethod\n", "    @classmethod\n", "Ferry.size, now a classmethod", "def size"),
        ("    @loud\n    @twice\n", "    @twice\n    @loud\n", "Ferry.cost, now a function of twice", "def cost"),
        ("best = max", "best = min", "Boat.best, now builtins.min", "best ="),
    ],
)
def test_what_a_statement_makes_is_compared_and_named(load: Loading, old: str, new: str, named: str, at: str) -> None:
    """No function or value differs by it, or only such as follow from it."""
    note = note_of(load())
    assert compared(note, load()) == attrs.evolve(compared(note, load()), different=[], values=[], gone_statements=0)
    edited = FERRY.replace(old, new)
    found = compared(note, load(edited))
    assert (found.different, found.gone_statements) == ([f"{named} ({NAME}.py:{line(at, edited)})"], 0)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("low as fare", "high as fare", "fare, now a function of high"),
        ("import rates_of_a_ferry as rates", "import operator as rates", "rates, now the module operator"),
    ],
)
def test_what_an_imported_name_stands_for_is_compared(load: Loading, old: str, new: str, named: str) -> None:
    """It is told as values are, which a program may change while it runs."""
    edited = FERRY.replace(old, new)
    found = compared(note_of(load()), load(edited))
    assert (found.different, found.values) == ([], [f"{named} ({NAME}.py:{line(new, edited)})"])


def test_a_name_that_no_function_reads_is_not_told(load: Loading) -> None:
    """An import that is not used has no effect."""
    found = compared(note_of(load()), load(f"import operator\n{FERRY}"))
    assert (found.different, found.values) == ([], [])


def test_an_imported_value_is_named_in_its_own_module(load: Loading) -> None:
    """That module has no class or function here: it is found by the statement that imports from it."""
    alone = FERRY.replace("import rates_of_a_ferry as rates\n", "").replace("EARLY, low as fare", "EARLY as SOON")
    alone = alone.replace("fare() + rates.high() + EARLY", "SOON")
    found = compared(note_of(load(alone)), load(alone, RATE.replace("EARLY = 5", "EARLY = 6")))
    assert found.values == [f"SOON ({RATES}.py:2)"]


def test_a_class_that_was_removed_is_told(load: Loading) -> None:
    """Its functions are told first, if it has any."""
    note = note_of(load(FERRY + "\n\nclass Empty(Deck):\n    pass\n"))
    found = compared(note, load())
    assert (found.different, found.gone, found.gone_statements) == ([], 0, 1)


def test_generated_functions_are_no_other_code_in_another_process(load: Loading, tmp_path: Path) -> None:
    """attrs puts the hash of a text into the code of a hash: another number with each hash seed."""
    load()
    program = (
        f"import sys, {NAME} as module\n"
        "from recorder.ambient.outside.loaded_code import KEY, code_note\n"
        "sys.stdout.buffer.write(b''.join(code_note(module.Ferry())[KEY][name] for name in ('definitions', 'statements')))"
    )
    notes = []
    for seed in ("1", "2"):
        paths = os.pathsep.join([str(tmp_path), str(SOURCES)])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        run = subprocess.run([sys.executable, "-c", program], check=True, env=environment, capture_output=True)
        notes.append(run.stdout)
    size = len(note_of(sys.modules[NAME]).definitions) * 6
    assert notes[0] != notes[1]
    for one in notes:
        note = attrs.evolve(
            note_of(sys.modules[NAME]),
            definitions=frozenset(one[start : start + 6] for start in range(0, size, 6)),
            statements=frozenset(one[start : start + 6] for start in range(size, len(one), 6)),
        )
        found = compared(note, sys.modules[NAME])
        assert (found.different, found.gone, found.gone_statements) == ([], 0, 0)


def test_a_note_of_an_earlier_version_leaves_them_out(load: Loading, tmp_path: Path) -> None:
    """What a tape lacks is not said to be equal. Functions that follow from a class are told in one."""
    with recorder.record(load().Ferry(), tmp_path / "run.tape", quiet=True, trial_ms=0) as one:
        one.step()
    with Tape(tmp_path / "run.tape") as read:
        found = compared_code(read, load().Ferry)
        assert found is not None
        assert found.suspicious is False
        note: Any = read.meta["outside"]["code"]
        del note["statements"]
        found = compared_code(read, load().Ferry)
        assert found is not None
        assert found.found.endswith(
            "; not compared, since the tape has no note of them: class statements and decorators"
        )
        assert (found.suspicious, names_a_change(found), asks_for_earlier_code(found, is_explained=False)) == (
            None,
            False,
            True,
        )
        edited = FERRY.replace("    grade: int\n    since: int\n", "    since: int\n    grade: int\n")
        found = compared_code(read, load(edited).Ferry)
        assert found is not None
        at = f"{NAME}.py:{line('class Guest', edited)}"
        assert f"or new: what a decorator or a base generates for Guest ({at});" in found.found


@pytest.mark.parametrize("other", ["copied_ferry", "old_fleet.ferry"])
def test_a_copy_under_another_name_is_the_same_code(
    load: Loading, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """Of a module, or of one in a package."""
    note = note_of(load())
    path = tmp_path.joinpath(*other.split(".")).with_suffix(".py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(FERRY)
    importlib.invalidate_caches()
    copied = importlib.import_module(other)
    for name in (other, other.partition(".")[0]):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, other, copied)
    found = compared(note, copied)
    assert (found.different, found.gone, found.gone_statements) == ([], 0, 0)
