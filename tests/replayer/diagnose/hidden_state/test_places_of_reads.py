"""The lines and names of what a step reads from the system, also by installed packages and by Python's own pools."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from replayer import SyncTest

PACKAGE = """
import numpy as np


def shuffled(numbers):
    return np.random.default_rng().permutation(numbers)
"""
PROGRAM = """
import multiprocessing
import random

import dicebox
import numpy as np


class Deck:
    def __init__(self):
        self.top = 0
        self.ticks = 0

    def step(self, inputs):
        self.ticks += 1
        if self.ticks > 5:
            self.top = self.draw()

    def save(self):
        return b"%d %d" % (self.top, self.ticks)

    def load(self, saved):
        self.top, self.ticks = map(int, saved.split())

    def draw(self):
        return int(dicebox.shuffled(range(10**6))[0])  # Packaged


class Own(Deck):
    def draw(self):
        return int(np.random.default_rng().integers(10**6))  # A system's own. Own


class Asked(Deck):
    def draw(self):
        return random.SystemRandom().getrandbits(20)  # Asked


class Queued(Deck):
    def draw(self):
        queue = multiprocessing.SimpleQueue()
        queue.put(1)
        return queue.get() + random.SystemRandom().getrandbits(20)  # Queued
"""


@pytest.mark.parametrize(
    ("name", "mark", "source"),
    [
        ("Deck", "Packaged", "a seed from the system"),
        ("Own", "Own", "a seed from the system"),
        ("Asked", "Asked", "random.getrandbits"),
        ("Queued", "Queued", "random.getrandbits"),
    ],
)
def test_the_users_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mark: str, source: str
) -> None:
    """Not that of the package, and not what Python draws names from."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "dicebox.py").write_text(PACKAGE)
    (tmp_path / "card_table.py").write_text(PROGRAM)
    for path in (folder, tmp_path):
        monkeypatch.syspath_prepend(path)
    for module in ("dicebox", "card_table"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    world: Any = importlib.import_module("card_table")

    line = next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f" {mark}"))
    (told,) = {str(one).partition(" ticks, ")[::2] for one in SyncTest(getattr(world, name), ticks=8).run().suspects}
    assert told[0].startswith(f"{source} (entropy)")
    assert told[1] == f"at card_table.py:{line}; proved"
