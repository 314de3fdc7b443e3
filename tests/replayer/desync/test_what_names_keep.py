"""Names that stand for no function of Python and for no plain value: told by name, told by what they keep, or left out."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from recorder.ambient.outside.code_parts.code_note import decode_code_note
from recorder.ambient.outside.loaded_code import KEY, CodeComparison, code_note, compare_code

NAME = "code_of_a_mill"
MILL = """import bisect
import functools
import numpy as np
from heapq import heappush as put


class Gear:
    def __init__(self, teeth):
        self.teeth = teeth

    def turn(self, x=0):
        return x + self.teeth

    def __get__(self, one, kind=None):
        return self.teeth

    def __call__(self, function):
        def geared(*args):
            return function(*args) * self.teeth

        return geared


class Wheel:
    @classmethod
    def made(cls):
        return cls


class Big(Wheel):
    pass


class Cog:
    def __init__(self, size):
        self.size = size


def fast(x):
    return x + 1


def slow(x):
    return x - 1


place = bisect.bisect_left
shout = str.upper
least = np.minimum
inner = np.dot
make = Wheel.made
WEIGHTS = np.array([[1.0, 2.0], [3.0, 4.0]])
RULES = [fast, slow]
rounded = functools.partial(round, ndigits=2)
turn = Gear(11).turn
price = {"rye": 21}.get
odd = np.frompyfunc(lambda x: x + 31, 1, 1)


def paced(x, cog=Cog(41)):
    return x + cog.size


class Mill:
    speed = Gear(51)

    @Gear(61)
    def step(self):
        used = place, shout, least, inner, make, WEIGHTS, RULES, rounded, turn, price, odd, paced, self.speed, put
        return used
"""
LEFT_OUT = ["turn", "price", "odd", "paced", "Mill.speed", "Mill.step"]
Loading = Callable[[str], types.ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loading]:
    """Loads the module from this source, as a new process would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def loaded(source: str) -> types.ModuleType:
        (tmp_path / f"{NAME}.py").write_text(source)
        sys.modules.pop(NAME, None)
        importlib.invalidate_caches()
        return importlib.import_module(NAME)

    yield loaded
    sys.modules.pop(NAME, None)


def compared(plain: dict[str, Any], module: types.ModuleType) -> CodeComparison:
    """The code of the mill beside a note on it."""
    note = decode_code_note(plain)
    assert note is not None
    found = compare_code(note, module.Mill())
    assert found is not None
    return found


def names(texts: list[str]) -> list[str]:
    return [text.partition(" (")[0] for text in texts]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("= bisect.bisect_left", "= bisect.bisect_right", "place, now _bisect.bisect_right"),
        ("import heappush as put", "import heappop as put", "put, now _heapq.heappop"),
        ("= str.upper", "= str.lower", "shout, now builtins.str.lower"),
        ("= np.minimum", "= np.maximum", "least, now numpy.maximum"),
        ("= np.dot", "= np.inner", "inner, now numpy.inner"),
        ("= Wheel.made", "= Big.made", "make, now a method"),
        ("[3.0, 4.0]])", '[3.0, 4.0]], order="F")', "the order in memory of WEIGHTS"),
        ("[fast, slow]", "[slow, fast]", "RULES"),
        ("ndigits=2", "ndigits=3", "rounded"),
    ],
)
def test_what_no_code_tells_is_compared(load: Loading, old: str, new: str, named: str) -> None:
    """Functions of C by their names, the class of a method, the order of an array and of a table of functions."""
    plain = code_note(load(MILL).Mill())[KEY]
    same = compared(plain, load(MILL))
    assert (same.different, same.values, same.gone, same.gone_values, same.gone_statements) == ([], [], 0, 0, 0)
    found = compared(plain, load(MILL.replace(old, new)))
    assert names([*found.different, *found.values]) == [named]
    assert (found.gone, found.gone_values, found.gone_statements) == (0, 0, 0)


