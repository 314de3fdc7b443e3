"""The explanation of two tapes as JSON."""

from __future__ import annotations

from typing import Any

import attrs

from replayer.desync.object_diff import shown_fields
from replayer.diagnose.parties.party_explanation import FactorTest, PartyExplanation
from replayer.diagnose.parties.told.tape_seeds import TriedSeeds
from replayer.report.parties.party_report import LABELS, CauseTexts


def party_facts(explanation: PartyExplanation, texts: CauseTexts) -> dict[str, Any]:
    """The explanation as JSON."""
    difference = explanation.difference
    return {
        "tapes": [str(party.tape) for party in explanation.parties],
        "same": difference.same,
        "tick": explanation.tick,
        "first_tick": difference.first_tick,
        "last_tick": difference.last_tick,
        "compared_ticks": difference.compared_ticks,
        "unreadable_ticks": difference.unreadable_ticks,
        "inputs_tick": difference.inputs_tick,
        "fields": shown_fields([one.field for one in explanation.fields] or difference.ticks[0].fields or ())
        if difference.ticks
        else [],
        "reproduced": explanation.is_reproduced,
        "causes": [_test_facts(test) for test in explanation.deciding],
        "not_deterministic": [LABELS[number] for number in explanation.unsteady],
        "varying": explanation.varying,
        "hash_seed": _seed_facts(explanation.seeds),
        "seeds_of_tapes": None if explanation.seeds is None else list(explanation.seeds.of_tapes),
        "variable": attrs.asdict(explanation.variable) if explanation.variable is not None else None,
        "told": [{**attrs.asdict(one), "values": list(one.values)} for one in explanation.told],
        "unnoted": explanation.unnoted,
        "unnoted_before": explanation.unnoted_before,
        "line": texts.facts(explanation.cause) if explanation.cause is not None else None,
        "tested": [_test_facts(test) for test in explanation.tests],
        "parties": [_one_facts(explanation, number) for number in (0, 1)],
        "notes": list(explanation.notes),
    }


def _seed_facts(seeds: TriedSeeds | None) -> dict[str, Any] | None:
    return None if seeds is None else {"value": seeds.first, "gives_second": seeds.first == seeds.of_tapes[1]}


def _test_facts(test: FactorTest) -> dict[str, Any]:
    return {
        "kind": test.factor.kind,
        "name": test.factor.name,
        "first": test.factor.texts[0],
        "second": test.factor.texts[1],
        "files": [list(pair) for pair in test.factor.files],
        "parts": [f"{part.kind} {part.name}" for part in test.factor.parts],
        "first_with_second": test.outcomes[0],
        "second_with_first": test.outcomes[1],
        "decides": test.decides,
        "raised": list(test.raised),
        "why_not": test.why_not,
    }


def _one_facts(explanation: PartyExplanation, number: int) -> dict[str, Any]:
    run = explanation.runs[number]
    return {
        "tape": str(explanation.parties[number].tape),
        "sim": explanation.parties[number].sim,
        "recorded_hash": f"{explanation.recorded[number]:016x}" if explanation.recorded is not None else None,
        "hash": f"{run.state_hash:016x}" if run is not None and run.state_hash is not None else None,
        "as_recorded": explanation.is_recorded(number),
        "raised": run.raised if run is not None else None,
        "from_tick": run.start if run is not None else None,
        "class": run.made.class_name if run is not None and run.made is not None else None,
        "arguments": run.made.arguments if run is not None and run.made is not None else {},
        "python": run.made.python if run is not None and run.made is not None else None,
    }
