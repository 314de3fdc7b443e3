"""Compare the user's code that is loaded here with the one that the recording's process had loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.frozen_constants import FrozenConstant, frozen_before
from recorder.ambient.outside.code_parts.machine_code import LoadedCode
from recorder.ambient.outside.code_parts.places import places_of
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
LOADED_NAMED_MAX = 3  # Compiled functions, with what they take from elsewhere.
_EQUAL = "compared and equal"
_CLASS = "the simulation is a"
_CHANGED, _REMOVED = "changed since the recording, or new", "removed since the recording"
_REPLACED = "replaced while the run was recorded"
_OTHER_VALUES = "values other than when the recording began, or new"
_RUN_VALUES = "values that functions change, other than when the recording began, or new"
_OTHER_MODULES = "modules that functions import and that have other code than when the recording began, or are new"
_LEFT_OUT = "not compared, since they are no plain values"
_LEFT_OUT_OF_RUNS = "not compared, since they are no plain values and functions change them"
_NOT_NOTED = "not compared, since the tape has no note of them"
_OF_CODE = (_CHANGED, _REMOVED, _REPLACED, _OTHER_VALUES, _OTHER_MODULES)
_SAME_FILES = " (their files are the same)"  # Such values come from outside of the code.
_NOT_TESTED = "not tested whether that makes the difference"
_FROZEN = "compiled before the recording began, with values that a replay need not take"
_MACHINE_CODE = "not compared is machine code that the recorded run loaded from numba's cache on disk"


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
        frozen = differing_constants(outside.frozen, simulation)
        compiled = {"frozen": [list(attrs.astuple(one)) for one in frozen]}
        return {"name": name} if found is None else {"name": name, **compiled, **attrs.asdict(found)}

    try:
        found = in_a_copy(compare)
    except RuntimeError:
        return None
    recorded = str(tape.meta.get("simulation")).rpartition(".")[2]
    if recorded != found["name"]:
        text = f"{_CLASS} {found['name']}, and a {plain_text(recorded)} was recorded"
        return TestedCause(CODE, f"{text}; {_NOT_TESTED}", suspicious=None)
    if "compared" not in found:
        return TestedCause(CODE, f"not compared: it was compiled by {plain_text(note.python)}", suspicious=None)
    is_known = isinstance(tape.outcome, dict) and outside.unknown_before <= tape.first_tick
    return _told(found, outside, is_known=is_known)


def is_changed_code(code: TestedCause | None) -> bool:
    """Return True if the comparison found functions or constants that are others than when the tape was recorded."""
    return code is not None and any(text in code.found for text in _OF_CODE)


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
    same = _SAME_FILES if found["has_same_files"] else ""
    for text, names in (
        (f"{_OTHER_VALUES}{same}", _parted(found, "values")[0]),
        (_RUN_VALUES, _parted(found, "values")[1]),
    ):
        texts += [f"{text}: {_names(names)}"] if names else []
    if found["gone_values"]:
        texts.append(f"{_REMOVED}: {counted(found['gone_values'], 'value')}, of which the tape has no names{same}")
    if found["imported"]:
        texts.append(f"{_OTHER_MODULES}: {_names(found['imported'])}")
    if outside.replaced:
        texts.append(f"{_REPLACED}: {', '.join(map(_replaced_text, outside.replaced))}")
    is_changed = len(texts) > 1 or found["different"] or found["gone"] or found["gone_statements"]
    fixed, of_runs = _parted(found, "left_out")
    not_compared = (
        (f"{_LEFT_OUT}{same}", fixed),
        (_LEFT_OUT_OF_RUNS, of_runs),
        (_NOT_NOTED, found["not_noted"]),
    )
    left_out = "".join(f"; {text}: {_names(names)}" for text, names in not_compared if names)
    left_out += f"; {_MACHINE_CODE}: {_loaded_text(outside.machine_code)}" if outside.machine_code else ""
    left_out += f"; {_FROZEN}: {_frozen_text(found['frozen'])}" if found["frozen"] else ""
    if is_changed:
        only_runs = all(text.startswith((_EQUAL, _RUN_VALUES)) for text in texts)
        return TestedCause(CODE, "; ".join([*texts, _NOT_TESTED]) + (left_out if only_runs else ""), suspicious=None)
    if not is_known:
        text = f"{texts[0]}; whether any was replaced while the run was recorded is not known{left_out}"
        return TestedCause(CODE, text, suspicious=None)
    # The watch of a recording looks at functions and constants again, and not at values, which steps may change.
    when = "when the recording began" + (", and the functions at its keyframes" if count else " and at its keyframes")
    return TestedCause(CODE, f"{texts[0]}, {when}{left_out}", suspicious=None if left_out else False)


def _parted(found: dict[str, Any], key: str) -> tuple[list[str], list[str]]:
    """Values that no function was seen to change, and the others."""
    changed = set(found["by_functions"])
    return [one for one in found[key] if one not in changed], [one for one in found[key] if one in changed]


def differing_constants(frozen: Sequence[FrozenConstant], simulation: Any) -> list[FrozenConstant]:
    """Those that functions around a simulation that was made here were not compiled with, too."""
    here = {(one.function, one.name, one.value) for one in frozen_before(places_of(simulation))} if frozen else set()
    return [one for one in frozen if (one.function, one.name, one.value) not in here]


def _frozen_text(frozen: Sequence[Any]) -> str:
    """Without a semicolon, as that of loaded code."""
    texts = []
    for one in (FrozenConstant(*plain) for plain in frozen[:NAMED_MAX]):
        value = f"with {one.name} {one.value}" if one.value else f"with another value of {one.name}"
        then = f", which was {one.then} when the recording began" if one.then else ""
        texts.append(plain_text(f"{one.function} ({one.place}) {value}{then}").replace(";", ","))
    more = len(frozen) - len(texts)
    return f"{' and '.join(texts)}{f' and {more:,} more' if more else ''}"


def _loaded_text(loaded: Sequence[LoadedCode]) -> str:
    """Without a semicolon, which ends a part of what is told."""
    texts = []
    for one in loaded[:LOADED_NAMED_MAX]:
        text = f"{one.name} ({one.place}), which numba does not renew when {' or '.join(one.taken)} changes"
        older = f" (its file in the cache was older than {', '.join(one.newer)})" if one.newer else ""
        texts.append(plain_text(text + older).replace(";", ","))
    more = len(loaded) - len(texts)
    return f"{' and '.join(texts)}{f' and {more:,} more' if more else ''}"


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
    return _has_part(code, (*_OF_CODE, _RUN_VALUES))


def is_other_code(code: TestedCause | None) -> bool:
    """Return True if the code, a value of modules, or the class is known to be another one. code: of compared_code."""
    return names_a_change(code) or _has_part(code, (_CLASS,))


def names_values(code: TestedCause | None) -> bool:
    """Return True if values of modules or classes are others than when the recording began, or were not all compared."""
    return _has_part(code, (_OTHER_VALUES, _RUN_VALUES, _LEFT_OUT_OF_RUNS))


def names_constants(code: TestedCause | None) -> bool:
    """Return True if the tape tells of constants in machine code of before the recording that are not known to be here, too."""
    return _has_part(code, (_FROZEN,))


def with_tested_values(code: TestedCause | None, values: Sequence[str]) -> TestedCause | None:
    """The comparison, after a test of some of the values that it names."""
    if code is None:
        return None
    tested = f"of that, only {_names(list(values))} was tested"
    return attrs.evolve(code, found=code.found.replace(_NOT_TESTED, tested))


def asks_for_earlier_code(code: TestedCause | None, *, is_explained: bool) -> bool:
    """Return True if the code of the recording is needed to know what a change does, or if there is one.

    Values that functions change may differ without an edit: another version of the code is no more likely by them. Nor is it
    by those of files that are the same.
    is_explained: a test has shown something else, and code that was not compared is no reason then.
    """
    asking = _OF_CODE if is_explained else (*_OF_CODE, f"{_LEFT_OUT}:", _NOT_NOTED)
    return any(part.startswith(asking) and _SAME_FILES not in part for part in _parts(code))


def _has_part(code: TestedCause | None, beginnings: tuple[str, ...]) -> bool:
    return any(part.startswith(beginnings) for part in _parts(code))


def _parts(code: TestedCause | None) -> list[str]:
    return code.found.split("; ") if code is not None and code.cause == CODE else []


def versions_not_tested(code: TestedCause | None) -> str:
    """The versions of which nothing is known. code: the result of compared_code."""
    machine_code = "the machine code of the recording, " if _has_part(code, (_MACHINE_CODE,)) else ""
    if (
        code is not None
        and code.found.startswith(_EQUAL)
        and not _has_part(code, (f"{_LEFT_OUT}:", _LEFT_OUT_OF_RUNS, _NOT_NOTED, _OTHER_MODULES))
    ):
        return f"{machine_code}other versions of libraries"
    return f"{machine_code}other versions of the code (--code FOLDER) and of libraries"
