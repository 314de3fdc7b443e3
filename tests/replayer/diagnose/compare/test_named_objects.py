"""replay diff names the attributes of objects that differ, not all objects that are saved in another way because of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

MODULE = """
class Castle:
    def __init__(self, owner):
        self.owner, self.gold = owner, 50


class War:
    def __init__(self, local="red"):
        self.local = local
        self.castles = {name: Castle(name) for name in ("red", "blue")}

    def step(self):
        self.castles["red"].gold += 1


def other():
    return War("blue")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two tapes of peers that differ in a text, which is one object with the name of a castle."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("castle_war.py").write_text(MODULE)
    module = importlib.import_module("castle_war")
    for name, make in (("a.tape", module.War), ("b.tape", module.other)):
        with recorder.record(make(), name, quiet=True) as war:
            for _ in range(9):
                war.step()
    yield
    sys.modules.pop("castle_war", None)


def test_castles_that_are_equal_are_not_said_to_differ(capsys: Any) -> None:
    """Nor does the last line name columns of the way in which objects are saved."""
    assert run(replayer.commands.main.main, "diff a.tape b.tape --sim castle_war:War") == 1
    printed = capsys.readouterr().out

    assert "  fields: local\n" in printed
    assert "Castle" not in printed
    assert "graph." not in printed
