"""Results as folds of events, traces, and the identity of scenarios."""

from __future__ import annotations

from typing import Any

import pytest
from staging import staged
from tiny_roles import Ring

from sim.scenario.config.identity import scenario_hash
from sim.scenario.results.result import Sample, Trace, Violation, check_trace, fold_events

ONE = 1 << 32
FACTS: dict[str, Any] = {
    "name": "x",
    "scenario_hash": "00",
    "regime": "canonical_exact",
    "seed": 1,
    "final_tick": 2,
    "final_hash": "11",
}


def sample(step: int, *values: int, role: str = "a") -> dict[str, Any]:
    """The event of a sample."""
    return {"kind": "sample", "step": step, "role": role, "values": list(values)}


def test_each_event_has_its_place() -> None:
    """Samples, violations, effects, budgets, diagnostics, reconfigurations, environment, and events of the world."""
    events: list[tuple[int, dict[str, Any]]] = [
        (0, sample(0, 5)),
        (1, {"kind": "activated", "by": "w", "consumed": 0, "remaining": 2, "detail": "withholding"}),
        (1, {"kind": "sent", "role": "a", "message": 0}),
        (1, {"kind": "withheld", "by": "w", "message": 0}),
        (1, {"kind": "consumed", "by": "w", "consumed": 1, "remaining": 1, "detail": "withheld"}),
        (2, {"kind": "diagnostic", "diagnostic": "fairness", "by": "w"}),
        (2, {"kind": "reconfigured", "by": "r"}),
        (2, {"kind": "moved", "role": "a", "place": [0, 1]}),
        (2, {"kind": "violation", "property": "p", "details": "oh"}),
        (2, sample(2, 6)),
    ]
    result = fold_events(events, steps=3, **FACTS)
    assert result.trace == Trace((Sample(0, "a", (5,)), Sample(2, "a", (6,))))
    assert result.violations == (Violation("p", 2, "oh"),)
    assert result.events == ({"tick": 1, "kind": "sent", "role": "a", "message": 0},)
    assert [event["kind"] for event in result.effects] == ["withheld"]
    assert result.schedule == ((1, "w"),)
    assert [(event["tick"], event["kind"]) for event in result.budget_history] == [(1, "activated"), (1, "consumed")]
    assert [event["diagnostic"] for event in result.diagnostics] == ["fairness"]
    assert [event["by"] for event in result.reconfigurations] == ["r"]
    assert [event["place"] for event in result.environment] == [[0, 1]]
    assert result.event_counts["sample"] == 2
    assert sum(result.event_counts.values()) == len(events)
    assert result.is_exact


@pytest.mark.parametrize(("steps", "fallback"), [(None, False), (1, False), (3, False), (4, True), (10, True)])
def test_the_fallback_sample(steps: int | None, fallback: bool) -> None:  # noqa: FBT001
    """A run that ends early repeats its last figures at the last step, marked as fallback."""
    events = [(step, sample(step, step, role=role)) for step in range(3) for role in "ab"]
    trace = fold_events(events, steps=steps, **FACTS).trace
    assert trace.last_step == 2
    assert len(trace.samples) == 6 + 2 * fallback
    if fallback and steps is not None:
        assert trace.at_step(steps - 1) == {"a": (2,), "b": (2,)}
        assert all(added.is_fallback for added in trace.samples[6:])


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], (None, None, None, None)),
        ([()], (None, None, None, None)),
        ([(ONE, 0), (ONE // 2, ONE // 2)], (True, True, True, None)),
        ([(ONE // 2, ONE // 2), (ONE, 0)], (True, True, False, None)),
        ([(3, 4), (4, 3)], (True, False, None, 0.0)),
        ([(3, 4), (3, 5)], (False, False, None, 9 / 25)),
        ([(0, 0), (1, 0)], (False, False, None, None)),
    ],
)
def test_checks_of_a_trace(steps: list[tuple[int, ...]], expected: tuple[Any, ...]) -> None:
    """Conservation, distributions, convergence, drift of energy."""
    trace = Trace(tuple(Sample(step, "a", values) for step, values in enumerate(steps)))
    assert tuple(check_trace(trace).values()) == expected


def test_the_identity_of_a_scenario() -> None:
    """Seed, parts and world change the hash; names, lengths, checkpoints, extensions and the order of keys do not."""

    def hash_of(**plain: Any) -> str:
        return scenario_hash(staged(plain, Ring()))

    plain: dict[str, Any] = {"seed": 1, "network": {"loss": 0.5, "latency_ms": 1}}
    original = hash_of(**plain)
    assert hash_of(network={"latency_ms": 1, "loss": 0.5}, seed=1) == original
    for more in ({"name": "other"}, {"steps": 5}, {"checkpoint_interval": 3}, {"extensions": {"a": 1}}):
        assert hash_of(**plain, **more) == original
    for change in ({"seed": 2}, {"network": {"loss": 0.25, "latency_ms": 1}}, {"roles": ["a"]}):
        assert hash_of(**(plain | change)) != original
    meta = {"world": None, "simulation": "tiny_roles.Ring", "scenario": plain}
    assert scenario_hash(meta) == original
    assert scenario_hash(meta | {"simulation": "tiny_roles.Other"}) != original
