"""The line of the step that reads hidden state: not that of save(), nor one that calls what keeps it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from sim.adapters import adapt

from oracle.command_lines import run

MODULE = """
import copy
import json
import pickle

import numpy as np


class Guild:
    def __init__(self):
        self.members, self.chest = {"wren": 0, "aldo": 0}, 0

    def step(self, inputs):
        self.chest += 7
        for name in self.members:  # Guild
            self.members[name] += min(self.chest, 5)
            self.chest -= min(self.chest, 5)

    def save(self):
        return json.dumps([self.members, self.chest], sort_keys=True).encode()

    def load(self, saved):
        self.members, self.chest = json.loads(saved)


class Wrap:
    def __init__(self):
        self.pixels = np.array([200, 100], np.uint8)

    def step(self, inputs):
        self.pixels = self.pixels + 90  # Wrap

    def save(self):
        return {"pixels": self.pixels.astype(np.int64)}

    def load(self, saved):
        self.pixels = saved["pixels"].copy()


class Total:
    def __init__(self):
        self.total = 0

    def save(self):
        return {"total": np.int64(self.total)}

    def load(self, saved):
        self.total = int(saved["total"])


class Default(Total):
    def step(self, inputs):
        self.add(3)

    def add(self, amount, kept=[]):
        kept.append(amount)
        self.total += sum(kept)  # Default


def counter():
    count = 0

    def add(amount):
        nonlocal count
        count += amount
        return count  # Closure

    return add


ADD = counter()


class Closure(Total):
    def step(self, inputs):
        self.total += ADD(3)


class Passed(Total):
    unsaved = 1

    def step(self, inputs):
        self.unsaved = self.unsaved + 1
        self.add(self.unsaved)  # Passed

    def add(self, amount=0):
        self.total += amount


class Buffers:
    def __init__(self):
        self.cells, self.back = np.arange(5), np.zeros(5, int)

    def step(self, inputs):
        for place in range(5):
            self.back[place] = self.cells[place] + self.cells[place - 1]
        self.cells, self.back = self.back, self.cells

    def save(self):
        return {"cells": self.cells}

    def load(self, saved):
        self.cells = self.back = saved["cells"].copy()  # Buffers


class Goat:
    horns = ()


GOAT = Goat()


def goat():
    one = copy.copy(GOAT)  # Herd
    return one


class Herd:
    def __init__(self):
        self.goats = []

    def step(self, inputs):
        self.goats.append(goat())
        GOAT.horns = (*GOAT.horns, 1)


class Kettle:
    def __init__(self, heat):
        self.heat = heat

    def __getstate__(self):
        saved = self.__dict__.copy()
        saved["heat"] = round(saved["heat"], 2)
        return saved

    def warm(self):
        self.heat *= 1.7  # Kettles

    @property
    def boils(self):
        return self.heat > 1000


class Kettles:
    def __init__(self):
        self.kettles, self.boiling = [Kettle(20.004), Kettle(30.044)], 0

    def step(self, inputs):
        for one in self.kettles:
            one.warm()
        self.boiling = len([one for one in self.kettles if one.boils])

    def save(self):
        return pickle.dumps((self.kettles, self.boiling))

    def load(self, saved):
        self.kettles, self.boiling = pickle.loads(saved)


class Guest:
    def __init__(self, number, coats=[]):
        self.number = number
        self.coats = coats  # Guests


class Guests:
    def __init__(self):
        self.guests = []

    def step(self, inputs):
        self.guests.append(Guest(len(self.guests)))


def numbered():
    number = 0
    while True:
        number += 1
        if number % 2:
            yield number * 10
        else:
            yield 1


ROUNDS = numbered()


class Rounds(Total):
    def step(self, inputs):
        self.total += next(ROUNDS)  # Rounds
"""
# What a fresh instance reads otherwise: by the class, the kind of the cause, and the hidden state.
TRUTHS = {
    "Guild": ("outside", ["self.members"]),
    "Wrap": ("outside", ["self.pixels"]),
    "Default": ("outside", ["kept, which the caller did not pass"]),
    "Closure": ("outside", ["count, a variable of the function around it"]),
    "Passed": ("outside", ["self.unsaved"]),
    "Buffers": ("joined", []),
    "Herd": ("outside", ["reading_lines.GOAT"]),
    "Kettles": ("outside", []),
    "Guests": ("shared", []),
    "Rounds": ("outside", ["reading_lines.ROUNDS"]),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the module."""
    (tmp_path / "reading_lines.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("reading_lines", None)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", list(TRUTHS))
def test_the_line_that_reads_it_is_named(name: str, capsys: Any) -> None:
    """Keyframes every four ticks do not hold it: the step after one reads it first."""
    made = getattr(importlib.import_module("reading_lines"), name)()
    with Recorder(
        "run.tape", made if hasattr(made, "save") else adapt(made), trial_ms=0, keyframe_interval_ticks=4
    ) as tape:
        for _ in range(8):
            tape.step()
    tick = 1 if name in {"Guild", "Wrap", "Buffers", "Kettles"} else 5

    assert run(replayer.commands.main.main, f"explain run.tape --sim reading_lines:{name} --tick {tick} --json") == 1
    cause = json.loads(capsys.readouterr().out)["cause"]
    line = MODULE[: MODULE.index(f"  # {name}")].count("\n") + 1
    assert (cause["line"], cause["kind"]) == (line, TRUTHS[name][0])
    assert [value["name"] for value in cause["outside"]] == TRUTHS[name][1]
    if name == "Rounds":  # Where it stands before the step: the generator of B begins in it.
        places = cause["outside"][0]["first"], cause["outside"][0]["second"]
        assert len(set(places)) == 2
        assert all(one.startswith("a generator at line ") for one in places)
