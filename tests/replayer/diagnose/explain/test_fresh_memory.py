"""What fresh memory holds is different by nature: an operation that gives some is no cause without a test."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import IDLE, OPEN
from replayer.diagnose.explain.explained_pair import explained_pair, with_memory_tested
from replayer.diagnose.explain.find_cause import find_cause
from replayer.diagnose.explain.foreign.fresh_memory import gives_fresh_memory
from replayer.diagnose.explain.outside import further_variants
from replayer.diagnose.explain.step_trace import StepTrace
from replayer.diagnose.explain.trace_step import TracedStep, trace_step
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.report.cause_text import cause_text

POND = """
import random

import numpy as np
from sim import Field, Schema, State


class Pond:
    def __init__(self):
        self.state = State(Schema(Field("x", "f8", (40,))))

    def step(self, inputs):
        rain = {}
        {}
        self.state["x"][:] += rain
"""
FILLED = """
def filled(*arguments, **named):
    made = empty(*arguments, **named)
    if made.dtype == float:
        made.fill(number)
    return made
"""
WRITTEN = "rain[:] = random.uniform(0, 1)"


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a step twice, where fresh memory holds other numbers, and random draws other ones."""

    def trace(made: str, line: str) -> list[TracedStep]:
        path = tmp_path / "rain_pond.py"
        path.write_text(POND.replace("rain = {}", f"rain = {made}").replace("        {}\n", f"        {line}\n"))
        spec = importlib.util.spec_from_file_location("rain_pond", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "rain_pond", module)
        spec.loader.exec_module(module)

        def run(number: int) -> dict[str, Any]:
            names = {"empty": np.empty, "number": number}
            exec(compile(FILLED, np.__file__, "exec"), names)  # No code of the user's: its lines are not traced.
            np.empty = names["filled"]  # type: ignore[assignment] # In the copy alone.
            random.seed(number)
            return trace_step(module.Pond(), None).to_plain()

        return [TracedStep.from_plain(in_a_copy(lambda number=number: run(number))) for number in (3, 4)]  # type: ignore[misc]

    return trace


def cause_of(traces: list[StepTrace], *, past_memory: bool) -> Any:
    return find_cause(Alignment(traces[0], traces[1], past_memory=past_memory))


def test_the_search_goes_past_memory_that_the_next_line_writes(traced: Any) -> None:
    """The line that writes it is named, whose numbers are drawn; without it, the first difference is what the memory holds."""
    traces = [step.trace for step in traced("np.empty(40)", WRITTEN)]

    assert cause_of(traces, past_memory=False).operation == "np.empty"
    cause = cause_of(traces, past_memory=True)
    assert (cause.kind, cause.operation, cause.place.text, cause.memory) == ("operation", "random.uniform", WRITTEN, "")


def test_what_only_memory_makes_different_has_no_cause_past_it(traced: Any) -> None:
    """Arithmetic with it makes no difference by itself."""
    traces = [step.trace for step in traced("np.empty(40)", "rain = np.add(rain, 2) * 3")]

    assert cause_of(traces, past_memory=False).operation == "np.empty"
    past = cause_of(traces, past_memory=True)
    assert past is None or past.kind != "operation"


def test_an_operation_that_gets_such_memory_is_told_with_that(traced: Any) -> None:
    """It draws: that what differs in its inputs has no effect is not said without a test."""
    drawn = "rain = random.choices(rain, k=1)[0] * 0 + random.choices([1.5, 2.5, 3.5], weights=rain[:3])[0]"
    traces = [step.trace for step in traced("np.empty(40)", drawn)]

    cause = cause_of(traces, past_memory=True)
    assert (cause.kind, cause.operation, cause.memory) == ("operation", "random.choices", OPEN)
    assert "the same apart from what fresh memory holds" in cause_text(cause)


@pytest.mark.parametrize(
    ("results", "operation", "memory_runs"), [("zz", "random.uniform", False), ("zo", "np.empty", True)]
)
def test_memory_is_named_where_filling_it_decides(
    traced: Any, monkeypatch: pytest.MonkeyPatch, results: str, operation: str, *, memory_runs: bool
) -> None:
    """Two patterns give one state, or two."""
    steps = traced("np.empty(40)", WRITTEN)
    now = Variant("now", {})
    outcomes = [VariantOutcome(attrs.evolve(now, label=name), step) for name, step in zip("AB", steps, strict=True)]
    explained = explained_pair(4, steps[0].state.hash(), outcomes, (outcomes[0], outcomes[1]), [])
    monkeypatch.setattr(further_variants, "fills_memory", lambda: True)

    def run(variants: list[Variant]) -> list[VariantOutcome]:
        given = {"z": steps[0], "o": steps[1]}
        return [VariantOutcome(one, given[letter]) for one, letter in zip(variants, results, strict=True)]

    found: Explanation = with_memory_tested(explained, now, run)  # type: ignore[arg-type]
    assert explained.cause is not None
    assert explained.cause.operation == "np.empty"
    assert found.cause is not None
    assert (found.cause.operation, found.memory_runs > 0) == (operation, memory_runs)


def test_the_sentence_says_what_the_inputs_differ_in(traced: Any) -> None:
    """It said "from the same inputs"."""
    cause = cause_of([step.trace for step in traced("np.empty(40)", WRITTEN)], past_memory=True)
    assert cause_text(cause).endswith("from the same inputs")
    for memory in (IDLE, OPEN):
        told = cause_text(attrs.evolve(cause, memory=memory))
        assert told.endswith("from inputs that are the same apart from what fresh memory holds")


def test_the_functions_that_give_fresh_memory() -> None:
    """Those of arrays; a function of the user may have such a name, too."""
    assert all(map(gives_fresh_memory, ("np.empty", "np.empty_like", "torch.empty")))
    assert not any(map(gives_fresh_memory, ("np.zeros", "np.random.random", "game.empty", None)))
