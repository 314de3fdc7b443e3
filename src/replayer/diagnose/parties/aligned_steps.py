"""Compare the traced steps of two parties: the line at which they diverge, and the fields that differ after them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from replayer.desync.state_diff import STATE_LABELS, compare_states
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.find_cause import find_cause
from replayer.diagnose.explain.foreign.fresh_memory import gives_fresh_memory
from replayer.diagnose.parties.party import Party
from replayer.diagnose.parties.party_explanation import PartyExplanation
from replayer.diagnose.parties.party_runner import PartyAnswer


def aligned(
    explanation: PartyExplanation, parties: Sequence[Party], answers: Sequence[PartyAnswer | None]
) -> tuple[PartyExplanation, list[str]]:
    """The explanation with the line and the fields of these steps, and notes on them."""
    steps = [one.step if one is not None else None for one in answers]
    notes = [
        f"{party.label}: the step was not traced: {one.not_traced}"
        for party, one in zip(parties, answers, strict=True)
        if one is not None and one.not_traced is not None
    ]
    if steps[0] is None or steps[1] is None:
        return explanation, notes
    notes += [step.note for step in steps if step is not None and step.note is not None]
    cause = find_cause(Alignment(steps[0].trace, steps[1].trace))
    if cause is not None and cause.kind == "operation" and gives_fresh_memory(cause.operation):
        cause = find_cause(Alignment(steps[0].trace, steps[1].trace, past_memory=True))
    states = (steps[0].state, steps[1].state) if steps[0].state is not None and steps[1].state is not None else None
    fields = compare_states(*states, STATE_LABELS) if states is not None else []
    return attrs.evolve(explanation, cause=cause, states=states, fields=fields), notes
