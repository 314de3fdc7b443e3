"""Run one step of a simulation, traced and untraced, each in a forked copy of this process.

A copy has the same memory, hash seed and random generators: only the tracing itself can make a difference between the
two. If it does, a note reports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import attrs

from recorder.ambient.outside.outside_read import OutsideRead
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.outside.read_watch import ReadWatch
from recorder.ambient.roots import content_of
from recorder.exception_text import comparable_error, raised_text
from recorder.processes.fork_call import in_a_copy
from recorder.processes.seeds.process_generators import all_states
from replayer.desync.location import PhaseStep
from replayer.desync.object_diff import are_equal
from replayer.desync.stack_depth import at_depth, differs_by_depth
from replayer.diagnose.explain import traced_array as array_view
from replayer.diagnose.explain.foreign.foreign_calls import watch_foreign_calls
from replayer.diagnose.explain.foreign.unseen_draws import drawn_from, find_draws
from replayer.diagnose.explain.held.instance_objects import InstanceObjects
from replayer.diagnose.explain.line_trace import LineTracer
from replayer.diagnose.explain.step_trace import LINE, StepTrace
from replayer.diagnose.explain.values.identities import identities_of
from replayer.diagnose.explain.values.layouts import orders_of
from replayer.diagnose.explain.values.loaded_lines import LoadedValue
from replayer.diagnose.explain.values.process_settings import process_settings
from replayer.diagnose.explain.values.reloaded import NotGivenBack
from replayer.playback.line_hooks import listening
from replayer.tape.plain_state import snapshot_from_plain, snapshot_to_plain
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.simulation import Simulation, inner_of
from sim.kernel.state import Snapshot

NOT_REPEATABLE = (
    "the step is non-deterministic: it gives different states in different runs, even in copies of one process"
)
OTHER_THREADS = "the simulation starts threads: lines that run in those are not traced"
LINES_ONLY = "watching arrays changed the result of the step: only lines were watched"
STACK_DEPTH = "the step gives another state when it is called from deeper in the stack, and the same from each depth"
Result = tuple[int | None, str | None]  # The hash after a step, and the error that it raised, as it is compared.
REPEATS = (
    4  # Of a step whose trace gave another state; a step that draws one of three values gives one state once in 81.
)
PERTURBED = "tracing changes the result of the step: the traced step gave a different state from the untraced one"


def without_guesses(notes: Iterable[str]) -> list[str]:
    """Notes of the runs of a step, each once. Of one that differs from run to run, none says that watching it made a difference."""
    found = dict.fromkeys(notes)
    return [one for one in found if NOT_REPEATABLE not in found or one not in (LINES_ONLY, PERTURBED)]


@attrs.frozen(eq=False)
class TracedStep:
    """The result of a step, with its trace.

    Attributes:
        state: after the untraced step; None if it raised.
        raised: the error that it raised, in one line; None if it did not.
        trace: of the traced step.
        is_same: True if the traced step gave the same state or error.
        note: a remark on the tracing, in a sentence; None if there is none.
        reads: what the step read of the outside world, in a further run of it.
        first_seeds: the random generators, which no keyframe has, whose first use is all that it asks the system's random
            numbers for; see outside/first_seeds.py.
        not_given_back: of a simulation that was just loaded: the fields in which save() differed before the step.
        loaded: of such a simulation: the values that load() sets, with their lines.
        phases: the effect of each phase of the untraced step; empty if it has none that can be watched.
        going_on: the threads, in words, that still ran after the step, and that the instance had started before it.
        is_traced: False if the result was known from another variant: then there is neither a trace nor reads.
    """

    state: Snapshot | None
    raised: str | None
    trace: StepTrace
    is_same: bool
    note: str | None
    reads: list[OutsideRead] = attrs.field(factory=list)
    phases: list[PhaseStep] = attrs.field(factory=list)
    not_given_back: list[NotGivenBack] = attrs.field(factory=list)
    loaded: list[LoadedValue] = attrs.field(factory=list)
    is_traced: bool = True
    first_seeds: list[str] = attrs.field(factory=list)
    going_on: list[str] = attrs.field(factory=list)

    @property
    def result(self) -> Result:
        """The hash after the step, and the error that it raised, as it is compared."""
        return (self.state.hash() if self.state is not None else None), comparable_error(self.raised)

    def to_plain(self) -> dict[str, Any]:
        """Encode as plain data."""
        return {
            "state": snapshot_to_plain(self.state) if self.state is not None else None,
            "raised": self.raised,
            "trace": self.trace.to_plain(),
            "is_same": self.is_same,
            "note": self.note,
            "reads": [read.to_plain() for read in self.reads],
            "phases": [list(attrs.astuple(phase)) for phase in self.phases],
            "not_given_back": [one.to_plain() for one in self.not_given_back],
            "loaded": [one.to_plain() for one in self.loaded],
            "is_traced": self.is_traced,
            "first_seeds": self.first_seeds,
            "going_on": self.going_on,
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> TracedStep:
        """Decode the plain data of to_plain."""
        state = snapshot_from_plain(plain["state"]) if plain["state"] is not None else None
        phases = [PhaseStep(*parts) for parts in plain["phases"]]
        trace = StepTrace.from_plain(plain["trace"])
        reads = list(map(OutsideRead.from_plain, plain["reads"]))
        lost = list(map(NotGivenBack.from_plain, plain["not_given_back"]))
        loaded = list(map(LoadedValue.from_plain, plain["loaded"]))
        head = state, plain["raised"], trace, plain["is_same"], plain["note"]
        return TracedStep(
            *head, reads, phases, lost, loaded, plain["is_traced"], plain["first_seeds"], plain["going_on"]
        )


Run = Callable[[Callable[[Simulation], dict[str, Any]]], dict[str, Any]]  # Calls it with a simulation, in a copy.


def trace_step(simulation: Simulation, inputs: Any, known: Collection[Result] = ()) -> TracedStep:
    """Run the step in copies of this process: untraced, and traced. The simulation itself is not changed.

    known: results of variants that were traced; a step with one of them is not traced again. Raises RuntimeError if a
    copy died.
    """
    return trace_step_in(lambda work: in_a_copy(partial(work, simulation)), inputs, known)


def trace_step_in(run: Run, inputs: Any, known: Collection[Result] = ()) -> TracedStep:
    """Run the step untraced and traced, each by run, which gives every call an equal simulation before the step.

    Raises RuntimeError if a copy died, and what run raises.
    """
    untraced = run_untraced(run, inputs)
    if result_of(untraced) in known:
        state = snapshot_from_plain(untraced["state"]) if untraced["raised"] is None else None
        return TracedStep(state, untraced["raised"], StepTrace(), is_same=True, note=None, is_traced=False)
    return attrs.evolve(_trace(run, inputs, untraced), reads=_reads(run, inputs, untraced))


def run_untraced(run: Run, inputs: Any) -> dict[str, Any]:
    """Run the step: its "hash", "raised" and "state". A function of its own, so that the stack is as deep as where _trace runs the step again."""
    return run(partial(_step, inputs=inputs))


def _trace(run: Run, inputs: Any, untraced: dict[str, Any]) -> TracedStep:
    traced = run(partial(_traced, inputs=inputs, arrays=True))
    if result_of(traced) == result_of(untraced):
        return _make_step(untraced, traced, None, is_same=True)
    is_repeatable = all(result_of(run(partial(_step, inputs=inputs))) == result_of(untraced) for _ in range(REPEATS))
    if _is_by_depth(run, inputs):
        return _make_step(untraced, traced, STACK_DEPTH, is_same=False)
    if not is_repeatable:
        if traced["raised"] is not None and untraced["raised"] is None:
            traced = run(partial(_traced, inputs=inputs, arrays=False))  # It may have raised at a view over an array.
        return _make_step(untraced, traced, NOT_REPEATABLE, is_same=False)
    note = _refused(traced) if untraced["raised"] is None and traced["raised"] is not None else LINES_ONLY
    traced = run(partial(_traced, inputs=inputs, arrays=False))
    if result_of(traced) == result_of(untraced):
        return _make_step(untraced, traced, note, is_same=True)
    again = run(partial(_traced, inputs=inputs, arrays=False))
    is_perturbed = result_of(again) == result_of(traced) and _differ_in_values(traced, untraced)
    return _make_step(untraced, traced, PERTURBED if is_perturbed else None, is_same=False)


def _differ_in_values(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return True if two results differ in a value, an order or an identity of the program, or in the error, and not only in how objects are saved."""
    if result_of(one)[1] is not None or result_of(other)[1] is not None:
        return result_of(one) != result_of(other)
    return not are_equal(snapshot_from_plain(one["state"]), snapshot_from_plain(other["state"]))


