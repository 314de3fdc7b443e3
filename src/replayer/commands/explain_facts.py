"""The JSON object of ``replay explain --json``."""

from __future__ import annotations

from typing import Any

import attrs

from recorder.location.tape_location import Location
from replayer.desync.object_diff import NAMED_MAX, compare_objects, named_fields, shown_fields
from replayer.desync.ulps import DifferingElements
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, DifferingValue, SourceLocation, Undone
from replayer.diagnose.explain.variants import VariantOutcome
from replayer.timeline.verify import VerificationReport
from replayer.value_text import to_json


def explanation_facts(path: Location, explanation: Explanation) -> dict[str, Any]:
    """The JSON object of ``replay explain --json``."""
    cause = explanation.cause
    return {
        "tape": str(path),
        "tick": explanation.tick,
        "agrees": explanation.agrees,
        "recorded_hash": f"{explanation.recorded_hash:016x}" if explanation.tick is not None else None,
        "fields": _fields_facts(explanation),
        "fields_at_tick": None if explanation.place.fields is None else shown_fields(explanation.place.fields),
        "phase": explanation.place.phase,
        "writing_phases": explanation.place.writers,
        "cause": cause_facts(cause) if cause is not None else None,
        "sides": [_variant_facts(explanation, outcome) for outcome in explanation.variants],
        "known_tick": explanation.known_tick,
        "known_fields": named_fields(explanation.known_states, [one.field for one in explanation.known_fields]),
        "writers": [_place_facts(place) | {"fields": shown_fields(fields)} for place, fields in explanation.writers],
        "replaced": attrs.asdict(explanation.replaced) if explanation.replaced is not None else None,
        "variables": attrs.asdict(explanation.variables) if explanation.variables is not None else None,
        "differs_by": explanation.differs_by.what if explanation.differs_by is not None else None,
        "depends_on": explanation.depends_on.what if explanation.depends_on is not None else None,
        "outside": list(map(attrs.asdict, explanation.outside)),
        "identities": [attrs.asdict(one) for one in explanation.identities],
        "settings": [attrs.asdict(one) for one in explanation.settings],
        "not_given_back": [attrs.asdict(one) for one in explanation.not_given_back],
        "given": explanation.given.to_plain() if explanation.given is not None else None,
        **_function_facts(explanation),
        "code": attrs.asdict(explanation.code) if explanation.code is not None else None,
        "between_steps": attrs.asdict(explanation.between) if explanation.between is not None else None,
        "changing_lines": list(map(_place_facts, explanation.changing_lines)),
        "run_before": attrs.asdict(explanation.run_before) if explanation.run_before is not None else None,
        "other_values": explanation.other_values.to_plain() if explanation.other_values is not None else None,
        "shared": attrs.asdict(explanation.shared) if explanation.shared is not None else None,
        "seen": explanation.seen,
        "memory_runs": explanation.memory_runs,
        "walked": [attrs.asdict(tested) for tested in explanation.walked],
        "tested": [attrs.asdict(tested) for tested in explanation.tested],
        "notes": explanation.notes,
        "proved": _proved_facts(explanation.report) if explanation.report is not None else None,
    }


def _fields_facts(explanation: Explanation) -> list[dict[str, Any]]:
    """The fields in which the two variants differ; captured objects by the paths of their values."""
    states = [outcome.step.state for outcome in explanation.pair or () if outcome.step is not None]
    both = (states[0], states[1]) if len(states) > 1 and states[0] is not None and states[1] is not None else None
    diff = compare_objects(both, limit=NAMED_MAX)
    values = [
        {"field": one.path, "kind": one.kind, "first": one.first, "second": one.second, **_elements_facts(None)}
        for one in (diff.differences if diff is not None else ())
    ]
    return values + [
        {"field": field.name, **_elements_facts(field.elements)}
        for field in explanation.fields
        if not values or diff is None or not diff.holds(field.name)
    ]


def _function_facts(explanation: Explanation) -> dict[str, Any]:
    """The functions of A that B was given, and the edits of the only one that is needed."""
    facts = attrs.asdict(explanation.functions) if explanation.functions is not None else None
    # As ever, but for several functions of which one alone does not end.
    if facts is not None and facts["is_none_alone"]:
        del facts["is_none_alone"]
    return {"functions": facts, "edits": facts.pop("edits") if facts is not None else None}


def _proved_facts(report: VerificationReport) -> dict[str, Any]:
    return {
        "status": report.status,
        "verified_ticks": report.verified_ticks,
        "tick_count": report.tick_count,
        "dropped_ticks": report.dropped_ticks,
        "problems": list(map(str, (*report.problems, *report.wrong_keyframes))),
        "unreached_ticks": [attrs.asdict(one) for one in report.unreached],
    }


def cause_facts(cause: Cause) -> dict[str, Any]:
    """A cause with its places and values as plain data."""
    return {
        "kind": cause.kind,
        "operation": cause.operation,
        "calls": cause.called,
        "may_call": [name for name in cause.calls if name in cause.may_call],
        **_place_facts(cause.place),
        "other": _place_facts(cause.other_place) if cause.other_place is not None else None,
        "reordered": list(map(_place_facts, cause.reordered)) if cause.reordered is not None else None,
        "only_in": cause.only_in or None,
        "read_at": _place_facts(cause.read_at) if cause.read_at is not None else None,
        "loaded_at": _place_facts(cause.loaded_at) if cause.loaded_at is not None else None,
        "undone": _undone_facts(cause.undone) if cause.undone is not None else None,
        "value": _value_facts(cause.value) if cause.value is not None and not cause.is_of_branches else None,
        "outside": [_value_facts(value) for value in cause.outside],
        "orders": [_value_facts(value) for value in cause.orders],
        "way": [_place_facts(place) | {"changed": changed} for place, changed in cause.way],
    }


def _undone_facts(undone: Undone) -> dict[str, Any]:
    places = {"set_by": undone.set_by, "changed_by": undone.changed_by, "changed_in": undone.changed_in}
    return {name: None if place is None else _place_facts(place) for name, place in places.items()}


def _place_facts(place: SourceLocation) -> dict[str, Any]:
    return {"file": place.path, "line": place.line, "function": place.function, "text": place.text}


def _value_facts(value: DifferingValue) -> dict[str, Any]:
    parts = [{"path": path, "first": one, "second": two} for path, one, two in value.parts]
    return {"name": value.name, "first": value.first, "second": value.second, "parts": parts} | _elements_facts(
        value.elements
    )


def _elements_facts(elements: DifferingElements | None) -> dict[str, Any]:
    if elements is None:
        return {"differing": None, "lanes": None, "ulp_max": None, "shown": []}
    shown = [
        {"index": list(index), "first": to_json(one), "second": to_json(two), "ulp": ulp}
        for index, one, two, ulp in elements.shown
    ]
    return {"differing": elements.count, "lanes": elements.total, "ulp_max": elements.ulp_max, "shown": shown}


def _variant_facts(explanation: Explanation, outcome: VariantOutcome) -> dict[str, Any]:
    compared = explanation.pair.index(outcome) if explanation.pair is not None and outcome in explanation.pair else None
    state = outcome.step.state if outcome.step is not None else None
    return {
        "label": outcome.variant.label,
        "compared_as": "AB"[compared] if compared is not None else None,
        "hash": f"{state.hash():016x}" if state is not None else None,
        "as_recorded": explanation.is_recorded(outcome),
        "raised": outcome.step.raised if outcome.step is not None else None,
        "environment": dict(outcome.variant.environment),
        "code": outcome.variant.code,
        "from_tick": outcome.variant.start,
    }
