"""Find the failure of a recorded run: its tick, and the watch that knows it again."""

from __future__ import annotations

from typing import Any

import attrs

from recorder.errors import DesyncError
from replayer.reduction.candidate_runs import CandidateRuns, Ending, Watch
from replayer.reduction.failures import ConditionFailure, Predicate, RaisedFailure, ViolationFailure
from replayer.reduction.input_parts import Inputs
from replayer.search.expressions import parse_expression
from replayer.tape.copied_range import UnfitTapeError, ensure_whole
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.adapters.interface.attempts import attempt_of
from sim.kernel.exactness import Level
from sim.kernel.simulation import Simulation
from sim.scenario.event_kinds import OWN_KINDS

assert "violation" in OWN_KINDS  # The kind that ViolationFailure looks for.


@attrs.frozen
class AskedFailure:
    """What is asked for.

    Attributes:
        watch: that knows the failure.
        last_tick: the last tick that has to be run to see it in the recorded run.
        ending: the tick and the inputs of a step that raised and has no frame; None if there is none.
        steps: simulated to find it.
    """

    watch: Watch
    last_tick: int
    ending: tuple[int, Any] | None = None
    steps: int = 0


def ask_condition(run: Timeline, condition: str | Predicate) -> AskedFailure:
    """The first tick at which a condition holds. Raises ExpressionError; UnfitTapeError if it never holds, or always."""
    expression = parse_expression(condition) if isinstance(condition, str) else condition
    watch = ConditionFailure(expression)
    matches = run.finder(expression).find("first")
    if matches.missing and matches.missing[0].is_desync:
        run.seek(matches.missing[0].first_tick)  # Raises DesyncError with the first divergent tick.
    tick = matches.ticks[0] if matches.ticks else matches.only()  # An earlier one is found when all inputs are run.
    if tick is None:
        raise UnfitTapeError(f"{watch.text}: holds at no tick of the tape, so there is nothing to shrink")
    if tick == run.first_tick:
        raise UnfitTapeError(f"{watch.text}: holds at the first tick already, before any input")
    return AskedFailure(watch, tick, steps=matches.simulated)


def ask_violation(tape: Tape, name: str) -> AskedFailure:
    """The violation of a property of the tape's scenario. Raises UnfitTapeError if it has no such property."""
    scenario = tape.meta.get("scenario")
    properties = scenario.get("properties", ()) if isinstance(scenario, dict) else ()
    names = [one.get("name") for one in properties if isinstance(one, dict)]
    if name not in names:
        listed = f"its scenario has {', '.join(map(str, names))}" if names else "it has no scenario with properties"
        raise UnfitTapeError(f"the tape has no property {name}: {listed}")
    return AskedFailure(ViolationFailure(name), tape.last_tick)


def ask_raised(tape: Tape, text: str) -> AskedFailure:
    """A step that raised: the first one whose exception has the text, or the last one of the tape without a text.

    Raises UnfitTapeError if no step of the tape raised.
    """
    outcome = tape.outcome if isinstance(tape.outcome, dict) else {}
    match outcome.get("step"):
        case {"tick": int(tick), "inputs": inputs} if tick == tape.last_tick + 1:
            return AskedFailure(RaisedFailure(text, 0 if text else tick), tick, (tick, inputs))
    if tape.meta.get("adapter"):
        for tick in range(tape.last_tick, tape.first_tick, -1):
            if attempt_of(tape.frame(tick).inputs) is not None:
                return AskedFailure(RaisedFailure(text, 0 if text else tick), tick)
    hint = ""
    if outcome.get("reason") == "exception" and not tape.meta.get("adapter"):
        hint = ": it ended by an exception, but does not hold the inputs of the step that raised"
    raise UnfitTapeError(f"no step on the tape raised{hint}")


def ensure_can_shrink(tape: Tape, last: int) -> None:
    """Raise UnfitTapeError for a tape whose inputs cannot be left out one by one."""
    if tape.meta.get("level") == Level.CANONICAL.value:
        raise UnfitTapeError("the run loaded its state at each keyframe: with other inputs it would load other states")
    ensure_whole(tape, tape.first_tick, min(last, tape.last_tick))


def run_as_recorded(tape: Tape, runs: CandidateRuns, inputs: Inputs, watch: Watch, last: int) -> Ending:
    """Run all inputs, and compare each state with the recorded one.

    Raises DesyncError where a state differs, UnfitTapeError where a step raises that did not.
    """
    ending = runs.run(inputs, last, _Compared(tape, watch))
    if ending.error is not None:
        raised = " ".join(f"{type(ending.error).__name__}: {ending.error}".split())
        raise UnfitTapeError(f"the step to tick {ending.tick:,} raised {raised}: expected {text_of(watch)}")
    return ending


def text_of(watch: Watch) -> str:
    """What is watched for, for people."""
    return str(getattr(watch, "text", "the failure"))


class _Compared:
    """A watch that compares each state with the tape."""

    def __init__(self, tape: Tape, watch: Watch) -> None:
        self._hashes = tape.recording.recorded_hashes
        self._last = tape.last_tick
        self._watch = watch

    def stops(self, tick: int, simulation: Simulation) -> bool:
        """See Watch. Raises DesyncError."""
        recorded = self._hashes.recorded_hash(tick) if tick <= self._last else None
        if recorded is not None and recorded != simulation.state.hash():
            raise DesyncError(tick, recorded, simulation.state.hash())
        return self._watch.stops(tick, simulation)

    def is_failure(self, tick: int, error: Exception) -> bool:
        """See Watch."""
        return self._watch.is_failure(tick, error)

    def result(self, tick: int, simulation: Simulation) -> Any:
        """See Watch."""
        return self._watch.result(tick, simulation)
