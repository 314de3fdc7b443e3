"""What a save and a load change, lose or leave is told with the lines of save() and load() that do."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from recorder import Recorder
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.explain import explain_tape
from replayer.diagnose.explain.values.loaded_lines import loaded_values
from replayer.report.before_step import before_step_lines
from replayer.report.cause_text import undone_lines
from sim.kernel.simulation import ArenaOfSaved

MODULE = """
import itertools
import json
import random


class Mine:  # Its keys are numbers, and texts after load().
    def __init__(self):
        self.shafts, self.dug = {}, 0

    def deepen(self, shaft):
        return self.shafts.get(shaft, 0) + 1  # Mine reads

    def step(self, inputs):
        shaft = self.dug % 3
        self.shafts[shaft] = self.deepen(shaft)
        self.dug += self.shafts[shaft]

    def save(self):
        return json.dumps({
            "shafts": self.shafts,  # Mine saves
            "dug": self.dug,
        }).encode()

    def load(self, saved):
        values = json.loads(saved)
        self.dug = values["dug"]
        self.shafts = values["shafts"]  # Mine


class Deck:  # What load() calls draws from the generator that it has restored.
    def __init__(self):
        self.dice, self.day, self.cards = random.Random(5), 0, []

    def deal(self):
        self.cards = []
        for _ in range(min(self.day, 2)):
            self.cards.append(self.dice.randrange(9))  # Deck draws

    def step(self, inputs):
        self.day += 1
        self.deal()

    def save(self):
        version, words, gauss = self.dice.getstate()
        return json.dumps([version, words, gauss, self.cards, self.day]).encode()

    def load(self, saved):
        version, words, gauss, cards, self.day = json.loads(saved)
        self.dice.setstate((version, tuple(words), gauss))  # Deck sets
        self.deal()  # Deck changes
        self.cards = cards


class Early(Deck):  # As a Deck, from its first tick.
    def __init__(self):
        super().__init__()
        self.day = 3


class Hill:  # What it keeps of the height is neither saved nor made again.
    def __init__(self):
        self.height, self.top = [3, 1, 2], 3
        self.days = 0

    def step(self, inputs):
        self.days += self.top
        self.height[self.days % 3] += 1
        self.top = max(self.height)

    def save(self):
        return json.dumps([self.height, self.days]).encode()

    def load(self, saved):  # Hill
        self.height, self.days = json.loads(saved)


class Tags:  # A step takes the first one of a set, which load() makes in another order.
    def __init__(self):
        self.tags, self.sum = set([17, 33, 1]), 0

    def step(self, inputs):
        first = next(iter(self.tags))
        self.tags.remove(first)
        self.sum = (self.sum * 3 + first) % 64
        self.tags.add(self.sum * 7 % 64)

    def save(self):
        tags = sorted(self.tags)  # Tags saves
        return json.dumps([tags, self.sum]).encode()

    def load(self, saved):
        tags, self.sum = json.loads(saved)
        self.tags = set(tags)  # Tags


class Prices:  # The same of a dict.
    def __init__(self):
        self.prices, self.sum = {"oak": 5, "ash": 3, "elm": 8}, 0

    def step(self, inputs):
        name, price = next(iter(self.prices.items()))
        del self.prices[name]
        self.sum = (self.sum * 3 + price) % 97
        self.prices[name] = price + self.sum % 3

    def save(self):
        prices = dict(sorted(self.prices.items()))  # Prices saves
        return json.dumps([prices, self.sum]).encode()

    def load(self, saved):
        self.prices.clear()
        prices, self.sum = json.loads(saved)
        self.prices.update(prices)  # Prices


class Views:  # load() changes what has two names, and what shows no values.
    def __init__(self):
        self.rows = [[1], [2]]
        self.first, self.other = self.rows[0], [self.rows[1]]
        self.counter, self.kept = itertools.count(), []
        self.opaque = object()

    def save(self):
        return b""

    def load(self, saved):
        self.rows[0][0] = self.rows[1][0] = 9
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("mine")


def line_of(mark: str) -> int:
    """The line of the module that ends with this mark."""
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if text.endswith(f"# {mark}"))


def explained(module: Any, name: str) -> Explanation:
    """A run of nine steps with keyframes at each fifth, explained."""
    factory = getattr(module, name)
    with Recorder("run.tape", factory(), keyframe_interval_ticks=5, trial_ms=0) as tape:
        for _ in range(9):
            tape.step()
    return explain_tape("run.tape", sim=f"mine:{name}", factory=factory)


def test_keys_of_another_type_are_of_load_and_no_order(module: Any) -> None:
    explanation = explained(module, "Mine")

    cause = explanation.cause
    assert cause is not None
    assert cause.kind == "outside"
    assert cause.loaded_at is not None
    assert cause.loaded_at.line == line_of("Mine")
    text = "\n".join(before_step_lines(explanation))
    assert "Mine.shafts (attribute): key 0 in A only, key '0' in B only; 3 of 3 keys are others" in text
    assert "the order of the keys" not in text
    assert f"mine.py:{line_of('Mine saves')} " in text


def test_the_line_of_load_that_changes_what_an_earlier_one_set_is_the_cause(module: Any) -> None:
    explanation = explained(module, "Deck")

    cause = explanation.cause
    assert cause is not None
    assert "  set by load():" not in before_step_lines(explanation)
    assert cause.kind == "load"
    assert cause.place.line == line_of("Deck changes")
    assert cause.undone is not None
    assert cause.undone.set_by is not None
    assert cause.undone.set_by.line == line_of("Deck sets")
    assert cause.undone.changed_in is not None
    assert cause.undone.changed_in.line == line_of("Deck draws")
    shown = [line.split()[0] for line in undone_lines(cause) if "mine.py" in line]
    assert shown == [f"mine.py:{line_of(mark)}" for mark in ("Deck sets", "Deck draws")]


def test_what_a_new_instance_has_as_saved_may_be_changed_by_load_too(module: Any) -> None:
    cause = explained(module, "Early").cause

    assert cause is not None
    assert cause.place.line == line_of("Deck changes")
    assert cause.undone is not None
    assert cause.undone.set_by is None
    assert undone_lines(cause)[0] == "  before this line it was as A has it, as in a new instance"


@pytest.mark.parametrize(("name", "kind"), [("Tags", "order"), ("Prices", "outside")])
def test_an_order_that_save_loses_is_told_with_its_line(module: Any, name: str, kind: str) -> None:
    explanation = explained(module, name)

    assert explanation.cause is not None
    assert explanation.cause.kind == kind
    lines = before_step_lines(explanation)
    (told,) = [number for number, line in enumerate(lines) if "save() returns the same" in line]
    assert lines[told + 1].split()[0] == f"mine.py:{line_of(f'{name} saves')}"
    set_by = explanation.cause.loaded_at or explanation.set_by_load[0]
    assert set_by.line == line_of(name)


def test_what_may_have_changed_is_not_said_to_be_as_in_a_new_instance(module: Any) -> None:
    saved = ArenaOfSaved(module.Views()).state.snapshot()

    loaded = loaded_values(lambda: ArenaOfSaved(module.Views()), saved)

    assert {one.path for one in loaded if one.is_left} == {".counter", ".kept"}


def test_the_head_of_load_is_told_where_that_leaves_what_was_proved(module: Any) -> None:
    explanation = explained(module, "Hill")

    assert explanation.cause is not None
    assert explanation.cause.kind == "outside"
    lines = before_step_lines(explanation)
    told = lines.index("  load() leaves that as it is in a new instance:")
    assert lines[told + 1].split()[0] == f"mine.py:{line_of('Hill')}"
