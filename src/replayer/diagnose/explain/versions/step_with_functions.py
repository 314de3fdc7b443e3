"""Run one step with functions of another version of the code, in copies of one process that has made the simulation.

A mix of two sound versions need not be sound: its step may never end, and is ended then. And what was put in place has no effect on
what holds the old function, such as a closure, or read the old value, such as a constructor: a further run makes the simulation
with it, and shows whether the step runs what is there now.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from replayer.diagnose.explain.trace_step import Run, result_of, run_untraced
from replayer.diagnose.explain.versions.taken_functions import (
    NotTakenError,
    brought,
    is_value,
    marks,
    may_be_read_when_loaded,
    take_functions,
    was_run,
)
from sim.kernel.simulation import Simulation

TIME_S = 10.0  # Of all steps of a process; those that had no turn by then are not tested.
PATIENCE_S, PATIENCE_STEPS = 3.0, 20  # A step may take so long, and as long as so many steps of the version as it is.
OUT_OF_TIME, NOT_TAKEN, NOT_ENDED = "out of time", "not taken", "not ended"
NOT_RUN = "not run"  # The step gave the same state as without the function, which it did not run, or not for certain.

Group = Sequence[Sequence[str]]  # See taken_functions.take_functions.
# Makes a change, in a copy, and a simulation after it; calls the work with that. Empty if one of these cannot be done.
RunMadeWith = Callable[[Callable[[], bool], Callable[[Simulation], dict[str, Any]]], dict[str, Any]]


def steps_with(
    groups: Sequence[Group], run: Run, made_with: RunMadeWith, inputs: Any, known: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """The result of the step as it is, and with each group of functions: its "result", or why it "gave_up"; with NOT_RUN both.

    "brought": the names that the functions use and the version as it is lacks; they were taken, too.

    known: results of other variants: where the step gives none of them with a value, it is run with a simulation that is made and
    loaded with it, too. run: as in trace_step.py. made_with: as run, with a simulation that is made after a change. Raises RuntimeError if a copy of
    the process died in the step as it is.
    """
    begin_s = time.monotonic()
    own = _step((), run, inputs, 0.0)
    now_s = time.monotonic()
    patience_s, end_s = PATIENCE_S + PATIENCE_STEPS * (now_s - begin_s), now_s + TIME_S
    results = [{"result": own["result"]}]
    for group in groups:
        if time.monotonic() > end_s:
            results.append({"gave_up": OUT_OF_TIME})
            continue
        done = _ended(partial(_step, group, run, inputs, patience_s))
        if done is None or not done:
            results.append({"gave_up": NOT_ENDED if done is None else NOT_TAKEN})
            continue
        results.append({"result": done["result"], "brought": done["brought"]})
        step = partial(_step_made_with, made_with=made_with, inputs=inputs, patience_s=patience_s)
        is_of_value = is_value(group[0])
        is_one = len(group) == 1 or is_of_value  # And what is made of the value.
        if is_one and done["result"] == own["result"]:
            results[-1] |= _made_with(group, step, own)
        elif is_of_value and done["result"] not in known:
            # Such as names of columns: load() read them before the step, and save() reads them after it.
            made = _made_with(group, step, own)
            results[-1] |= made if made.get("result") in known else {}
    return results


def _made_with(group: Group, step: Callable[[Group], dict[str, Any]], own: dict[str, Any]) -> dict[str, Any]:
    """What is to be added to the result of a group that gives the step's own one: where the simulation is made with it, too.

    A constructor may have read a value; and a function must be seen to run.
    """
    marked = _ended(partial(step, group))
    if not marked:
        return {"gave_up": NOT_RUN}
    if marked["result"] == own["result"]:
        is_seen = marked["was_run"] and not any(map(may_be_read_when_loaded, group))
        return {} if is_seen else {"gave_up": NOT_RUN}
    # That a second simulation of one process differs from the first must not be taken for an effect.
    control = _ended(partial(step, ()))
    is_effect = bool(control) and control is not None and control["result"] == own["result"]
    return {"result": marked["result"], "brought": marked["brought"]} if is_effect else {"gave_up": NOT_RUN}


def _ended(step: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """The result of a step; empty if its functions cannot be taken, None if the step does not end."""
    try:
        return step()
    except RuntimeError:
        return None


def _step(group: Group, run: Run, inputs: Any, patience_s: float) -> dict[str, Any]:
    def in_place(work: Any) -> dict[str, Any]:
        return run(partial(_with, work, group, patience_s))

    return run_untraced(in_place, inputs)


def _step_made_with(group: Group, made_with: RunMadeWith, inputs: Any, patience_s: float) -> dict[str, Any]:
    """The step of a simulation that is made with functions in place, which note that the step runs them."""

    def change() -> bool:
        _end_after(patience_s + TIME_S)
        try:
            take_functions(group, marked=True)
        except NotTakenError:
            return False
        return True

    def in_place(work: Any) -> dict[str, Any]:
        def stepped(simulation: Simulation) -> dict[str, Any]:
            marks.clear()  # Of the constructor.
            _end_after(patience_s)
            result: dict[str, Any] = work(simulation)
            return {"result": list(result_of(result)), "was_run": was_run(), "brought": list(brought)}

        return made_with(change, stepped)

    return run_untraced(in_place, inputs)


def _with(work: Any, group: Group, patience_s: float, simulation: Simulation) -> dict[str, Any]:
    """Run the step in this copy. patience_s: after which it is ended; 0 for no end."""
    if patience_s:
        _end_after(patience_s)
    try:
        take_functions(group)
    except NotTakenError:
        return {}
    result: dict[str, Any] = work(simulation)
    # Without the state, which may be large, and of which there would be as many as functions.
    return {"result": list(result_of(result)), "brought": list(brought)}


def _end_after(seconds: float) -> None:
    """End this process after a time. The default action ends it also where the step is in compiled code."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
