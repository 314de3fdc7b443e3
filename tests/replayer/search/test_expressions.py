"""Conditions as texts: what they mean, that whole numbers are exact, and that no text reaches code, files or the state."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.search.expressions import NODES_MAX, TEXT_MAX, parse_expression
from replayer.search.search_errors import ExpressionError, UndefinedError
from replayer.search.state_values import StateValues
from sim import Field, Schema, State, Table

SCHEMA = Schema(
    Table("plants", Field("energy", "i8"), Field("species", "u1"), Field("id", "i8")),
    Field("grid", "i4", (4, 5)),
    Field("heat", "f8", (3,)),
    Field("large", "u8", (2,)),
    Field("births", "i8"),
)


@pytest.fixture
def state() -> State:
    """A state with a table of four plants."""
    made = State(SCHEMA)
    rows = made.add_rows("plants", 4)
    made["plants.energy"][rows] = [5, -3, 1 << 62, 9]
    made["plants.species"][rows] = [1, 2, 1, 3]
    made["plants.id"][rows] = [11, 12, 13, 14]
    made["grid"][:] = np.arange(20).reshape(4, 5)
    made["heat"][:] = [0.5, np.nan, -2.0]
    made["large"][:] = [(1 << 64) - 1, 3]
    made["births"][...] = 7
    return made


def holds(text: str, state: State, tick: int = 30) -> bool:
    """The value of a condition in a state."""
    return parse_expression(text).holds(StateValues(tick, state, {"deaths": 4}))


@pytest.mark.parametrize(
    "text",
    [
        "plants.energy.max() > 2000",
        "births >= 7 and tick < 900",
        "plants.energy[plants.species == 1].min() == 5",
        "grid[2, 3] == 13 and grid[-1][0] == 15",
        "grid[1:3].sum() == 95",
        "not (plants.energy < -3).any()",
        "-4 < plants.energy.min() <= -3",
        "len(plants.id) * 2 == 8",
        "(plants.energy[3] - plants.energy[1]) // 5 == 2",
        "plants.energy[3] % 4 == 1",
        "telemetry.deaths == 4",
        "heat[1] != heat[1]",
        "heat[0] / 2 == 0.25",
        "((plants.species == 1) & (plants.energy > 5)).count() == 1",
        "(plants.species == 1).sum() == 2",
        "(True + True) == 2",
        "~(births == 8)",
        "plants.energy[:].max() == 4611686018427387904",
        "abs(plants.energy[1]) == 3",
        "plants.id.mean() == 12.5",
    ],
)
def test_a_condition_that_holds(text: str, state: State) -> None:
    """Each of these is true of the state, and its negation is not."""
    assert holds(text, state)
    assert not holds(f"not ({text})", state)


def test_whole_numbers_do_not_wrap_around(state: State) -> None:
    """Sums, products and differences beyond int64 are what Python's whole numbers give."""
    top = 1 << 62
    assert holds(f"plants.energy.sum() == {5 - 3 + top + 9}", state)
    assert holds("plants.energy.max() * 4 > 0 and (plants.energy * 4).max() > 0", state)
    assert holds(f"(plants.energy + plants.energy).max() > {(1 << 63) - 1}", state)
    assert holds(f"large.sum() - 2 > {(1 << 63) - 1}", state)
    assert holds("large[0] > 0 and large.max() * large.max() > 0", state)
    assert holds(f"(plants.energy > {float(top)!r}).any() == False", state)
    state["plants.energy"][2] = top + 1
    assert holds(f"(plants.energy > {float(top)!r}).any()", state), "float64 has no number between these two"


