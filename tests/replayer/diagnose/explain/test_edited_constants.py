"""What a module gives a value in two versions of the code is no hidden state: the lines that differ are named."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

TOLLS = """from pathlib import Path

BASE = 3
LORRY = BASE * 2
CAR = 2
TAX = int((Path(__file__).parent / "tax.txt").read_text())
"""
BRIDGE = """
import toll_rates
from toll_rates import LORRY


class Bridge:
    def __init__(self):
        self.paid, self.day = 0, 0

    def step(self, inputs):
        self.day += 1
        if self.day > 2:
            self.paid += toll_rates.CAR  # CAR
            self.paid += LORRY  # LORRY
            self.paid += toll_rates.TAX  # TAX
"""


def test_a_value_that_an_environment_variable_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two environments: the line that reads the value is named, and it is no hidden state; that has no test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("toll_gate.py").write_text(
        "import os\n\nTOLL = int(os.environ.get('TOLL', '2'))\n\n\n"
        "class Gate:\n    def __init__(self):\n        self.paid = 0\n\n"
        "    def step(self, inputs):\n        self.paid += TOLL\n"
    )
    gate = recorder.record(importlib.import_module("toll_gate").Gate(), "run.tape", step="step", trial_ms=0)
    gate.step(None)
    gate.close()
    assert run(replayer.commands.main.main, "explain run.tape --sim toll_gate:Gate --env TOLL=5") == 1
    printed = capsys.readouterr().out
    assert "cause: this line reads a value that is not in the state, and that differed before it ran" in printed
    assert "not tested whether that makes the difference: A and B are not instances of one environment" in printed
    assert "hidden state" not in printed


@pytest.mark.parametrize(
    ("edit", "line", "text"),
    [(("CAR = 2", "CAR = 4"), 5, "CAR = 2"), (("BASE = 3", "BASE = 5"), 3, "BASE = 3"), (None, 15, "toll_rates.TAX")],
    ids=["a constant", "what an imported constant is made of", "read from a file"],
)
def test_a_value_that_another_module_gives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    edit: tuple[str, str] | None,
    line: int,
    text: str,
) -> None:
    """By the line that was edited, in the module of the value; no line was, if the module reads it from a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("other").mkdir()
    for folder, tolls, tax in ((Path(), TOLLS, 1), (Path("other"), TOLLS.replace(*edit or ("", "")), 1 if edit else 7)):
        (folder / "toll_rates.py").write_text(tolls)
        (folder / "toll_bridge.py").write_text(BRIDGE)
        (folder / "tax.txt").write_text(str(tax))
    for name in ("toll_rates", "toll_bridge"):
        sys.modules.pop(name, None)
    bridge = recorder.record(importlib.import_module("toll_bridge").Bridge(), "run.tape", step="step", trial_ms=0)
    for _ in range(4):
        bridge.step(None)
    bridge.close()

    assert run(replayer.commands.main.main, "explain run.tape --json --sim toll_bridge:Bridge --code other") == 1
    cause = json.loads(capsys.readouterr().out)["cause"]
    assert (cause["kind"], cause["line"]) == ("edited" if edit else "version", line)
    assert text in cause["text"]
    assert run(replayer.commands.main.main, "explain run.tape --sim toll_bridge:Bridge --code other --tick 3") == 1
    assert "reads hidden state" not in (printed := capsys.readouterr().out)
    assert ("the step reads it first in" in printed) == (edit is not None)


CHORES = """
CHORES = {}


def chore(name):
    return lambda function: CHORES.setdefault(name, []).append(function) or function


import chores_of_day, chores_of_night


class Yard:
    def __init__(self):
        self.done = 0

    def step(self, inputs):
        self.done += CHORES["sweep"][0](3)
"""


