"""A line that changes an object, before a function reads it by its attributes: it is known by the variable that has the object."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.step_trace import StepTrace
from replayer.diagnose.explain.trace_step import trace_step

MODULE = """
from sim import Field, Schema, State


class Boat:
    def __init__(self, number):
        self.place, self.fuel, self.cargo = 10.0 * number, 50.0, []


def moor(boat):
    if boat.place > 900:
        boat.place = 0.0


def sail(boats, wind):
    for boat in boats:
        boat.place += wind  # place
        boat.fuel -= 0.25  # fuel
        boat.cargo.append(wind)  # cargo
        wind += 1
        moor(boat)


class Harbour:
    def __init__(self):
        self.state = State(Schema(Field("count", "i8")))
        self.boats = [Boat(n) for n in range(3)]

    def step(self, inputs):
        sail(self.boats, 0.5)
        self.state["count"] += 1
"""


def test_an_attribute_that_is_read_late_was_changed_by_the_line_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by the call whose function is the first to read it."""
    (tmp_path / "harbours.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "harbours", raising=False)
    importlib.invalidate_caches()
    simulation = importlib.import_module("harbours").Harbour()

    trace = StepTrace.from_plain(in_a_copy(lambda: trace_step(simulation, None).to_plain())["trace"])

    number = next(number for number, name in trace.owners.items() if name.endswith("boats[0]"))
    changed = {
        name.partition(":")[2]: record.line
        for record in trace.records
        for name in record.after
        if name.startswith(f"o{number}:")
    }
    lines = MODULE.splitlines()
    wanted = ("place", "fuel", "cargo")
    assert changed == {
        mark: next(at for at, text in enumerate(lines, 1) if text.endswith(f"# {mark}")) for mark in wanted
    }
