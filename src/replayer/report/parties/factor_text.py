"""Differences between two parties, and what each does when it is exchanged, as lines of text."""

from __future__ import annotations

import difflib

from recorder.exception_text import STEP_RAISED
from recorder.text import counted, shown_path
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.parties.differences.factor import Factor
from replayer.diagnose.parties.differences.module_files import is_installed
from replayer.diagnose.parties.party_explanation import FactorTest, PartyExplanation
from replayer.diagnose.parties.set_values.set_settings import GENERATORS

_CHANGED_SHOWN = 12
_LINE_CHARS_MAX = 200


def factor_text(factor: Factor) -> str:
    """A difference: its name, what A has, and what B has."""
    if factor.parts:
        return f"together: {'; '.join(map(factor_text, factor.parts))}"
    first, second = factor.texts
    remark = f", {factor.remark}" if factor.remark else ""
    names = {
        "inputs": f"the inputs of {factor.name}",
        "argument": f"the constructor's argument {factor.name}",
        "configuration": f"the configuration's entry {factor.name}",
        "file": f"the content of the file {factor.name}{remark}",
        "module": f"the module {factor.name}",
        "package": f"the package {factor.name} as a whole",
        "factory": "the simulation",
        "variable": f"the environment variable {factor.name}{remark}",
        "setting": f"{factor.name}, {_what_it_is(factor.name)} the state does not hold",
        "value": f"{factor.name}, which the state does not hold",
    }
    brought = f", with {', '.join(factor.brought)}, which it imports and only one of them has" if factor.brought else ""
    return f"{names.get(factor.kind, factor.name)}: {first} in A, {second} in B{brought}"


def _what_it_is(setting: str) -> str:
    return "which" if setting in GENERATORS else "a setting of the whole process that"


def test_text(test: FactorTest) -> str:
    """A difference with what it does when it is exchanged."""
    if test.why_not is not None:
        return f"? {factor_text(test.factor)}: not tested: {test.why_not}"
    if test.has_no_effect:
        return f"- {factor_text(test.factor)}: exchanged, it changes nothing"
    first, second = (_gives_text(test, to) for to in (0, 1))
    if first.startswith("gives "):
        second = second.removeprefix("gives ")
    return f"{'+' if test.decides else '?'} {factor_text(test.factor)}: A with it {first}, B with that of A {second}"


def _gives_text(test: FactorTest, to: int) -> str:
    """What a party with a difference exchanged gives, or that it raises an error, which is no state."""
    outcome, error = test.outcomes[to], test.raised[to]
    if error is not None:
        as_other = f", as {outcome} does" if outcome in ("A", "B") else ""
        return f"raises {error.removeprefix(STEP_RAISED)}{as_other}"
    return {"A": "gives what A gives", "B": "gives what B gives"}.get(outcome or "", "gives a third state")


def changed_lines(explanation: PartyExplanation, test: FactorTest) -> list[str]:
    """The lines that differ between the files of a module of the user's, unless the cause has named one of them."""
    is_named = explanation.cause is not None and explanation.cause.kind == "edited"
    if is_named or any(is_installed(path) for pair in test.factor.files for path in pair):
        return []
    lines = []
    for pair in test.factor.files:
        old, new = (SourceFile(path).lines for path in pair)
        changed = [line for line in difflib.unified_diff(old, new, n=0, lineterm="") if line[:3] not in ("---", "+++")]
        if changed:
            lines.append(f"  {shown_path(pair[0])} in A, {shown_path(pair[1])} in B:")
        lines += [f"    {_cut(line.rstrip())}" for line in changed if not line.startswith("@@")]
    more = len(lines) - _CHANGED_SHOWN
    return [*lines[:_CHANGED_SHOWN], *([f"    and {counted(more, 'more line')}"] if more > 0 else [])]


def _cut(line: str) -> str:
    """A line of a file of data may be very long."""
    return line if len(line) <= _LINE_CHARS_MAX else f"{line[:_LINE_CHARS_MAX]}…"
