"""The arguments of a constructor: noted as literals, and replaced."""

from __future__ import annotations

import importlib
import math
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from replayer.diagnose.parties.constructor import (
    LITERAL_CHARS_MAX,
    ConstructorWatch,
    literal_of,
    replace_arguments,
)
from replayer.diagnose.parties.differences.factor import Factor, together
from replayer.diagnose.parties.differences.factors import find_factors, not_compared
from replayer.diagnose.parties.party import Made, Party
from replayer.diagnose.parties.party_runner import PartyJob, PartyRunner


class Plain:
    """Keeps what it got."""

    def __init__(self, first: Any, second: Any = 2, *rest: Any, named: Any = None, **others: Any) -> None:
        self.got = (first, second, rest, named, others)


class Derived(Plain):
    """Passes other arguments on."""

    def __init__(self, size: int = 5) -> None:
        super().__init__(size * 2, named="derived")


@attrs.define
class Generated:
    """Its constructor is generated."""

    rate: float = 0.5
    names: Any = attrs.field(factory=list)


def test_the_arguments_of_the_outermost_constructor_are_noted() -> None:
    """With defaults and names; of nested objects each has its own; of others nothing is known."""
    with ConstructorWatch() as watch:
        plain = Plain(1, 3, 4, 5, named=[1.5, "a"], extra={"k": (1, 2)})
        derived, generated = Derived(), Generated(names=[Plain(7)])
    outside = Plain(8)
    noted = [watch.arguments_of(made) for made in (plain, derived, generated, generated.names[0], outside)]
    assert noted == [
        {"first": "1", "second": "3", "named": "[1.5, 'a']", "extra": "{'k': (1, 2)}"},
        {"size": "5"},
        {"rate": "0.5", "names": None},
        {"first": "7", "second": "2", "named": "None"},
        {},
    ]
    assert sys.getprofile() is None


MAKERS = """
import functools


class Fleet:
    def __init__(self, ships, sails=2, *rest, flag="blue", **others):
        self.ships = ships


class Squadron(Fleet):
    def __init__(
        self,
        ships=9,
    ):
        super().__init__(ships)


HALF_MADE = functools.partial(Fleet, sails=5)
MORE = {"ships": 4, "flag": "red"}


def host():
    return Fleet(
        7,
        flag="green",
        crew=12)


def guest():
    return Squadron()


def half():
    return HALF_MADE(ships=3)


def unpacked():
    return Fleet(**MORE)


def of_many():
    return [*map(Fleet, [3])][0]
"""