@pytest.mark.parametrize(
    ("number", "name"), list(zip(("(11)", "21}", "+ 31", "(41)", "(51)", "(61)"), LEFT_OUT, strict=True))
)
def test_what_keeps_an_object_is_not_said_to_be_equal(load: Loading, number: str, name: str) -> None:
    """Bound methods, a ufunc of a program, a default, a descriptor, and a decorator around the step itself."""
    plain = code_note(load(MILL).Mill())[KEY]
    found = compared(plain, load(MILL.replace(number, number.replace("1", "2"))))
    # The code of a lambda that became a ufunc is in no module.
    assert (found.different, found.values) == ([], [])
    assert names(found.left_out) == LEFT_OUT
    assert name in names(found.left_out)


def test_of_a_tape_of_before_they_are_not_compared(load: Loading) -> None:
    """It has no digests of them: nothing is equal, and nothing has changed."""
    plain = code_note(load(MILL).Mill())[KEY]
    del plain["references"]
    edited = MILL.replace("= str.upper", "= str.lower").replace("4.0]])", '4.0]], order="F")')
    found = compared(plain, load(edited))
    assert (found.different, found.values, found.gone_statements) == ([], [], 0)
    assert found.not_noted == ["functions written in C that names stand for, and how arrays lie in memory"]


SLUICE = """
import enum


class Flow(enum.Enum):
    LOW = enum.auto()
    HIGH = enum.auto()


FEES = {Flow.LOW: 2, Flow.HIGH: 7}
USUAL = Flow.LOW
OPEN = (Flow.HIGH, [Flow.LOW])


class Mill:
    def step(self, inputs):
        return FEES[USUAL], OPEN
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("Flow.HIGH: 7", "Flow.HIGH: 8", ["FEES"]),
        ("= Flow.LOW", "= Flow.HIGH", ["USUAL"]),
        ("[Flow.LOW]", "[Flow.HIGH]", ["OPEN"]),
        (
            "    LOW = enum.auto()",
            "    DRY = enum.auto()\n    LOW = enum.auto()",
            ["Flow.DRY", "Flow.LOW", "Flow.HIGH"],
        ),
    ],
)
def test_members_in_tables_are_compared_by_their_names(load: Loading, old: str, new: str, named: list[str]) -> None:
    """A member that has another value now is told itself, and not each table that holds it."""
    plain = code_note(load(SLUICE).Mill())[KEY]
    same = compared(plain, load(SLUICE))
    assert (same.values, same.gone_values, same.left_out) == ([], 0, [])
    found = compared(plain, load(SLUICE.replace(old, new, 1)))
    assert (names(found.values), found.gone_values, found.left_out) == (named, 0, [])

    # A tape of before has no digests of them.
    del plain["tables"]
    assert not {"FEES", "USUAL", "OPEN"} & {*names(compared(plain, load(SLUICE.replace(old, new, 1))).values)}
    assert "FEES" in names(compared(plain, load(SLUICE)).left_out)


BELL = """
from collections import defaultdict, deque

HEARD, LAST = defaultdict(list), deque(maxlen=2)


class Mill:
    def step(self):
        for called in HEARD["turn"]:
            called(self)
        return LAST
