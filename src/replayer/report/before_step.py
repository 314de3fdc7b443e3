"""The lines of replay explain on what differed between two variants before the step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from replayer.desync.code_comparison import code_lines, names_a_change
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.values.given_values import BUILDS, HOLDS, OMITS, READS, GivenValues, TestedEdits
from replayer.diagnose.explain.values.identities import DifferingIdentity
from replayer.diagnose.explain.values.reloaded import NotGivenBack
from replayer.value_text import plain_text

_SHOWN = 4
_KEY = re.compile(r"\[[^\[\]]*\]")  # A step of a name: an index, or a key without brackets.
_EMPTIED = "empty in A as in a new process, A"
_WITH = "put into B as A has it, B"
_RESUMED = "resumed in B until it stands where that of A does, B"
NOT_KNOWN = "the cause is not known"
_REFUTED = "what could be put into B of that"
_NO_EFFECT = "the function as A has it, put into B alone, has no effect"
_NO_EFFECT_OF_VALUE = "the value as A has it, put into B alone, has no effect"
_NOT_TESTED = "whether the edit of this line makes the difference was not tested"
_NONE_SHOWN = "none of the functions and values of A that could be put into B gives the state of A"
_WAYS = {
    READS: "; the last line of {function} that reads what differs",
    HOLDS: "; the last line of {function} that has an object with what differs, and may read that",
    BUILDS: "; no line of {function} reads what differs, and this is the last one that reads from the object",
    OMITS: "; no line of it reads what differs",
}
LOAD = "load() does not give back what save() saved"


def before_step_lines(explanation: Explanation) -> list[str]:
    """The test of hidden state; names that led to one object or to two, what load() did not give back, and settings."""
    lines = [*_code_lines(explanation), *_function_lines(explanation), *_given_lines(explanation)]
    lines += _walked_lines(explanation)
    lines += _load_lines(explanation.not_given_back)
    if explanation.identities:
        lines += ["  before the step:", *_some(_identity_lines(explanation.identities))]
    for one in explanation.settings:
        found = {
            True: "with that of A, B gives the state of A",
            False: "with that of A, B does not give the state of A",
            None: "its effect could not be tested",
        }
        lines += [f"  before the step: {plain_text(str(one))}", f"    tested: {found[one.proved]}"]
    return lines


def _code_lines(explanation: Explanation) -> list[str]:
    """What the tape tells of the code, of two versions whose lines do not show the cause, such as other class statements."""
    codes = {outcome.variant.code for outcome in explanation.pair or ()}
    is_open = explanation.cause is None or explanation.cause.kind == "unseen"
    return code_lines(explanation.code) if is_open and len(codes) > 1 and names_a_change(explanation.code) else []


def _identity_lines(identities: Sequence[DifferingIdentity]) -> list[str]:
    """The names; of many, those that differ only by an index or a key in one line, with the first of them."""
    if len(identities) <= _SHOWN:
        return [f"    {one}" for one in identities]
    groups: dict[str, list[str]] = {}
    for one in identities:
        groups.setdefault(_KEY.sub("[…]", str(one)), []).append(str(one))
    return [
        f"    {alike[0]}"
        if len(alike) == 1
        else f"    {text} ({len(alike):,} pairs; the first: {alike[0].partition(': ')[0]})"
        for text, alike in groups.items()
    ]


def _function_lines(explanation: Explanation) -> list[str]:
    """The functions of A's version of the code that B was given."""
    functions = explanation.functions
    if functions is None or not functions.names:
        return []
    taken = [plain_text(one) for one in functions.names if one not in functions.removed]
    parts = [f"with {' and '.join(taken)} of A"] if taken else []
    parts += [f"without {' and '.join(map(plain_text, functions.removed))}"] if functions.removed else []
    with_none = ", and with none of them alone" if functions.is_none_alone else ""
    alone = "alone" if len(functions.names) == 1 else f"together{with_none}"
    shown = [plain_text(one) for one in functions.brought[:_SHOWN]]
    more = f" and {len(functions.brought) - _SHOWN} more" if len(functions.brought) > _SHOWN else ""
    if shown:
        alone += f" (with {', '.join(shown)}{more}, which B does not have)"
    tested = [f"  tested: {' and '.join(parts)} {alone}, B {_end_of(explanation, 0)}"]
    return tested if functions.edits is None else [*tested, f"  {_edits_text(functions.edits)}"]


def _edits_text(edits: TestedEdits) -> str:
    """Of a function with several edits: those that B needs as A has them."""
    needed = [plain_text(one) for one in edits.needed]
    if not needed:
        return f"not known: which of the {edits.count} edits in it make the difference"
    if len(needed) == 1:
        return f"tested: of the {edits.count} edits in it, that at {needed[0]} alone is enough"
    others = edits.count - len(needed)
    some = (
        ""
        if not others
        else ", with the other one as B has it"
        if others == 1
        else f", with the other {others} as B has them"
    )
    return f"tested: of the {edits.count} edits in it, those at {' and '.join(needed)} are enough together{some}, and not without one of these"