def test_the_lines_that_give_arguments_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a default, that of the parameter. What a partial function brings is given at no line of the call."""
    (tmp_path / "placed_fleet.py").write_text(MAKERS)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("placed_fleet")
    lines = MAKERS.splitlines()

    def at(text: str, how: str = "given at") -> str:
        return f"{how} placed_fleet.py:{1 + next(number for number, line in enumerate(lines) if text in line)}"

    with ConstructorWatch() as watch:
        host, guest, half, unpacked, many = (
            getattr(module, name)() for name in ("host", "guest", "half", "unpacked", "of_many")
        )
        bare = module.Fleet(1)
    default = at("sails=2", "the default at")
    assert watch.places_of(host) == {
        "ships": at(" 7,"), "sails": default, "flag": at("green"), "crew": at("crew=12"),
    }  # fmt: skip
    assert watch.places_of(guest) == {"ships": at("ships=9", "the default at")}
    assert watch.places_of(half) == {"ships": at("HALF_MADE(ships"), "flag": default}
    assert watch.places_of(unpacked)["ships"] == at("**MORE")
    assert watch.places_of(many)["ships"] == at("map(Fleet")
    assert watch.places_of(bare)["ships"].startswith("given at test_constructor.py:")


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (True, "True"), (-3, "-3"), (0.1, "0.1"), (b"\0", "b'\\x00'"), ({2}, "{2}"), ((), "()"), (None, "None"),
        ("a" * (LITERAL_CHARS_MAX - 2), repr("a" * (LITERAL_CHARS_MAX - 2))), ("a" * (LITERAL_CHARS_MAX - 1), None),
        ([[[[[1]]]]], "[[[[[1]]]]]"), ([[[[[[1]]]]]], None),
        (math.inf, None), (math.nan, None), (set(), None), (np.float64(1), None), (OrderedDict(), None), (1j, None),
        ([1, object()], None), (len, None),
    ],
)  # fmt: skip
def test_only_plain_data_has_a_literal(value: Any, literal: str | None) -> None:
    """What literal_eval gives back with the same type; the limits of length and depth, and one more."""
    assert literal_of(value) == literal


def test_arguments_are_replaced_for_objects_of_exactly_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they were passed; a derived class passes what it passes."""
    for kind in (Plain, Generated):
        monkeypatch.setattr(kind, "__init__", kind.__init__)  # Restored at the end.
    replace_arguments(f"{__name__}:Plain", {"second": "'new'", "named": "[1]"})
    replace_arguments(f"{__name__}:Generated", {"rate": "0.75"})
    assert Plain(1).got == (1, "new", (), [1], {})
    assert Plain(1, 2, 3, named=4, x=5).got == (1, "new", (3,), [1], {"x": 5})
    assert Derived().got == (10, 2, (), "derived", {})
    assert Generated(0.1) == Generated(0.9)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (f"{__name__}:Missing", "is not found by its name"),
        ("no.such.module:Plain", "is not found by its name"),
        (f"{__name__}:Derived", "takes no argument second"),
    ],
)
def test_arguments_that_cannot_be_replaced_are_refused(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replace_arguments(name, {"second": "1"})


# --- the differences of two parties


def party(label: str, **settings: Any) -> Party:
    path = Path(f"{label}.tape")
    return Party(label, path, path, **{"sim": "game:Game", **settings})


def made(**facts: Any) -> Made:
    usual: dict[str, Any] = {"class_name": "game:Game", "arguments": {}, "modules": {}, "versions": {}}
    return Made(**{**usual, **facts}, early=[], python="3.12.0")


class NoTape:
    """Stands for a tape that is not read: both parties name a factory, and no ticks are compared."""

    meta: dict[str, Any] = {}  # noqa: RUF012 - never written


def factors_of(first: tuple[Party, Made], second: tuple[Party, Made]) -> list[Factor]:
    tapes: Any = (NoTape(), NoTape())
    return find_factors((first[0], second[0]), tapes, (first[1], second[1]), range(0))


def test_each_difference_can_be_given_in_both_directions(tmp_path: Path) -> None:
    """Alone, and all together; modules with equal contents, and arguments without a literal, are no difference."""
    for folder, text in (("one", "x = 1"), ("two", "x = 2")):
        (tmp_path / folder / "lib").mkdir(parents=True)
        (tmp_path / folder / "lib/__init__.py").write_text("")
        (tmp_path / folder / "lib/inner.py").write_text(text)
    sides = []
    for label, folder, rate in (("A", "one", "1"), ("B", "two", "2")):
        modules = {name: str(tmp_path / folder / "lib" / file) for name, file in FILES.items()}
        facts = made(arguments={"rate": rate, "table": None, "same": "0"}, modules=modules)
        sides.append((party(label, environment={"MOOD": rate}), facts))
    factors = factors_of(sides[0], sides[1])
    assert [(factor.kind, factor.name) for factor in factors] == [
        ("argument", "rate"), ("module", "lib.inner"), ("variable", "MOOD"),
    ]  # fmt: skip
    assert factors[1].files == tuple(
        (str(tmp_path / "one/lib/inner.py"), str(tmp_path / "two/lib/inner.py")) for _ in "x"
    )
    assert not_compared((sides[0][1], sides[1][1])) == ["table"]
    first, second = sides[0][0], sides[1][0]
    for of, value, folder in ((0, "1", "one"), (1, "2", "two")):
        for to in (first, second):
            given = together(factors).give(to, of)
            assert (given.arguments, given.environment) == ({"rate": value}, {"MOOD": value})
            assert given.modules == {"lib.inner": str(tmp_path / folder / "lib/inner.py")}
            assert attrs.evolve(given, arguments={}, modules={}, environment=to.environment) == to


FILES = {"lib": "__init__.py", "lib.inner": "inner.py"}


def test_a_difference_in_an_argument_has_the_lines_that_give_it() -> None:
    """Where they are known."""
    tape: Any = SimpleNamespace(meta={})
    sides = made(arguments={"n": "1"}, given_at={"n": "given at host.py:8"}), made(arguments={"n": "2"})
    (factor,) = find_factors((party("A"), party("B")), (tape, tape), sides, range(0))
    assert factor.texts == ("1 (given at host.py:8)", "2")


def test_arguments_of_different_classes_are_not_compared() -> None:
    """The factories differ as a whole."""
    sides = [
        (party(label, sim=f"game:{label}"), made(class_name=f"game:{label}", arguments={"rate": label}))
        for label in "AB"
    ]
    assert [(factor.kind, factor.texts) for factor in factors_of(sides[0], sides[1])] == [
        ("factory", ("game:A", "game:B"))
    ]
    assert not_compared((sides[0][1], sides[1][1])) == []


def test_modules_that_load_before_the_simulation_come_by_links(tmp_path: Path) -> None:
    """With the libraries beside a compiled package, and without its metadata; others come by a finder."""
    for name in ("numpy/__init__.py", "numpy.libs/blas.so", "numpy-2.2.dist-info/METADATA", "numpydoc/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    changed = party("A", modules={"numpy": str(tmp_path / "numpy"), "game": str(tmp_path / "game.py")})
    with PartyRunner() as runner:
        [folder] = runner._links(PartyJob(changed, 3, early=["numpy", "attr"]))
        assert {path.name: path.resolve() for path in Path(folder).iterdir()} == {
            name: tmp_path / name for name in ("numpy", "numpy.libs")
        }
        assert runner._links(PartyJob(changed, 3)) == []
    assert not Path(folder).exists()
