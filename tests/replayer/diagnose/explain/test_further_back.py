"""The search for a line goes on where values alone end: at loops, objects that are chosen, containers, settings."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from replayer.diagnose.explain.values.compiled_globals import compiled_globals

from oracle.command_lines import run

MODULE = """
import decimal
import enum
import json
from collections import defaultdict, deque

import numpy as np


class Phase(enum.Enum):
    DAY = "day"


class Saved:
    \"\"\"Keeps what names has, as JSON.\"\"\"

    def save(self):
        return {name: getattr(self, name) for name in self.names}

    def load(self, saved):
        vars(self).update(saved)


class Kept:
    \"\"\"Keeps what save() of another class returns.\"\"\"

    def save(self):
        kept = {}
        for name, value in super().save().items():
            kept[name] = json.dumps(value).encode()
        return kept

    def load(self, saved):
        super().load({name: json.loads(bytes(value)) for name, value in saved.items()})


class Mine(Saved):
    names = ("day", "ore")

    def __init__(self):
        self.day, self.ore, self.tired = 0, 0, 0

    def step(self, inputs):
        self.day += 1
        self.tired += 1
        self.ore += 20 - self.tired  # KeptMine


class KeptMine(Kept, Mine):
    pass


class Trader:
    def __init__(self):
        self.window, self.price = deque([1, 2, 3], maxlen=3), 3

    def step(self, inputs):
        self.price += 1
        self.window.append(self.price)  # Trader

    def save(self):
        return {"window": json.dumps(list(self.window)).encode(), "price": np.int64(self.price)}

    def load(self, saved):
        self.window, self.price = deque(json.loads(saved["window"])), int(saved["price"])


class Bakery:
    def __init__(self):
        self.habit, self.stock = defaultdict(lambda: 6), 0

    def step(self, inputs):
        self.stock += self.habit["rye"]  # Bakery

    def save(self):
        return {"habit": json.dumps({}).encode(), "stock": np.int64(self.stock)}

    def load(self, saved):
        self.habit, self.stock = defaultdict(int), int(saved["stock"])


class Chain:
    def __init__(self):
        self.speed = np.full(3, 0.1)

    def step(self, inputs):
        self.speed = self.speed * 1.1

    def save(self):
        return {"speed": self.speed}

    def load(self, saved):
        self.speed = saved["speed"].astype(np.float32)


class Watch:
    def __init__(self):
        self.phase, self.left = Phase.DAY, 5

    def step(self, inputs):
        self.left -= 1

    def save(self):
        return {"phase": self.phase.value.encode(), "left": np.int64(self.left)}  # Watch

    def load(self, saved):
        self.phase, self.left = bytes(saved["phase"]).decode(), int(saved["left"])


PATROL, CHASE = "patrol the aisles", "chase an intruder"


class Robot:
    def __init__(self):
        self.mode, self.place = PATROL, 0

    def step(self, inputs):
        self.place += 1
        if self.place == 5 and self.mode is PATROL:  # Robot
            self.mode = CHASE

    def save(self):
        return json.dumps([self.mode, self.place]).encode()

    def load(self, saved):
        self.mode, self.place = json.loads(saved)


class Account:
    def __init__(self):
        self.balance = decimal.Decimal(1)

    def accrue(self):
        self.balance += self.balance / 7  # Bank


class Bank:
    def __init__(self):
        decimal.getcontext().prec = 28
        self.accounts, self.day = [Account(), Account()], 0

    def step(self, inputs):
        self.day += 1
        for account in self.accounts:
            account.accrue()
        if self.day == 3:
            decimal.getcontext().prec = 12

    def save(self):
        balances = ",".join(str(account.balance) for account in self.accounts)
        return {"balances": balances.encode(), "day": np.int64(self.day)}

    def load(self, saved):
        for account, text in zip(self.accounts, bytes(saved["balances"]).decode().split(",")):
            account.balance = decimal.Decimal(text)
        self.day = int(saved["day"])


class Monitor:
    def __init__(self):
        self.warnings = 0

    def warn(self):
        self.warnings += 1


monitor = Monitor()


class Reactor:
    def __init__(self):
        self.rods, self.pressure = 0, 0

    def step(self, inputs):
        self.pressure += 1
        monitor.warn()
        if monitor.warnings % 4 == 3:  # Reactor
            self.rods += 7

    def save(self):
        return {"rods": np.int64(self.rods), "pressure": np.int64(self.pressure)}

    def load(self, saved):
        self.rods, self.pressure = int(saved["rods"]), int(saved["pressure"])


