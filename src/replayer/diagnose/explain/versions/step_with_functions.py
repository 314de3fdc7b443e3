"""Run one step with functions of another version of the code, in copies of one process that has made the simulation.

A mix of two sound versions need not be sound: its step may never end, and is ended then. And a function that was put in place has
no effect on what holds the old one, such as a closure: a further run shows whether the step runs what is there now.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from replayer.diagnose.explain.trace_step import Run, result_of, run_untraced
from replayer.diagnose.explain.versions.taken_functions import NotTakenError, brought, take_functions, was_run
from sim.kernel.simulation import Simulation

TIME_S = 10.0  # Of all steps of a process; those that had no turn by then are not tested.
PATIENCE_S, PATIENCE_STEPS = 3.0, 20  # A step may take so long, and as long as so many steps of the version as it is.
OUT_OF_TIME, NOT_TAKEN, NOT_ENDED = "out of time", "not taken", "not ended"
NOT_RUN = "not run"  # The step gave the same state as without the function, which it did not run, or not for certain.

Group = Sequence[Sequence[str]]  # See taken_functions.take_functions.


def steps_with(groups: Sequence[Group], run: Run, inputs: Any) -> list[dict[str, Any]]:
    """The result of the step as it is, and with each group of functions: its "result", or why it "gave_up"; with NOT_RUN both.

    "brought": the names that the functions use and the version as it is lacks; they were taken, too.

    run: as in trace_step.py. Raises RuntimeError if a copy of the process died in the step as it is.
    """
    begin_s = time.monotonic()
    own = _step((), run, inputs, 0.0, marked=False)
    now_s = time.monotonic()
    patience_s, end_s = PATIENCE_S + PATIENCE_STEPS * (now_s - begin_s), now_s + TIME_S
    results = [{"result": own["result"]}]
    for group in groups:
        if time.monotonic() > end_s:
            results.append({"gave_up": OUT_OF_TIME})
            continue
        done = _run_with(group, run, inputs, patience_s, marked=False)
        if done is None or not done:
            results.append({"gave_up": NOT_ENDED if done is None else NOT_TAKEN})
            continue
        results.append({"result": done["result"], "brought": done["brought"]})
        if len(group) == 1 and done["result"] == own["result"]:
            marked = _run_with(group, run, inputs, patience_s, marked=True)
            if not marked or not marked["was_run"]:
                results[-1]["gave_up"] = NOT_RUN
    return results


def _run_with(group: Group, run: Run, inputs: Any, patience_s: float, *, marked: bool) -> dict[str, Any] | None:
    """The result of the step with functions; empty if they cannot be taken, None if the step does not end.

    marked: whether the functions note that they run.
    """
    try:
        return _step(group, run, inputs, patience_s, marked=marked)
    except RuntimeError:
        return None


def _step(group: Group, run: Run, inputs: Any, patience_s: float, *, marked: bool) -> dict[str, Any]:
    def in_place(work: Any) -> dict[str, Any]:
        return run(partial(_with, work, group, patience_s, marked=marked))

    return run_untraced(in_place, inputs)


def _with(work: Any, group: Group, patience_s: float, simulation: Simulation, *, marked: bool) -> dict[str, Any]:
    """Run the step in this copy. patience_s: after which it is ended; 0 for no end."""
    if patience_s:
        # The default action ends this copy also where the step is in compiled code.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, patience_s)
    try:
        take_functions(group, marked=marked)
    except NotTakenError:
        return {}
    result: dict[str, Any] = work(simulation)
    # Without the state, which may be large, and of which there would be as many as functions.
    return {"result": list(result_of(result)), "was_run": was_run(), "brought": list(brought)}
