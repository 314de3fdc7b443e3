"""Which values of modules and classes functions change: by what their statements say, and not by a name alone."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from recorder.ambient.outside.code_parts.changed_values import changed_by_functions
from recorder.ambient.outside.code_parts.places import places_of

OTHER = "delay = 3\nquiet = 1\n"
GAME = """
import random
import other_of_changed_values as other
from other_of_changed_values import quiet

made, total, speed, seen, hidden, table, words, shared = 0, 0, 1, {}, [], {}, [], []
dice, unused = random.Random(1), random.Random(2)
rules = {"a": 1}
heard, lists, named, only_read = {"hit": []}, {}, {"a": {}}, {"a": []}


class Rock:
    made = 0
    size = 1
    kinds = 0
    names = 0

    def __init__(self, table):
        global total
        Rock.made += 1
        total = total + 1
        self.size = 2                     # Of the instance.
        table["x"] = 1                    # The argument.
        made = Rock.made                  # A local name.
        hidden = []
        hidden.append(made)
        quiet = self.size
        self.rules = dict(rules)
        self.rules["a"] = words.index("x") if words else quiet

    @classmethod
    def count(cls):
        cls.kinds += 1
        type(unused)

    def name(self):
        type(self).names = self.__class__.names + 1

    def step(self):
        other.delay = 4
        seen[self.size] = dice.random()
        shared.append(speed)
        heard["hit"].append(self)         # An item of a table, and of one in it.
        lists.setdefault("hit", []).append(self)
        named["a"]["b"] = only_read["a"].index(self) if only_read["a"] else 0
"""


def test_values_are_told_by_the_statements_that_change_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of arguments, of locals and of an instance's attributes are others."""
    (tmp_path / "other_of_changed_values.py").write_text(OTHER)
    (tmp_path / "game_of_changed_values.py").write_text(GAME)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("game_of_changed_values")
    try:
        changed = {place.name for place in changed_by_functions(places_of(module.Rock({})))}
    finally:
        for name in ("game_of_changed_values", "other_of_changed_values"):
            sys.modules.pop(name, None)
    in_place = {"seen", "shared", "dice", "heard", "lists", "named"}
    assert changed == {"Rock.made", "Rock.kinds", "Rock.names", "total", "delay", *in_place}