def _is_by_depth(run: Run, inputs: Any) -> bool:
    """Return True if the result of the step depends on how deep the stack is when it is called."""

    def result(deeper: int) -> tuple[Any, ...] | None:
        def step(simulation: Simulation) -> dict[str, Any]:
            return at_depth(deeper, partial(_step, simulation, inputs))

        try:
            return result_of(run(step))
        except RuntimeError:
            return None

    return differs_by_depth(result)


def _make_step(untraced: dict[str, Any], traced: dict[str, Any], note: str | None, *, is_same: bool) -> TracedStep:
    # The result of a non-deterministic step is that of the traced run, which its trace describes.
    chosen = traced if note == NOT_REPEATABLE else untraced
    state = snapshot_from_plain(chosen["state"]) if chosen["raised"] is None else None
    return TracedStep(state, chosen["raised"], StepTrace.from_plain(traced["trace"]), is_same, note)


def _refused(traced: dict[str, Any]) -> str:
    """The note on a step that raised with watched arrays alone, with the last line of the user's code."""
    lines = [record for record in StepTrace.from_plain(traced["trace"]).records if record.kind == LINE]
    where = f" in {Path(lines[-1].path).name}:{lines[-1].line}" if lines else ""
    return f"arrays were not watched, only lines: with views over the arrays, {traced['raised']}{where}"


