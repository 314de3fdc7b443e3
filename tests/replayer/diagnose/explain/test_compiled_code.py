"""A traced step does not break code that accepts plain arrays alone, and nothing of the tracing is shown as a value."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.conformance.contract_checks import simulation_from
from replayer.diagnose.explain.trace_step import TracedStep, trace_step
from sim.kernel.simulation import as_simulation

pytestmark = pytest.mark.share(0.18)

# A stand-in for a function in C that checks for the exact class, as many do.
STRICT = """
import numpy as np


def total(values):
    if type(values) is not np.ndarray:
        raise TypeError(f"expected an ndarray, got {type(values).__name__}")
    return float(values.sum())


class Summing:
    def total(self, values):
        return total(values)
"""
MODULE = """
import numpy as np
import strict_c
from sim import Field, Schema, State
from strict_c import Summing, total


class Base:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (5,))))
        self.state["x"][:] = np.arange(5)
        self.summing = Summing()


class Functions(Base):
    def step(self, inputs):
        x = self.state["x"]
        x[:] = np.exp(x * 0.5)
        x[0] = total(x) + strict_c.total(np.cos(x))


class Captured:
    def __init__(self):
        self.x = np.arange(5.0)

    def step(self, inputs):
        self.x = np.exp(self.x * 0.5)
        self.fresh = np.array([total(self.x)])
        return self.fresh


class Method(Base):
    def step(self, inputs):
        x = self.state["x"]
        x[:] = np.exp(x)
        x[0] = self.summing.total(x)  # HERE
"""
COMPILED = """
import numba
import numpy as np
from numba.experimental import jitclass
from sim import Field, Schema, State


@numba.njit
def draw(x):
    np.random.seed(3)
    for number in range(x.shape[0]):
        x[number] += np.random.random()
    return np.exp(x).sum()


@numba.vectorize
def halves(a, b):
    return a * 0.5 + b


@numba.guvectorize(["(f8[:], f8, f8[:])"], "(n),()->(n)")
def added(a, b, out):
    for number in range(a.shape[0]):
        out[number] = a[number] + b


@numba.njit(parallel=True)
def spread(x, by):
    for number in numba.prange(x.shape[0]):
        x[number] += by


@jitclass([("values", numba.float64[:])])
class Box:
    def __init__(self, values):
        self.values = values

    def grow(self, by):
        for number in range(self.values.shape[0]):
            self.values[number] += np.exp(by)


class Sim:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (5,))))
        self.kernel = draw
        self.buffer = np.zeros(5)

    def step(self, inputs):
        x = self.state["x"]
        draw(x)
        self.kernel(self.buffer)
        x[:] = halves(x, np.cos(self.buffer))
        x[:] = added(x, 2.0)
        spread(x, 1.0)
        Box(x).grow(0.5)
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's module, and the strict one among installed packages."""
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "strict_c.py").write_text(STRICT)
    (tmp_path / "calls_of_c.py").write_text(MODULE)
    (tmp_path / "calls_of_numba.py").write_text(COMPILED)
    monkeypatch.syspath_prepend(installed)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("strict_c", "calls_of_c", "calls_of_numba"):
        sys.modules.pop(name, None)


def traced(module: str, name: str) -> TracedStep:
    """The first step of a simulation, traced."""
    return trace_step(as_simulation(getattr(importlib.import_module(module), name)()), None)


def operations(step: TracedStep) -> list[str]:
    """The names of the operations in a trace, in their order."""
    return [operation.name for operation in step.trace.operations]


def test_functions_of_installed_packages_get_plain_arrays() -> None:
    """By their names and through their module; the operations around them are still watched."""
    step = traced("calls_of_c", "Functions")
    assert (step.raised, step.note, step.is_same) == (None, None, True)
    assert {"np.exp", "np.cos"} <= {*operations(step)}


def test_captured_objects_keep_arrays_of_the_exact_class() -> None:
    """No view gets into what is saved after the step; calls of functions are watched all the same."""
    step = trace_step(simulation_from(importlib.import_module("calls_of_c").Captured()), None)
    assert (step.raised, step.note, step.is_same) == (None, None, True)
    assert {"np.exp", "np.array"} <= {*operations(step)}


def test_a_method_that_refuses_views_is_named_with_its_line() -> None:
    """Only lines are traced then, and the reason is what the method raised."""
    step = traced("calls_of_c", "Method")
    line = MODULE[: MODULE.index("  # HERE")].count("\n") + 1
    assert (step.raised, step.is_same, operations(step)) == (None, True, [])
    assert step.note is not None
    assert step.note.startswith("arrays were not watched, only lines: ")
    assert "TypeError: expected an ndarray, got WatchedArray" in step.note
    assert step.note.endswith(f" in calls_of_c.py:{line}")


@pytest.mark.parametrize("name", ["Functions", "Method"])
@pytest.mark.seldom(0.15)
def test_nothing_of_the_tracing_is_shown(name: str) -> None:
    """The state and its fields have the names of the user's classes in every trace."""
    step = traced("calls_of_c", name)
    assert not [text for text in step.trace.texts.values() if "Watched" in text]
    assert "a State" in step.trace.texts.values()


@pytest.mark.seldom(0.1)
def test_numba_compiles_and_runs_as_without_the_tracing() -> None:
    """Functions with random numbers, by two names, ufuncs of both kinds, threads, and a compiled class."""
    pytest.importorskip("numba")
    step = traced("calls_of_numba", "Sim")
    assert (step.raised, step.note, step.is_same) == (None, None, True)
    named = operations(step)
    assert {"calls_of_numba.draw", "calls_of_numba.halves", "calls_of_numba.spread", "np.cos"} <= {*named}