def _given_lines(explanation: Explanation) -> list[str]:
    """What was tested of values outside the state: those of A were put into B."""
    given = explanation.given
    if given is None:
        return []
    if given.why_not is not None:
        return [f"  not tested whether that makes the difference: {plain_text(given.why_not)}"]
    if given.proved:
        values = [plain_text(f"    {one.name} ({one.kind}): {one.detail}") for one in given.proved]
        each = "each " if len(values) > 1 and given.is_alone else "together " if len(values) > 1 else ""
        how = _EMPTIED if given.is_emptied else _RESUMED if given.is_resumed else f"{each}{_WITH}"
        return [
            f"  proved: {how} {_end_of(explanation, 1 if given.is_emptied else 0)}:",
            *_some(values),
            *_frozen_lines(explanation),
            *_not_needed(given),
            *_unsaved_lines(explanation),
            *_set_by_load(explanation),
        ]
    if given.without_effect:
        names = ", ".join(one.name for one in given.without_effect[:_SHOWN])
        others = ", and nor has all else that was seen to differ" if given.nor_others else ""
        return [f"  tested: put into B as A has it, this has no effect{others}: {plain_text(names)}"]
    return [f"  tested: {_WITH} ends neither as it did nor as A"]


def _frozen_lines(explanation: Explanation) -> list[str]:
    """What numba took as constants in the step, if that alone makes the difference, with the lines that read it."""
    lines, given = [], explanation.given
    for one in given.frozen if given is not None else ():
        functions = plain_text(" and ".join(one.functions))
        lines += [
            f"  proved: numba takes {plain_text(one.name)} as a constant when it compiles {functions}:",
            plain_text(f"    compiled with {one.in_a}, and all else as it is in B, B {_end_of(explanation, 0)}"),
            plain_text(f"    compiled again with {one.in_b}, B {_end_of(explanation, 1)}"),
            *[f"    {place.name:<20} {place.text}" for place in one.places],
        ]
    return lines


def _walked_lines(explanation: Explanation) -> list[str]:
    """What was tested of sets whose members look alike, in fixed orders."""
    lines = []
    for one in explanation.walked:
        if one.suspicious:
            lines.append(f"  proved: {plain_text(one.found)}")
        else:
            lines += [f"  not known whether this decides: {plain_text(one.cause)}", f"    {plain_text(one.found)}"]
    return lines


def _not_needed(given: GivenValues) -> list[str]:
    """What differed besides: it makes no difference at this tick, and may make one later."""
    names = list(dict.fromkeys(f"{one.name} ({one.kind})" for one in given.not_needed))
    if not names:
        return []
    more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return [f"  these differed, too, and were not needed at this tick: {plain_text(', '.join(names[:_SHOWN]))}{more}"]


def _unsaved_lines(explanation: Explanation) -> list[str]:
    """The lines of save() at which proved values become alike, if the cause does not name them."""
    cause, given = explanation.cause, explanation.given
    kinds: dict[tuple[str, SourceLocation | None], list[str]] = {}
    for one in given.unsaved if given is not None else ():
        kinds.setdefault((one.way, one.place), []).append(one.name)
    lines = []
    for (way, place), names in kinds.items():
        if cause is not None and place == cause.place:
            continue
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
        told = f"  with each of both values of {plain_text(shown)}, save() returns the same"
        lines += (
            [told]
            if place is None
            else [f"{told}{_WAYS[way].format(function=place.function)}:", f"    {place.name:<20} {place.text}"]
        )
    return lines


def _set_by_load(explanation: Explanation) -> list[str]:
    """The lines of load() that set what was proved, if none of them was named yet; its head if it leaves that as it is."""
    cause, places, left = explanation.cause, explanation.set_by_load, explanation.left_by_load
    if left is not None:
        return ["  load() leaves that as it is in a new instance:", f"    {left.name:<20} {left.text}"]
    named = {cause.place, cause.loaded_at} if cause is not None else set()
    is_told = cause is not None and cause.undone is not None  # With the line that calls these.
    if not places or is_told or set(places) <= named:
        return []
    return ["  set by load():", *_some([f"    {one.name:<20} {one.text}" for one in places])]


def _end_of(explanation: Explanation, side: int) -> str:
    """How an instance ends the step that another one ends, too."""
    step = explanation.pair[side].step if explanation.pair is not None else None
    letter = "AB"[side]
    return f"gives the state of {letter}" if step is None or step.raised is None else f"raises the error of {letter}"


def refuted_text(explanation: Explanation) -> str | None:
    """What the test of the hidden state that a line reads left open; empty if nothing, None if it could not be tested."""
    if explanation.is_untested or explanation.is_of_memory or explanation.is_of_lost:
        return None
    if explanation.is_unproved:
        cause = explanation.cause
        return _NO_EFFECT if cause is None or cause.read_at is None else _NO_EFFECT_OF_VALUE
    if explanation.is_unshown:
        return _NOT_TESTED if explanation.functions is None else _NONE_SHOWN
    if not explanation.is_refuted or explanation.given is None:
        return ""
    return (
        f"{_REFUTED} {'has no effect' if explanation.given.without_effect else 'is not all that makes the difference'}"
    )


def _load_lines(fields: list[NotGivenBack]) -> list[str]:
    if not fields:
        return []
    lines = [f"  tested before the step in B: {LOAD}", *_some([f"    {one}" for one in fields])]
    places = dict.fromkeys(line for one in fields for line in one.lines)
    return lines + [f"    {place.name:<20} {place.text}" for place in places]


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return lines[:_SHOWN] + ([f"    … and {more:,} more"] if more > 0 else [])
