"""Add to an explanation without a cause: code of the program that changed something outside the step, with which it gives the recorded state."""

from __future__ import annotations

import attrs

from recorder.ambient.outside.outside_read import CONTACT
from replayer.desync.causes.seen_between import between_steps
from replayer.desync.code_comparison import is_changed_code, names_constants, names_values, with_tested_values
from replayer.desync.finding import TestedCause
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.before_step.changed_before import (
    STATE_BYTES_MAX,
    changed_names,
    is_open,
    with_changed_before,
)
from replayer.diagnose.explain.lines_run.found_values import ValuesPutIn
from replayer.diagnose.explain.lines_run.run_lines import RunBefore, SharedResult
from replayer.diagnose.explain.variants import Variant, VariantRunner, reads_of, traced_present
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot


def with_lines_run(
    explanation: Explanation,
    tape: Tape,
    runner: VariantRunner,
    now: Variant,
    before: Snapshot,
    code: TestedCause | None,
) -> Explanation:
    """Run statements of the program before the step, then try changes of the state, and see what the step before returned.

    now: the present variant. code: the comparison of the code with the recorded one.
    """
    tick = explanation.tick
    is_small = sum(before[name].nbytes for name in before) <= STATE_BYTES_MAX
    asks = any(read.kind == CONTACT for read in reads_of(traced_present(explanation.variants)))
    # Each trial would ask another program or another computer once more.
    if tick is None or not is_small or asks or not is_open(explanation):
        return explanation
    if names_constants(code) and (answer := runner.run_program("frozen", now, tick, before, {})) and answer["found"]:
        return attrs.evolve(explanation, other_values=ValuesPutIn.from_plain(answer["found"]))
    if names_values(code) and (answer := runner.run_program("values", now, tick, before, {})) and answer["found"]:
        found = RunBefore.from_plain(answer["found"])
        return attrs.evolve(explanation, run_before=found, code=_named(code, found))
    explanation = _with_other_values(explanation, runner, now, before, code)
    if explanation.other_values is not None and explanation.other_values.is_noted:
        return explanation
    changed, names = with_changed_before(explanation, tape, runner, now, before, code)
    names = names or changed_names(tape, tick)
    is_compared = not names and between_steps(tape, tick) is not None
    answer = None if is_compared else runner.run_program("shared", now, tick, before, {"names": names})
    if answer is None or answer["found"] is None:
        return changed
    return attrs.evolve(changed, shared=SharedResult.from_plain(answer["found"]))


def _with_other_values(
    explanation: Explanation, runner: VariantRunner, now: Variant, before: Snapshot, code: TestedCause | None
) -> Explanation:
    """Put in the values that the tape has digests of; without any, those that other functions give to what the step reads."""
    tick = explanation.tick
    is_noted = names_values(code)
    if tick is None or (is_changed_code(code) and not is_noted):
        return explanation
    for asks_noted in (True, False) if is_noted else (False,):
        answer = runner.run_program("other", now, tick, before, {"noted": asks_noted})
        if answer is not None and answer["found"] is not None:
            found = ValuesPutIn.from_plain(answer["found"])
            return attrs.evolve(explanation, other_values=found, code=_tested(code, found))
    return explanation


def _named(code: TestedCause | None, found: RunBefore) -> TestedCause | None:
    """The comparison of the code, after a test of what code of the program changes."""
    return with_tested_values(code, found.values) if found.is_by_values else code


def _tested(code: TestedCause | None, values: ValuesPutIn) -> TestedCause | None:
    """The comparison of the code, after a test of values that it names."""
    if not values.is_noted:
        return code
    return with_tested_values(code, [f"{one.of} ({one.place})" for one in (*values.found, *values.unneeded)])
