"""Compare the user's code that is loaded here with the one that the recording's process had loaded."""

from __future__ import annotations

from typing import Any

from recorder.ambient.outside.loaded_code import compare_code
from recorder.processes.fork_call import in_a_copy
from replayer.desync.finding import TestedCause
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape
from replayer.value_text import plain_text
from sim.kernel.simulation import subject_of

CODE = "another version of the code"
NAMED_MAX = 8  # Definitions in a sentence.


def compared_code(tape: Tape, factory: Factory | None) -> TestedCause | None:
    """What the comparison found; None if the tape notes no code, or if a copy of this process cannot make the simulation.

    factory: of the simulation; None for a registered world. That code differs does not say that this makes the difference.
    """
    note = noted_outside(tape).code
    if note is None:
        return None

    def compare() -> dict[str, Any]:
        simulation = make_simulation(tape, factory)
        found, name = compare_code(note, simulation), type(subject_of(simulation)).__name__
        return (
            {"name": name}
            if found is None
            else {"name": name, "compared": found.compared, "different": found.different}
        )

    try:
        found = in_a_copy(compare)
    except RuntimeError:
        return None
    recorded = str(tape.meta.get("simulation")).rpartition(".")[2]
    if recorded != found["name"]:
        text = f"the simulation is a {found['name']}, and a {plain_text(recorded)} was recorded"
        return TestedCause(CODE, f"{text}; not tested whether that makes the difference", suspicious=None)
    if "compared" not in found:
        return TestedCause(CODE, f"not compared: it was compiled by {plain_text(note.python)}", suspicious=None)
    if not found["different"]:
        text = f"compared and equal: {found['compared']:,} functions and constants of the recorded class's modules"
        return TestedCause(CODE, text, suspicious=False)
    named = [plain_text(one) for one in found["different"][:NAMED_MAX]]
    more = len(found["different"]) - len(named)
    text = f"changed since the recording, or new: {', '.join(named)}{f' and {more:,} more' if more else ''}"
    return TestedCause(CODE, f"{text}; not tested whether that makes the difference", suspicious=None)


def code_lines(code: TestedCause | None) -> list[str]:
    """What replay explain prints of the result of compared_code."""
    return [] if code is None else [f"  the code: {code.found}"]


def versions_not_tested(code: TestedCause | None) -> str:
    """The versions of which nothing is known. code: the result of compared_code."""
    if code is not None and code.suspicious is False:
        return "other versions of libraries"
    return "other versions of the code (--code FOLDER) and of libraries"