class Bidder:
    \"\"\"All have one hash, so a set gives them in the order in which they came.\"\"\"

    def __init__(self, name, purse):
        self.name, self.purse = name, purse

    def __hash__(self):
        return 7

    def limit(self):
        return self.purse // 2


class Market:
    def __init__(self):
        self.present = {Bidder("wren", 90), Bidder("aldo", 95), Bidder("gorm", 80)}

    def winner(self):
        best = None
        for bidder in self.present:  # Market
            if best is None or bidder.limit() > best.limit() + 4:
                best = bidder
        return best

    def step(self, inputs):
        chosen = self.winner()
        chosen.purse -= 3

    def save(self):
        purses = {bidder.name: bidder.purse for bidder in self.present}
        return json.dumps(purses, sort_keys=True).encode()

    def load(self, saved):
        self.present = {Bidder(name, purse) for name, purse in json.loads(saved).items()}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the module."""
    (tmp_path / "further_worlds.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("further_worlds", None)


def explained(name: str, tick: int, capsys: Any) -> str:
    """What explain prints of a tick, of a recording with a keyframe at tick 4."""
    world = getattr(importlib.import_module("further_worlds"), name)()
    with Recorder("run.tape", world, keyframe_interval_ticks=4, trial_ms=0) as tape:
        for _ in range(9):
            tape.step(None)
    capsys.readouterr()
    assert run(replayer.commands.main.main, f"explain run.tape --sim further_worlds:{name} --tick {tick}") == 1
    return str(capsys.readouterr().out)


def place(name: str) -> str:
    """The marked line of a program, as explain prints it."""
    lines = MODULE.splitlines()
    return f"further_worlds.py:{next(number for number, line in enumerate(lines, 1) if line.endswith(f'# {name}'))} in"


@pytest.mark.parametrize(
    ("name", "tick", "words"),
    [
        ("KeptMine", 5, "outside the state: self.tired"),  # A later turn of a loop over what super().save() returned.
        ("Trader", 5, "a deque of 3, at most 3"),
        ("Bakery", 5, "a defaultdict of 0, default int"),
        ("Reactor", 7, "outside the state: monitor.warnings"),  # Not self.warnings: the line is not a monitor's.
        ("Robot", 5, "compares by identity (is)"),  # Texts that load() makes are equal, and not the same object.
        ("Watch", 1, "B has it from load()"),  # A member of an enumeration comes back as its value: save() raises.
        ("Market", 1, "order of self.present"),  # Objects are paired in the order in which the loop reaches them.
    ],
)
@pytest.mark.share(0.22)
@pytest.mark.seldom(0.15)
def test_the_line_and_what_it_reads_are_named(name: str, tick: int, words: str, capsys: Any) -> None:
    """The first place after the cause is the marked line."""
    text = explained(name, tick, capsys).partition("cause:")[2]

    assert f"{text.partition('further_worlds.py')[1]}{text.partition('further_worlds.py')[2]}".startswith(place(name))
    assert words in text


@pytest.mark.seldom(0.15)
def test_a_setting_that_is_proved_is_not_said_to_be_unknown(capsys: Any) -> None:
    """The line reads a list of objects, of which not all was seen; the setting of the process is the cause."""
    text = explained("Bank", 5, capsys)

    assert "cause: decimal.getcontext() differs before the step" in text
    assert "with that of A, B gives the state of A" in text
    assert "not known" not in text
    assert place("Bank") in text


def test_an_array_of_another_type_is_not_shown_as_the_same(capsys: Any) -> None:
    """What was loaded and what save() then returns have two texts."""
    text = explained("Chain", 5, capsys)

    assert "speed: an array of 3 float64 was loaded, save() then returns an array of 3 float32" in text


def test_the_globals_of_a_compiled_function_are_those_that_it_names() -> None:
    """Data alone, and of functions of a compiler alone."""
    source = "WIND = 3\ndef slump(x):\n    return x\ndef blow(x):\n    return slump(x) + WIND\ndef step():\n    return blow(1)\n"
    names: dict[str, Any] = {}
    exec(source, names)
    frames = []
    plain: FunctionType = names["blow"]
    kind = type(
        "Dispatcher", (), {"__module__": "numba.core", "py_func": plain, "__call__": lambda *_: frames.append(1)}
    )

    def named() -> dict[str, Any]:
        frame = sys._getframe()
        return compiled_globals(type("Frame", (), {"f_globals": names, "f_code": names["step"].__code__})()) or {
            "none": frame.f_code.co_name
        }

    assert named() == {"none": "named"}
    names["blow"] = kind()
    assert named() == {"blow": {"WIND": 3}}
    assert json.dumps(named())
