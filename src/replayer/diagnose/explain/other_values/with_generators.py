"""Add to an explanation without a cause: a random generator of the process on which the step depends, and which the tape does not hold."""

from __future__ import annotations

import attrs

from recorder.ambient.outside.outside_read import GENERATOR, OutsideRead
from recorder.text import counted
from replayer.desync.code_comparison import is_changed_code
from replayer.desync.finding import TestedCause
from replayer.diagnose.explain.answer.explanation import DecidingReads, Explanation
from replayer.diagnose.explain.before_step.changed_before import is_open
from replayer.diagnose.explain.foreign.unseen_draws import generator_of, shown_generator
from replayer.diagnose.explain.other_values.seeded_generators import RUNS
from replayer.diagnose.explain.variants import Variant, VariantRunner, traced_present
from sim.kernel.state import Snapshot

CAUSE = "a random generator of the process"


def with_generators(
    explanation: Explanation, runner: VariantRunner, now: Variant, before: Snapshot, code: TestedCause | None
) -> Explanation:
    """Test the generators that the step draws from, of an explanation that is open.

    All processes here may give them one seed, as a module that is imported does; the recorded one may have drawn from them before.
    """
    tick, present = explanation.tick, traced_present(explanation.variants)
    is_told = explanation.run_before or explanation.other_values or (explanation.shared and explanation.shared.proved)
    if tick is None or is_told or present is None or present.step is None or is_changed_code(code):
        return explanation
    reads = [read for read in present.step.reads if read.kind == GENERATOR]
    names = list(dict.fromkeys(map(generator_of, reads)))
    if not names or not is_open(explanation):
        return explanation
    answer = runner.run_program("draws", now, tick, before, {"generators": names})
    found = dict(answer["found"]) if answer is not None else {}
    if not found:
        return explanation
    what = _what(found, [read for read in reads if generator_of(read) in found])
    it = "it" if len(found) == 1 else "each of them"
    test = f"with two seeds of {it}, the step gives two states (each the same in {RUNS} of {RUNS} copies of a process)"
    further = next(iter(found.values()))
    if further is None:
        told = f"the step depends on {what}: {test}; which state the recorded run had is not known"
        return attrs.evolve(explanation, tested=[*explanation.tested, TestedCause(CAUSE, told, suspicious=True)])
    which = "it" if len(found) == 1 else "them"
    later = f"as {counted(further, 'further run')} of the step leave {which}, the step gives the recorded state"
    return attrs.evolve(explanation, depends_on=DecidingReads(what, f"{test}; {later}"))


def _what(names: dict[str, int | None], reads: list[OutsideRead]) -> str:
    shown = " and ".join(map(shown_generator, names))
    state = "whose state" if len(names) == 1 else "whose states"
    return f"{shown}, {state} the tape does not hold (read at {', '.join(dict.fromkeys(one.place for one in reads))})"
