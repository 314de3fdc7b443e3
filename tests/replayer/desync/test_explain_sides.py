"""Which sides replay explain compares, and what it says where they agree: seeds, damage, the code that is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.cli

from oracle.command_lines import run

SOURCES = str(Path(__file__).parents[3] / "src")
BAD_TICK = 15
MODULE = '''
from sim import Field, Schema, State


class Sets:
    """The order of a set decides about one number at one tick."""

    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "f8", (4,))))

    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] == 15:
            for word in {"oak", "elm", "birch", "lime", "ash"}:  # Sets
                self.state["x"][2] = self.state["x"][2] * 0.7 + len(word)
'''
RECORD = """
import sys, recorder, some_sides
with recorder.Recorder(sys.argv[2], getattr(some_sides, sys.argv[1])(), keyframe_interval_ticks=10) as tape:
    for tick in range(30):
        tape.step()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module; no hash seed is set."""
    (tmp_path / "some_sides.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    yield tmp_path
    sys.modules.pop("some_sides", None)


def record(name: str, tape: str, **environment: str) -> None:
    """Record thirty ticks in a process of its own."""
    paths = os.pathsep.join([str(Path.cwd()), SOURCES])
    command = [sys.executable, "-c", RECORD, name, tape]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths, **environment}, check=True)


def line_of(name: str) -> int:
    """The line that is marked with a name."""
    return MODULE[: MODULE.index(f"  # {name}")].count("\n") + 1


@pytest.mark.parametrize(
    ("present", "arguments"),
    [(None, ""), (None, f" --tick {BAD_TICK}"), ("random", f" --tick {BAD_TICK}")],
)
def test_a_tape_with_hash_seed_0_is_tried_with_other_seeds(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, present: str | None, arguments: str
) -> None:
    """The seed that a side has for want of another is no reason to find nothing; the side's label says the seed."""
    record("Sets", "sets.tape", PYTHONHASHSEED="0")
    if present is not None:
        monkeypatch.setenv("PYTHONHASHSEED", present)

    assert run(replayer.cli.main, f"explain sets.tape --sim some_sides:Sets --json{arguments}") == 1
    facts = json.loads(capsys.readouterr().out)
    sides = {side["compared_as"]: side for side in facts["sides"]}
    assert (facts["tick"], facts["cause"]["line"]) == (BAD_TICK, line_of("Sets"))
    assert (sides["A"]["as_recorded"], sides["B"]["as_recorded"]) == (True, False)
    assert "PYTHONHASHSEED=1" in sides["B"]["label"]
    assert sides["B"]["environment"] == {"PYTHONHASHSEED": "1"}


def test_sides_that_were_asked_for_have_one_seed(capsys: Any) -> None:
    """A variable without any effect makes no difference, whatever the seed of the recording."""
    record("Sets", "sets.tape", PYTHONHASHSEED="0")

    assert run(replayer.cli.main, f"explain sets.tape --sim some_sides:Sets --tick {BAD_TICK} --json --env FOO=1") == 0
    assert json.loads(capsys.readouterr().out)["agrees"]
