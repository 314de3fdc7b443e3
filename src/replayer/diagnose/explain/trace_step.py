"""Run one step of a simulation and tell what it gave, traced and untraced, each in a forked copy of this process.

A copy has the same memory, hash seed and random generators, so that only the tracing itself can make a difference
between the two; if it does, that is said.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs

from recorder.exception_text import raised_text
from recorder.processes.fork_call import in_a_copy
from replayer.desync.location import PhaseStep
from replayer.diagnose.explain import traced_array as array_view
from replayer.diagnose.explain.line_hooks import OwnCode, listening
from replayer.diagnose.explain.line_trace import LineLedger
from replayer.diagnose.explain.step_trace import StepTrace, snapshot_from_plain, snapshot_to_plain
from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot

NOT_REPEATABLE = "the step gives another state each time it is run, even in copies of one process"
LINES_ONLY = "watching arrays changed what the step does, so that only lines were watched"
PERTURBED = "tracing changes what the step does: the traced step gave another state than the untraced one"


@attrs.frozen(eq=False)
class TracedStep:
    """What a step gave.

    Attributes:
        state: after the untraced step; None if it raised.
        raised: what it raised, in one line; None if it did not.
        trace: of the traced step.
        is_same: whether the traced step gave the same.
        note: what must be said of the tracing, in a sentence; None if there is nothing.
        phases: what each phase of the untraced step did; none if it has none that can be watched.
    """

    state: Snapshot | None
    raised: str | None
    trace: StepTrace
    is_same: bool
    note: str | None
    phases: list[PhaseStep] = attrs.field(factory=list)

    def to_plain(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "state": snapshot_to_plain(self.state) if self.state is not None else None,
            "raised": self.raised,
            "trace": self.trace.to_plain(),
            "is_same": self.is_same,
            "note": self.note,
            "phases": [list(attrs.astuple(phase)) for phase in self.phases],
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> TracedStep:
        """What to_plain made."""
        state = snapshot_from_plain(plain["state"]) if plain["state"] is not None else None
        phases = [PhaseStep(*parts) for parts in plain["phases"]]
        trace = StepTrace.from_plain(plain["trace"])
        return TracedStep(state, plain["raised"], trace, plain["is_same"], plain["note"], phases)


def trace_step(simulation: Simulation, inputs: Any) -> TracedStep:
    """Run the step in copies of this process: untraced, and traced. The simulation here stays as it is.

    Raises RuntimeError if a copy died.
    """
    untraced = in_a_copy(partial(_step, simulation, inputs))
    traced = in_a_copy(partial(_traced, simulation, inputs, arrays=True))
    if _outcome(traced) == _outcome(untraced):
        return _made(untraced, traced, None, is_same=True)
    if _outcome(in_a_copy(partial(_step, simulation, inputs))) != _outcome(untraced):
        return _made(untraced, traced, NOT_REPEATABLE, is_same=False)
    traced = in_a_copy(partial(_traced, simulation, inputs, arrays=False))
    if _outcome(traced) == _outcome(untraced):
        return _made(untraced, traced, LINES_ONLY, is_same=True)
    return _made(untraced, traced, PERTURBED, is_same=False)


def _made(untraced: dict[str, Any], traced: dict[str, Any], note: str | None, *, is_same: bool) -> TracedStep:
    # A step that is not repeatable is told by what the traced one gave: that is what its ledger is about.
    told = traced if note == NOT_REPEATABLE else untraced
    state = snapshot_from_plain(told["state"]) if told["raised"] is None else None
    return TracedStep(state, told["raised"], StepTrace.from_plain(traced["trace"]), is_same, note)


def _outcome(result: dict[str, Any]) -> tuple[Any, ...]:
    return result["raised"], result["hash"]


def _step(simulation: Simulation, inputs: Any) -> dict[str, Any]:
    raised = None
    try:
        simulation.step(inputs)
    except Exception as error:  # noqa: BLE001 - what a step raises is part of what it gives
        raised = raised_text("the step", error)
    state = simulation.state.snapshot()
    return {
        "raised": raised,
        "hash": None if raised is not None else state.hash(),
        "state": snapshot_to_plain(state),
    }


def _traced(simulation: Simulation, inputs: Any, *, arrays: bool) -> dict[str, Any]:
    ledger, is_own = LineLedger(simulation), OwnCode(simulation)
    if arrays:
        array_view.watch_arrays(simulation)
        array_view.watch_modules(is_own)
        array_view.start_watching(array_view.OperationWatch(ledger.digest, ledger.note))
    with listening(ledger, is_own):
        result = _step(simulation, inputs)
    array_view.stop_watching()
    return result | {"trace": ledger.finish().to_plain()}
