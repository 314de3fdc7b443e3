"""Add to an explanation without a cause: a change of the state before the step with which the step gives the recorded state."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from recorder.text import counted
from replayer.desync.causes.seen_between import BETWEEN, between_steps, changed_between
from replayer.desync.code_comparison import is_changed_code
from replayer.desync.finding import NOT_DETERMINISTIC, STACK_DEPTH, TestedCause
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.before_step.answer import ChangingLines, Found
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE
from replayer.diagnose.explain.variants import Variant, VariantRunner
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot

_LINES_SHOWN = 3
_KEY = re.compile(r"\[[^\[\]]*\]")
STATE_BYTES_MAX = 64 << 20  # Four simulations hold it, and each change that is tried loads it again.


def with_changed_before(
    explanation: Explanation,
    tape: Tape,
    runner: VariantRunner,
    now: Variant,
    before: Snapshot,
    code: TestedCause | None,
) -> tuple[Explanation, list[str]]:
    """Try changes of the state before the step, of an explanation that is open; with the names of the attributes they change.

    now: the present variant. code: the comparison of the code with the recorded one.
    """
    tick = explanation.tick
    if tick is None or is_changed_code(code):
        return explanation, []
    seen = between_steps(tape, tick)
    if seen is not None and seen.suspicious is not None:  # The recorder compared these states itself.
        names = changed_names(tape, tick) if seen.suspicious else []
        answer = runner.change(now, tick, before, None, names) if names else None
        lines = ChangingLines.from_plain(answer["lines"]) if answer is not None else None
        return explanation if lines is None else attrs.evolve(explanation, changing_lines=lines.of_others), names
    answer = runner.change(now, tick, before, explanation.known_states)
    found = Found.from_plain(answer["found"]) if answer is not None else Found()
    if answer is None or not found.texts:
        return explanation, []
    lines = ChangingLines.from_plain(answer["lines"])
    told = TestedCause(BETWEEN, _text(tick, found, lines), suspicious=True)
    changed = attrs.evolve(explanation, between=told, is_maybe_in_step=True, changing_lines=lines.of_others)
    return changed, list(found.names)


def changed_names(tape: Tape, tick: int) -> list[str]:
    """The attributes that the recorder saw to be changed before the step to a tick."""
    return _attributes(changed_between(tape, tick))


def _attributes(texts: Iterable[str]) -> list[str]:
    """The attributes in names of what was changed, such as orders for Game.orders, and teams for order of League.teams."""
    paths = [_KEY.sub("", text.removeprefix("order of ").partition(":")[0]) for text in texts]
    return list(dict.fromkeys(last for path in paths if (last := path.rpartition(".")[2]).isidentifier()))


def is_open(explanation: Explanation) -> bool:
    """Return True if nothing that was tried changes the result, which is not the recorded one, and is always the same."""
    if explanation.pair is not None or explanation.agrees or not explanation.ran:
        return False
    if explanation.differs_by is not None or explanation.depends_on is not None or explanation.replaced is not None:
        return False
    if any(note in explanation.notes for note in (NOT_DETERMINISTIC, NOT_REPEATABLE, STACK_DEPTH)):
        return False
    is_suspected = any(one.suspicious for one in explanation.tested)
    return not is_suspected and len({one.result for one in explanation.ran}) == 1


def _text(tick: int, found: Found, lines: ChangingLines) -> str:
    """That the step itself did not make the change is not known: a module may have had another value in the recorded run."""
    first, *others = found.texts
    when = f"changed between tick {tick - 1:,} and {tick:,}, outside of the step"
    when += ", or at first in the step by something that neither the state nor the inputs hold"
    text = f"{when}: {first}: with that change the step gives the recorded state, and without it another one"
    if others:
        text += f"; it gives the recorded state as well with {', and with '.join(others)}"
    if lines.of_step:
        named = ", ".join(f"{one.name} {one.function}()" for one in lines.of_step[:_LINES_SHOWN])
        more = len(lines.of_step) - _LINES_SHOWN
        named += f" and {counted(more, 'other')}" if more > 0 else ""
        text += f"; lines that the step may run and that change an attribute or a variable of this name: {named}"
    return text