def test_arithmetic_equals_python(state: State) -> None:
    """Random whole numbers of any size, element by element, against Python's own arithmetic."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    signs = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
    signs |= {"//": lambda a, b: a // b, "%": lambda a, b: a % b, "^": lambda a, b: a ^ b}
    for _ in range(300):
        numbers = [chance.randrange(-(1 << bits), 1 << bits) for bits in chance.choices(range(1, 64), k=4)]
        state["plants.energy"][:] = numbers
        other = chance.randrange(-(1 << 62), 1 << 62) or 1
        sign = chance.choice(list(signs))
        expected = sum(signs[sign](number, other) for number in numbers)

        assert holds(f"(plants.energy {sign} {other}).sum() - {expected % 1000} == {0}", state) is (
            expected == expected % 1000
        )
        assert holds(
            f"((plants.energy {sign} {other}).sum()) // 1000003 == {expected // 1000003 % (1 << 62)}", state
        ) is (expected // 1000003 == expected // 1000003 % (1 << 62))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("heat[5] > 1", "nothing at index 5"),
        ("plants.energy[plants.species == 77].min() > 0", "no values to reduce"),
        ("plants.energy[plants.species == 77].mean() > 0", "no values to reduce"),
        ("births // 0 > 1", "division by zero"),
        ("(births / (births - 7)) > 1", "division by zero"),
        ("(plants.energy % (plants.energy - 5)).any()", "division by zero"),
        ("nothing > 3", "there is no 'nothing'"),
        ("telemetry.lions > 3", "no figure 'lions'"),
    ],
)
def test_a_condition_without_a_value(text: str, why: str, state: State) -> None:
    """It is told apart from False: nothing is said about a state in which there is nothing to ask."""
    with pytest.raises(UndefinedError, match=why):
        holds(text, state)


def test_and_and_or_stop_as_in_python(state: State) -> None:
    """What is not asked need not have a value."""
    assert not holds("births == 8 and heat[5] > 1", state)
    assert holds("births == 7 or heat[5] > 1", state)


HOSTILE = [
    "__import__('os').system('id')",
    "().__class__.__bases__[0].__subclasses__()",
    "plants.energy.__class__",
    "plants.energy.tofile('x')",
    "plants.energy.base",
    "(lambda: 1)()",
    "[x for x in (1, 2)]",
    "open('/etc/passwd').read()",
    "9**9**9**9",
    "1 << 10**9",
    "'a' * 10**10",
    "f'{plants.energy!r}'",
    "births.__setitem__(0, 5)",
    "plants.energy.sum(out=births)",
    "plants.energy.sum(births)",
    "(x := 5)",
    "plants.energy.dot(plants.energy)",
    "getattr(tick, 'data')",
    "exec('1')",
    "(" * 500 + "1" + ")" * 500,
    "-" * 1900 + "1",
    "plants.energy[10**30]",
    "plants.energy[99999999999999999999999]",
    "plants.energy > 3",
    "1 if tick else 2",
    "{**births}",
    "tick @ tick",
    "print(tick)",
    "a.b.c.d.e()",
    "",
    " ",
    "tick\n; import os",
    "\x00tick",
    "sum(sum)",
    "grid[:, :, None] + grid.sum() > 0",
    "plants.energy.sum() > 1j",
    "...",
    "grid + plants.energy > 0",
    "plants.energy[1:99999999999999999999]",
    "await tick",
    "*births",
    "births.sum.sum()",
    "(1 < 2)[0]",
    "plants.energy['a']",
    "len(tick)",
    "~1.5 > 0",
    "99999999999999999999 > 0",
    "plants.energy[::0].any()",
    "plants",
    "'text'",
    "b'bytes' == 1",
    "plants.energy == 'text' and births",
    "heat < 'a'",
    "None < 3",
    "lambda: 0",
    "yield 1",
    "import os",
    "x" * (TEXT_MAX + 1),
    "+".join(["1"] * NODES_MAX),
    "{1, 2}",
    "globals()",
    "plants.energy.fill(7)",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_text_that_is_no_condition(text: str, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused in one line, or has no value; it never changes the state, and writes no file."""
    monkeypatch.chdir(tmp_path)
    before = state.hash()

    with pytest.raises((ExpressionError, UndefinedError)) as refused:
        holds(text, state)

    assert "\n" not in str(refused.value).split("not an expression")[0]
    assert len(str(refused.value)) < 300
    assert state.hash() == before
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("any(u.hp > u.max_hp for u in units)", "a loop is not allowed in a condition; NAME[:] is all values"),
        ("(9, 6) in fog[1]", "column 1: a tuple is not allowed in a condition: in Python, seek to the tick"),
        ("[u.hp for u in units]", "a loop is not allowed in a condition; NAME[:] is all values"),
        ("any(units.values())", "expected the name of a value; units[:] is all values of a dict or a list"),
        ("game.units.values().any()", "expected the name of a value; game.units[:] is all values of a dict or a list"),
    ],
)
def test_what_python_writes_as_a_loop_has_a_hint(text: str, hint: str) -> None:
    """It names the way to write it."""
    with pytest.raises(ExpressionError, match=re.escape(hint)):
        parse_expression(text)


def test_an_expression_names_what_it_reads() -> None:
    """Names are told apart from methods, keys and indices."""
    text = "plants.energy[3].sum() > units[14].hp + scores['red'] or units[:].hp.min() < tick"
    names: Any = parse_expression(text).names

    assert sorted(map(str, names)) == ["plants.energy[3]", "scores['red']", "tick", "units[14].hp", "units[:].hp"]