def test_which_function_a_table_holds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two modules have one of that name each, and the order of their imports was edited: there was no text for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("other").mkdir()
    names = ("chores_of_day", "chores_of_night")
    for folder, order in ((Path(), names), (Path("other"), names[::-1])):
        (folder / "chores_yard.py").write_text(CHORES.replace(", ".join(names), ", ".join(order)))
        for factor, name in enumerate(names, 1):
            (folder / f"{name}.py").write_text(
                "from chores_yard import chore\n\n\n@chore('sweep')\n"
                f"def sweep(length):\n    return {factor} * length\n"
            )
    yard = recorder.record(importlib.import_module("chores_yard").Yard(), "run.tape", step="step", trial_ms=0)
    yard.step(None)
    yard.close()

    assert run(replayer.commands.main.main, "explain run.tape --sim chores_yard:Yard --code other") == 1
    assert (
        "chores_yard.CHORES['sweep'][0]  A the function chores_of_day.sweep  B the function chores_of_night.sweep"
        in capsys.readouterr().out
    )


MADE = """import enum
from dataclasses import dataclass
from typing import NamedTuple

import attrs

LIMIT = 7


@dataclass
class Cart:
    wheels: int
    price: float = 2.5


class Lorry(Cart):
    pass


class Bill(NamedTuple):
    payer: int
    amount: float = 3.5


@attrs.define(kw_only=True)
class Pass:
    holder: int
    days: int = 4


class Kind(enum.Enum):
    FOOT = enum.auto()
    CART = enum.auto()
    LORRY = enum.auto()


class Rules:
    TAX = 6


class Gate(enum.IntFlag):
    EAST = 1
    WEST = 2
"""
YARD = """
from toll_made import LIMIT, Bill, Cart, Gate, Kind, Lorry, Pass, Rules


class Yard:
    def __init__(self):
        self.paid, self.day = 0, 0

    def step(self, inputs):
        self.day += 1
        if self.day > 2:
            self.paid += {}
"""


