"""A compiled function keeps the values of globals that it was compiled with: which of them decides is tested, and told."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.given.give import give_from_the_other
from replayer.diagnose.explain.values.given_values import GivenValues
from sim.kernel.simulation import Simulation, as_simulation, restore

pytestmark = pytest.mark.share(0.3)

TIDE = """
import numba
from sim import Field, Schema, State

PULL = 1.0
MOON = 1


@numba.njit
def pulled(x):
    return x + PULL


@numba.njit
def moved(x):
    return pulled(x) * 0.5 + 0.0 * MOON


class Tide:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (3,)), Field("tick", "i8", ())))

    def step(self, inputs):
        global PULL, MOON
        self.state["tick"][...] += 1
        if self.state["tick"] == FIRST:
            PULL, MOON = 2.0, 2
        if self.state["tick"] >= 4 or FIRST > 3:
            self.state["x"][0] = moved(self.state["x"][0])


FIRST = 0
"""


@pytest.mark.parametrize(
    ("first", "name", "detail"),
    [
        (6, "PULL in tide_table.pulled", "1.0 in A, 2.0 in B"),
        (3, "module tide_table: PULL", "2.0 in A, 1.0 in B"),
    ],
    ids=["compiled before the change", "compiled after the change"],
)
def test_the_constant_that_decides_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, name: str, detail: str
) -> None:
    """It is of a function that a compiled one calls; another constant differs as well, and has no effect.

    The change comes in the step itself, after A has compiled the functions, or before A compiled them, where B is restored.
    """
    pytest.importorskip("numba")
    (tmp_path / "tide_table.py").write_text(TIDE.replace("FIRST = 0", f"FIRST = {first}"))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("tide_table", None)

    def given() -> dict[str, Any]:
        make = importlib.import_module("tide_table").Tide
        before = as_simulation(make()).state.snapshot()

        def prepare(start: int | None) -> Simulation:
            simulation = as_simulation(make())
            for _ in range(start or 0):
                simulation.step(None)
            restore(simulation, before)
            simulation.state["tick"][...] = 5
            return simulation

        return give_from_the_other(make, prepare, [5, None], None, ["x"]).to_plain()

    found = GivenValues.from_plain(in_a_copy(given))
    assert [(one.name, one.detail) for one in found.proved] == [(name, detail)]


KILN = """
import numba
from sim import Field, Schema, State

HEAT = 1.0


@numba.njit
def baked(x):
    return x + HEAT


@numba.njit
def cooled(x):
    return x - 0.25 * HEAT


class Kiln:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (3,)), Field("tick", "i8", ())))

    def step(self, inputs):
        global HEAT
        self.state["tick"][...] += 1
        if self.state["tick"] == 3:
            HEAT = 2.0
        if self.state["tick"] == EARLY:
            baked(0.0)
        if self.state["tick"] == 6:
            HERE


EARLY = 0
"""


def _kiln(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, early: int = 0) -> GivenValues:
    """A is in the state before its tick 6 at once; B has run there, and has changed HEAT at its tick 3."""
    pytest.importorskip("numba")
    (tmp_path / "kiln_hall.py").write_text(KILN.replace("HERE", here).replace("EARLY = 0", f"EARLY = {early}"))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("kiln_hall", None)

    def given() -> dict[str, Any]:
        make = importlib.import_module("kiln_hall").Kiln

        def prepare(start: int | None) -> Simulation:
            simulation = as_simulation(make())
            for _ in range(start or 0):
                simulation.step(None)
            simulation.state["tick"][...] = 5
            return simulation

        return give_from_the_other(make, prepare, [None, 5], None, ["baked"]).to_plain()

    return GivenValues.from_plain(in_a_copy(given))


def test_the_value_that_a_function_is_compiled_with_is_proved_to_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module keeps the value that it has in B: what the step reads is the constant alone, of two functions together."""
    found = _kiln(tmp_path, monkeypatch, 'self.state["x"][0] = baked(0.0) * cooled(0.0)')
    assert [(one.name, one.detail) for one in found.proved] == [("module kiln_hall: HEAT", "1.0 in A, 2.0 in B")]
    (frozen,) = found.frozen
    assert (frozen.name, frozen.functions, frozen.in_a, frozen.in_b) == (
        "HEAT",
        ("kiln_hall.baked", "kiln_hall.cooled"),
        "1.0",
        "2.0",
    )
    assert [one.line for one in frozen.places] == [10, 15]


def test_no_constant_is_named_that_does_not_decide_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step reads the global, too."""
    found = _kiln(tmp_path, monkeypatch, 'self.state["x"][0] = baked(0.0) + HEAT')
    assert [one.name for one in found.proved] == ["module kiln_hall: HEAT"]
    assert found.frozen == ()


def test_compiled_again_with_its_own_constant_an_instance_must_stay_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step counts what was compiled: a new function with any constant gives the state of A."""
    found = _kiln(tmp_path, monkeypatch, 'self.state["x"][0] = len(baked.signatures); HEAT = 2.0; baked(0.0)', early=4)
    assert found.proved == ()
