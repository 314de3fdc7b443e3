"""The lines of replay explain on code of the program that was run before a step as a test."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.text import counted
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.lines_run.found_values import ValuesPutIn
from replayer.diagnose.explain.lines_run.run_lines import RunBefore, SharedResult

_SHOWN = 4
_LINES_SHOWN = 12


def run_before_text(run: RunBefore) -> str:
    """What statements of the program do that are run before the step."""
    values = ", ".join(run.values[:_SHOWN])
    gives = "the step gives the recorded state, and without that another one"
    if not run.is_by_values:
        return f"something outside the state: where code of the program runs before the step, {gives}"
    if run.is_as_noted:
        which, it = ("a value", "it is as it was") if len(run.values) == 1 else ("values", "they are as they were")
        return f"{which} outside the state, {values}: where {it} when the recording began, {gives}"
    is_one = len(run.values) == 1
    which, it, were = ("a value", "it", "it was") if is_one else ("values", "them", "they were")
    unknown = f"what {were} when the recording began is not known"
    return f"{which} outside the state, {values}: where code of the program changes {it} before the step, {gives}; {unknown}"


def other_values_text(values: ValuesPutIn) -> str:
    """With which other values outside the state the step gives the recorded state."""
    then = ", as when the recording began," if values.is_noted else ""
    first = values.found[0]
    if len(values.found) == 1:
        return (
            f"a value outside the state, {first.name} ({first.place}): with {first.then}{then} the step gives the recorded "
            f"state, with {first.now}, as it is now, another one"
        )
    each = "; ".join(f"{one.name} ({one.place}) {one.then} in place of {one.now}" for one in values.found[:_SHOWN])
    more = len(values.found) - _SHOWN
    each += f" and {counted(more, 'more')}" if more > 0 else ""
    if values.is_joint:
        how = f"with these together{then} the step gives the recorded state, and without any one of them another one"
        return f"values outside the state: {how}: {each}"
    how = "with each of these alone the step gives the recorded state, and as they are now another one; which of them is not known"
    return f"a value outside the state, one of {len(values.found)}: {how}: {each}"


def other_values_lines(explanation: Explanation) -> list[str]:
    """The lines that give these values and that read them; empty without any."""
    values = explanation.other_values
    if values is None:
        return []
    lines = []
    for one in values.found[:_SHOWN]:
        of = f" {one.name}" if len(values.found) > 1 else " it"
        what = f"lines of the program that give{of} a value" + ("" if one.is_noted else ", not seen to be of the step")
        lines += [f"  {what}:", *place_lines(one.set_at)] if one.set_at else []
        lines += (
            [f"  lines of the step that read{of}, or take another way with it:", *place_lines(one.read_at)]
            if one.read_at
            else []
        )
    if values.unneeded:
        texts = [f"{one.name} ({one.place}) {one.then}, and {one.now} now" for one in values.unneeded[:_SHOWN]]
        lines.append(f"  as when the recording began, and not needed for the state of this tick: {'; '.join(texts)}")
    if not values.is_noted:
        lines += [
            f"  found by putting in {counted(values.tried, 'other value')} that functions outside of the step give; what the recorded run had is",
            "  not known otherwise: give such a value to the step as an input, or keep it in the recorded object",
        ]
    return lines


def run_before_lines(explanation: Explanation) -> list[str]:
    """The statements, or the lines about other values; empty without any."""
    run = explanation.run_before
    if run is None:
        return other_values_lines(explanation)
    which = "this line" if len(run.lines) == 1 else "these lines"
    lines = [f"  tested with {which} of the program, run before the step:", *place_lines(run.lines)]
    if run.others:
        what = "for the value of then" if run.is_as_noted else "besides"
        lines += [f"  run, too, {what}, and not needed for the state of this tick:", *place_lines(run.others)]
    return lines


def shared_lines(shared: SharedResult | None) -> list[str]:
    """What the step before returned and the state holds, too, with the lines that write into it; empty if nothing."""
    if shared is None:
        return []
    parts = "; ".join(shared.parts)
    lines = [
        f"  what the step to tick {shared.tick:,} returned is in the state, too, tested by running it again: {parts}"
    ]
    if shared.returned_at is not None:
        lines += ["  returned by this line:", *place_lines([shared.returned_at])]
    if shared.proved:
        is_one = len(shared.proved) == 1
        which = "this line" if is_one else "each of these lines alone" if shared.is_alone else "these lines together"
        told = f"with {which}, run on what was returned, the step gives the recorded state, and without {'it' if is_one else 'them'}"
        lines += [
            f"  {'cause' if is_one and shared.is_only else 'tested'}: {told} another one:",
            *place_lines(shared.proved),
        ]
    others = [one for one in shared.writers if one not in shared.proved]
    if others:
        more = "further lines" if shared.proved else "lines"
        lines += [
            f"  {more} of the code that write into what such a call returns, as far as names tell:",
            *place_lines(others),
        ]
    return lines


def place_lines(places: Iterable[SourceLocation]) -> list[str]:
    """Lines of code with their functions, the first ones and a count of the others."""
    found = list(places)
    lines = [
        f"    {one.name:<20} {f'{one.function}(): ' if one.function else ''}{one.text}" for one in found[:_LINES_SHOWN]
    ]
    more = len(found) - _LINES_SHOWN
    return lines + ([f"    and {counted(more, 'more line')}"] if more > 0 else [])
