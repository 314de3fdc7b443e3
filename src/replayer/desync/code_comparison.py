"""Compare the user's code that is loaded here with the one that the recording's process had loaded."""

from __future__ import annotations

from typing import Any

import attrs

from recorder.ambient.outside.loaded_code import compare_code
from recorder.ambient.outside.outside_note import OutsideNote, ReplacedCode
from recorder.processes.fork_call import in_a_copy
from recorder.text import counted
from replayer.desync.finding import TestedCause
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape
from replayer.value_text import plain_text
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.simulation import inner_of, subject_of

CODE = "another version of the code"
NAMED_MAX = 8  # Definitions in a sentence.
_EQUAL = "compared and equal"
_CHANGED, _REMOVED = "changed since the recording, or new", "removed since the recording"
_REPLACED = "replaced while the run was recorded"
_OTHER_VALUES = "values other than when the recording began, or new"
_OTHER_MODULES = "modules that functions import and that have other code than when the recording began, or are new"
_LEFT_OUT = "not compared, since they are no plain values"
_NOT_NOTED = "not compared, since the tape has no note of them"
_NOT_TESTED = "not tested whether that makes the difference"


def compared_code(tape: Tape, factory: Factory | None) -> TestedCause | None:
    """What the comparison found; None if the tape notes no code, or if a copy of this process cannot make the simulation.

    factory: of the simulation; None for a registered world. That code differs does not say that this makes the difference.
    """
    outside = noted_outside(tape)
    note = outside.code
    if note is None:
        return None

    def compare() -> dict[str, Any]:
        simulation = make_simulation(tape, factory)
        found, name = compare_code(note, simulation), _class_of(simulation).rpartition(".")[2]
        return {"name": name} if found is None else {"name": name, **attrs.asdict(found)}

    try:
        found = in_a_copy(compare)
    except RuntimeError:
        return None
    recorded = str(tape.meta.get("simulation")).rpartition(".")[2]
    if recorded != found["name"]:
        text = f"the simulation is a {found['name']}, and a {plain_text(recorded)} was recorded"
        return TestedCause(CODE, f"{text}; {_NOT_TESTED}", suspicious=None)
    if "compared" not in found:
        return TestedCause(CODE, f"not compared: it was compiled by {plain_text(note.python)}", suspicious=None)
    is_known = isinstance(tape.outcome, dict) and outside.unknown_before <= tape.first_tick
    return _told(found, outside, is_known=is_known)


def _class_of(simulation: Any) -> str:
    """The class that META of a recording would name: of an environment with wrappers, that of the innermost one."""
    adapter = hook(inner_of(simulation), HasAdapter)
    named = adapter.adapter.get("class") if adapter is not None and isinstance(adapter.adapter, dict) else None
    return str(named or type(subject_of(simulation)).__name__)


def _told(found: dict[str, Any], outside: OutsideNote, *, is_known: bool) -> TestedCause:
    count = 0 if found["values"] or found["gone_values"] else found["compared_values"]
    if found["different"]:
        texts = [f"{_CHANGED}: {_names(found['different'])}"]
    elif found["gone_statements"] and not found["gone"]:
        what = f"{counted(found['gone_statements'], 'statement')} of a class, a decorator or an import"
        texts = [f"{_REMOVED}: {what}, of which the tape has no names"]
    elif found["gone"]:
        texts = [f"{_REMOVED}: {counted(found['gone'], 'function')}, of which the tape has no names"]
    else:
        and_values = f" and {counted(count, 'value')}" if count else ""
        texts = [f"{_EQUAL}: {counted(found['compared'], 'function')}{and_values} of the recorded class's modules"]
    if found["values"]:
        texts.append(f"{_OTHER_VALUES}: {_names(found['values'])}")
    if found["gone_values"]:
        texts.append(f"{_REMOVED}: {counted(found['gone_values'], 'value')}, of which the tape has no names")
    if found["imported"]:
        texts.append(f"{_OTHER_MODULES}: {_names(found['imported'])}")
    if outside.replaced:
        texts.append(f"{_REPLACED}: {', '.join(map(_replaced_text, outside.replaced))}")
    is_changed = len(texts) > 1 or found["different"] or found["gone"] or found["gone_statements"]
    left_out = f"; {_LEFT_OUT}: {_names(found['left_out'])}" if found["left_out"] else ""
    left_out += f"; {_NOT_NOTED}: {_names(found['not_noted'])}" if found["not_noted"] else ""
    if is_changed:
        return TestedCause(CODE, "; ".join([*texts, _NOT_TESTED]), suspicious=None)
    if not is_known:
        text = f"{texts[0]}; whether any was replaced while the run was recorded is not known{left_out}"
        return TestedCause(CODE, text, suspicious=None)
    # The watch of a recording looks at functions and constants again, and not at values, which steps may change.
    when = "when the recording began" + (", and the functions at its keyframes" if count else " and at its keyframes")
    return TestedCause(CODE, f"{texts[0]}, {when}{left_out}", suspicious=None if left_out else False)


def _replaced_text(one: ReplacedCode) -> str:
    when = f"at tick {one.tick:,}" if one.after == one.tick else f"between tick {one.after:,} and {one.tick:,}"
    return f"{plain_text(one.name)} {when}"


def _names(places: list[str]) -> str:
    named = [plain_text(one) for one in places[:NAMED_MAX]]
    more = len(places) - len(named)
    return f"{', '.join(named)}{f' and {more:,} more' if more else ''}"


def code_lines(code: TestedCause | None) -> list[str]:
    """What replay explain prints of the result of compared_code."""
    return [] if code is None else [f"  the code: {code.found}"]


def names_a_change(code: TestedCause | None) -> bool:
    """Return True if code or values of modules are known to be others than those of the recording. code: of compared_code."""
    parts = code.found.split("; ") if code is not None and code.cause == CODE else []
    return any(part.startswith((_CHANGED, _REMOVED, _REPLACED, _OTHER_VALUES, _OTHER_MODULES)) for part in parts)


def leaves_values_out(code: TestedCause | None) -> bool:
    """Return True if the code names values that could not be compared. code: of compared_code."""
    return code is not None and code.cause == CODE and any(text in code.found for text in (_LEFT_OUT, _NOT_NOTED))


def versions_not_tested(code: TestedCause | None) -> str:
    """The versions of which nothing is known. code: the result of compared_code."""
    if (
        code is not None
        and code.found.startswith(_EQUAL)
        and not any(text in code.found for text in (_LEFT_OUT, _NOT_NOTED, _OTHER_MODULES))
    ):
        return "other versions of libraries"
    return "other versions of the code (--code FOLDER) and of libraries"
