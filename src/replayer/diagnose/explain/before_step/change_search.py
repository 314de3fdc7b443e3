"""What the process of a variant does to find a change of the state before a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.before_step.answer import Found
from replayer.diagnose.explain.before_step.changing_lines import changing_lines
from replayer.diagnose.explain.before_step.program_code import program_code
from replayer.diagnose.explain.before_step.tried_changes import Case, try_changes
from replayer.tape.plain_state import snapshot_from_plain
from replayer.tape.tape import Tape
from sim.kernel.simulation import Simulation, subject_of


def changed_before(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    """Try changes of the state before the step; of those that give the recorded state, find the lines that make them.

    Where it is known what was changed, find the lines alone.

    Raises RuntimeError if a copy of this process died.
    """
    later = [snapshot_from_plain(plain) for plain in job["later"]]
    both = (later[0], later[1]) if len(later) > 1 else None
    tick = job["tick"]
    if job["known"]:
        known = in_a_copy(partial(_lines, make, step_name(tape), tuple(job["known"])))
        return {"found": Found().to_plain(), "lines": known}
    inputs, step = tape.frame(tick).inputs, step_name(tape)
    found = try_changes(Case(make, snapshot_from_plain(job["before"]), both, inputs, tape.state_hash(tick), step))
    lines = in_a_copy(partial(_lines, make, step, found.names)) if found.names else None
    return {"found": found.to_plain(), "lines": lines}


def _lines(make: Callable[[], Simulation], step: str, names: tuple[str, ...]) -> dict[str, Any]:
    return changing_lines(program_code(subject_of(make()), step), names).to_plain()


def step_name(tape: Tape) -> str:
    """The method that makes the steps of a recorded object."""
    match tape.meta.get("adapter"):
        case {"fields": {"step": str(step)}}:
            return step
    return "step"