"""


def test_what_others_have_registered_is_compared_by_names(load: Loading) -> None:
    """Functions and classes of other modules, in containers that are no plain values."""

    def registered(*ears: Any) -> Any:
        module = load(BELL)
        module.HEARD["turn"] += ears
        return module

    plain = code_note(registered(names, Path).Mill())[KEY]
    same = compared(plain, registered(names, Path))
    assert (same.values, same.gone_values, same.left_out) == ([], 0, [])
    for others in ((), (names,), (Path, names), (names, Path, compared)):
        found = compared(plain, registered(*others))
        assert (names(found.values), found.gone_values, found.left_out) == (["HEARD"], 0, [])
    # What holds an object is not compared, and is not said to be equal.
    found = compared(plain, registered(names, Path, [object()]))
    assert (names(found.values), names(found.left_out)) == ([], ["HEARD"])
    assert code_note(registered(object()).Mill())[KEY]["tables"] != plain["tables"]


def test_functions_without_a_name_of_their_own_are_not_said_to_be_equal(load: Loading) -> None:
    """Two lambdas in a table, exchanged: each name and each code is there as before."""
    mill = "class Mill:\n    def step(self):\n        return [one(1) for one in TABLE.values()]\n"

    def filled(*functions: Any) -> Any:
        module = load(f"from collections import defaultdict\n\nTABLE = defaultdict(list)\n\n\n{mill}")
        module.TABLE["x"] = list(functions)
        return module

    one, other = eval("lambda x: x + 10", {"__name__": "kinds"}), eval("lambda x: x + 1", {"__name__": "kinds"})
    plain = code_note(filled(one, other).Mill())[KEY]
    found = compared(plain, filled(other, one))
    assert (names(found.values), names(found.left_out)) == ([], ["TABLE"])


def test_many_tables_leave_the_other_digests(load: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note of too many tables has none of them, and all else."""
    monkeypatch.setattr("recorder.ambient.outside.loaded_code.DEFINITIONS_MAX", 40)
    plain = code_note(load(SLUICE).Mill())[KEY]
    assert "tables" in plain
    more = "".join(f"T{number} = [Flow.LOW]\n" for number in range(41))
    plain = code_note(load(f"{SLUICE}\n\n{more}").Mill())[KEY]
    assert "tables" not in plain
    assert plain["definitions"]


LOOM = """
from dataclasses import dataclass

from recorder.ambient.outside.loaded_code import KEY, code_note


def woven(x, k):
    return x + k


RULES = {"woven": woven, "k": 1}
DEFAULT = (woven, 71)


@dataclass(frozen=True)
class Thread:
    length: int = 1


class Mill:
    def step(self):
        return RULES["woven"](1, DEFAULT[1]) + Thread().length


if __name__ == "__main__":
    import msgpack

    with open("note", "wb") as file:
        file.write(msgpack.packb(code_note(Mill())[KEY]))
"""
# Of RULES and DEFAULT, without a dataclass, as the version before noted them, of the module and of the program.
KEPT_BY_MODULE = bytes.fromhex("1fa569eecf748c54ff8e5256")
KEPT_BY_PROGRAM = bytes.fromhex("73d9343623bcad2b52da35cc")


def test_a_program_that_is_run_has_the_values_of_the_module(load: Loading, tmp_path: Path) -> None:
    """Its functions are of __main__, and those of a replay of the module: not a byte differs."""
    module = load(LOOM)
    subprocess.run([sys.executable, f"{NAME}.py"], cwd=tmp_path, check=True)
    plain = msgpack.unpackb((tmp_path / "note").read_bytes())
    found = compared(plain, module)
    assert found.compared_values >= 3
    assert (found.different, found.values, found.gone_values) == ([], [], 0)
    assert names(compared(plain, load(LOOM.replace("71", "72"))).values) == ["DEFAULT"]


def test_what_functions_kept_in_a_tape_of_before_is_compared(load: Loading) -> None:
    """Its digests have the name of the module, or of the program that was run."""
    source = LOOM.replace("@dataclass(frozen=True)\n", "")
    module = load(source)
    plain = code_note(module.Mill())[KEY]
    del plain["keeps"], plain["tables"]
    assert names(compared(plain, module).left_out) == ["RULES", "DEFAULT"]
    for noted in (KEPT_BY_MODULE, KEPT_BY_PROGRAM):
        found = compared({**plain, "kept": noted}, load(source))
        assert (found.values, found.gone_values, found.left_out) == ([], 0, [])
        assert names(compared({**plain, "kept": noted}, load(source.replace("71", "72"))).values) == ["DEFAULT"]