@pytest.mark.parametrize(
    ("edit", "used", "place", "other"),
    [
        (("price: float = 2.5", "price: float = 2.75"), "Cart(4).price", "price: float = 2.5", True),
        (("price: float = 2.5", "price: float = 2.75"), "Lorry(4).price", "price: float = 2.5", True),
        (("amount: float = 3.5", "amount: float = 4.5"), "Bill(payer=1).amount", "amount: float = 3.5", True),
        (("days: int = 4", "days: int = 5"), "Pass(holder=1).days", "days: int = 4", True),
        (("    CART = enum.auto()", "    MULE = 9\n    CART = enum.auto()"), "Kind.LORRY.value", "MULE = 9", False),
        (("    CART = enum.auto()\n", ""), "Kind.LORRY.value", "CART = enum.auto()", False),
        (("FOOT = enum.auto()", "FOOT = 5"), "Kind.CART.value", "FOOT = enum.auto()", True),
        (("WEST = 2", "WEST = 4"), "Gate.WEST", "WEST = 2", True),
        (("TAX = 6", "TAX = 5"), "Rules.TAX", "TAX = 6", True),
        (("LIMIT = 7\n", "LIMIT = 8\n", "= 2.5", "= 2.75"), "Cart(4, 1.5).price + LIMIT", "LIMIT = 7", True),
        (
            ("LIMIT = 7\n", "LIMIT = 8\n", "= 2.5", "= 2.75"),
            "LIMIT if inputs is None else Cart(4).price",
            "LIMIT = 7",
            True,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_default_that_a_class_gives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    edit: tuple[str, ...],
    used: str,
    place: str,
    other: bool,  # noqa: FBT001 - a parameter of the cases
) -> None:
    """By the line of the field or the member; not one that the call passes, or of a class that is not made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("other").mkdir()
    edited = MADE
    for old, new in zip(edit[::2], edit[1::2], strict=True):
        edited = edited.replace(old, new, 1)
    for folder, made in ((Path(), MADE), (Path("other"), edited)):
        (folder / "toll_made.py").write_text(made)
        (folder / "toll_yard.py").write_text(YARD.format(used))
    for name in ("toll_made", "toll_yard"):
        sys.modules.pop(name, None)
    yard = recorder.record(importlib.import_module("toll_yard").Yard(), "run.tape", step="step", trial_ms=0)
    for _ in range(4):
        yard.step(None)
    yard.close()

    assert run(replayer.commands.main.main, "explain run.tape --json --sim toll_yard:Yard --code other") == 1
    cause = json.loads(capsys.readouterr().out)["cause"]
    assert (cause["kind"], cause["text"], cause["other"] is not None) == ("edited", place, other)
    assert cause["read_at"]["line"] == YARD.splitlines().index("            self.paid += {}") + 1


FERRY = """
def drawn():
    fares = [1, 5]
    return fares[0]

class Raft:
    def __init__(self):
        self.fare = 2

class Boat:
    def __init__(self):
        self.rate = 3

class Ferry(Boat):
    def __init__(self):
        super().__init__()
        self.fare = drawn()

    def paid(self):
        return self.fare * self.rate

class Port:
    def __init__(self):
        self.paid, self.raft, self.ferry = 0, Raft(), Ferry()

    def save(self):
        return str(self.paid).encode()

    def load(self, saved):
        self.paid = int(saved)

    def step(self, inputs):
        self.paid += self.ferry.paid()
"""


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ((("fare = 2", "fare = 22"), ("fares[0]", "fares[-1]")), "return self.fare * self.rate"),
        ((("fare = 2", "fare = 22"), ("rate = 3", "rate = 33")), "self.rate = 3"),
    ],
    ids=["of another class", "of a class that it inherits from"],
)
def test_an_attribute_is_given_by_its_class(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    edits: tuple[tuple[str, str], ...],
    text: str,
) -> None:
    """A class beside it, with an attribute of the same name, was edited for nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("other").mkdir()
    edited = FERRY
    for old, new in edits:
        edited = edited.replace(old, new)
    Path("ferry_port.py").write_text(FERRY)
    Path("other/ferry_port.py").write_text(edited)
    sys.modules.pop("ferry_port", None)
    with recorder.Recorder("run.tape", importlib.import_module("ferry_port").Port()) as tape:
        for _ in range(3):
            tape.step()
    assert run(replayer.commands.main.main, "explain run.tape --json --sim ferry_port:Port --code other") == 1
    assert json.loads(capsys.readouterr().out)["cause"]["text"] == text


INN = """
import inn_beds
import inn_food
from inn_food import PRICE as MEAL

RENT = inn_food.PRICE * 3


class Inn:
    def __init__(self):
        self.paid, self.share = 0, inn_food.PRICE

    def save(self):
        return str(self.paid).encode()

    def load(self, saved):
        self.paid = int(saved)

    def step(self, inputs):
        self.paid += inn_beds.PRICE * 0
        if inn_food.PRICE < 100:
            self.paid += {}
"""


@pytest.mark.parametrize(
    ("used", "is_proved"),
    [("inn_food.PRICE", True), ("MEAL", True), ("self.share", True), ("inn_food.PRICE * 0 + RENT", True)],
    ids=["beside one of the same name", "by another name", "read by a constructor", "read as a module is loaded"],
)
def test_what_a_value_decides_is_tested_where_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], used: str, *, is_proved: bool
) -> None:
    """Of two edited constants of one name and value the one with an effect is named; what was read before has some effect."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("other").mkdir()
    for folder, price in ((Path(), 2), (Path("other"), 3)):
        (folder / "inn_of_road.py").write_text(INN.format(used))
        for name in ("inn_beds", "inn_food"):
            (folder / f"{name}.py").write_text(f"\nPRICE = {price}\n" if name == "inn_food" else f"PRICE = {price}\n")
    for name in ("inn_of_road", "inn_beds", "inn_food"):
        sys.modules.pop(name, None)
    with recorder.Recorder("run.tape", importlib.import_module("inn_of_road").Inn(), trial_ms=0) as tape:
        tape.step()

    assert run(replayer.commands.main.main, "explain run.tape --sim inn_of_road:Inn --code other") == 1
    printed = capsys.readouterr().out
    assert "has no effect" not in printed
    assert ("tested: with PRICE of A alone, B gives the state of A" in printed) == is_proved
    assert "inn_food.py:2 (A)" in printed
    assert "inn_beds.py" not in printed