def result_of(ran: dict[str, Any]) -> Result:
    """The result of a step from its "hash" and "raised"."""
    return ran["hash"], comparable_error(ran["raised"])


def _step(simulation: Simulation, inputs: Any) -> dict[str, Any]:
    raised = None
    try:
        simulation.step(inputs)
    except Exception as error:  # noqa: BLE001 - the error of a step is part of its result
        raised = raised_text("the step", error)
    state = simulation.state.snapshot()
    return {
        "raised": raised,
        "hash": None if raised is not None else state.hash(),
        "state": snapshot_to_plain(state),
    }


def _reads(run: Run, inputs: Any, untraced: dict[str, Any]) -> list[OutsideRead]:
    """What the step reads. Replaced functions may stop code from being compiled: the step then runs without them."""
    watched = run(partial(_watched, inputs=inputs, functions=True))
    if comparable_error(watched["raised"]) != comparable_error(untraced["raised"]):
        watched = run(partial(_watched, inputs=inputs, functions=False))
    if watched["drawn_from"]:
        watched["reads"] += run(partial(find_draws, inputs=inputs, names=watched["drawn_from"]))["reads"]
    return list(map(OutsideRead.from_plain, watched["reads"]))


def _watched(simulation: Simulation, inputs: Any, *, functions: bool) -> dict[str, Any]:
    watch, raised, before = ReadWatch(OwnCode(simulation)), None, all_states()
    with watch.watching(functions=functions):
        try:
            simulation.step(inputs)
        except Exception as error:  # noqa: BLE001 - the error of a step is part of its result
            raised = raised_text("the step", error)
    drawn = drawn_from(before, all_states(), watch.reads)
    return {"raised": raised, "reads": [read.to_plain() for read in watch.reads], "drawn_from": drawn}


def _files_of_modules(is_own: Callable[[str], bool]) -> dict[str, str]:
    """The files of the user's modules, by name. No module is asked: a lazy one would be loaded by that."""
    contents = {name: content_of(module) or {} for name, module in list(sys.modules.items())}
    # A file that is loaded in the place of another one has the other one's __file__.
    specs = {name: content.get("__spec__") for name, content in contents.items()}
    files = {
        name: spec.origin if type(spec := specs[name]) is ModuleSpec and spec.has_location else content.get("__file__")
        for name, content in contents.items()
    }
    return {name: file for name, file in files.items() if isinstance(file, str) and is_own(file)}


def _traced(simulation: Simulation, inputs: Any, *, arrays: bool) -> dict[str, Any]:
    tracer, is_own = LineTracer(simulation), OwnCode(simulation)
    tracer.trace.identities = identities_of(simulation)
    tracer.hold(InstanceObjects.of(simulation))
    tracer.trace.settings = process_settings() | orders_of(simulation)
    tracer.trace.modules = _files_of_modules(is_own)
    if arrays:
        is_captured = hook(inner_of(simulation), HasAdapter) is not None
        if not is_captured:
            array_view.watch_arrays(simulation)
        array_view.watch_modules(is_own)
        watch_foreign_calls(is_own)
        array_view.start_watching(array_view.OperationWatch(tracer.digest, tracer.note), lays_views=not is_captured)
    with listening(tracer, is_own):
        result = _step(simulation, inputs)
    array_view.stop_watching()
    return result | {"trace": tracer.finish().to_plain()}
