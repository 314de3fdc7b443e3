"""Minimised scenarios that violate the same property: the result is compared with a trial of every part."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from tiny_roles import Ring

from recorder.scenarios.run_scenario import run_with_scenario
from recorder.scenarios.shrink import Minimised, minimise, write_minimised
from sim.scenario.results.result import Violation
from sim.scenario.scenario_file import load_scenario


def trial(scenario: dict[str, Any], ticks: int) -> Violation | None:
    """Return True if more than four messages are in flight."""
    result = run_with_scenario(Ring(), scenario, steps=ticks + 1)
    return next((one for one in result.violations if one.name == "few"), None)


@pytest.fixture
def provoked() -> dict[str, Any]:
    """A property that one of five parts violates: messages of b pile up."""
    return {
        "name": "ring",
        "adversaries": [
            {"id": "noise", "kind": "corruption", "budget": {"total": 50}, "senders": ["c"]},
            {"id": "slow", "kind": "timing_disturbance", "ticks": 9, "budget": {"total": 64}, "senders": ["b"]},
            {"id": "never", "kind": "withholding", "budget": {"total": 5}, "trigger": {"at_tick": 40}},
        ],
        "reconfigurations": [{"id": "mode", "kind": "mode_transition", "roles": ["a"], "mode": "m"}],
        "network": {"latency_ms": 0, "loss": 0.0},
        "properties": [
            {"name": "few", "kind": "always", "when": "in_flight < 5"},
            {"name": "other", "kind": "always", "when": "tick < 3"},
        ],
        "steps": 41,
    }


def test_the_result_is_minimal(provoked: dict[str, Any]) -> None:
    """Without any one part the property holds; budgets and steps are as small as possible."""
    violation = trial(provoked, 40)
    assert violation is not None
    found = minimise(provoked, violation, trial, budget_s=60)

    assert found.is_minimal
    assert [one["id"] for one in found.scenario["adversaries"]] == ["slow"]
    assert found.scenario["adversaries"][0]["budget"] == {"total": 5}
    assert [one["name"] for one in found.scenario["properties"]] == ["few"]
    assert found.scenario["reconfigurations"] == []
    assert "network" not in found.scenario
    assert found.violation.tick <= violation.tick
    assert found.scenario["steps"] == found.violation.tick + 1
    assert trial(found.scenario, found.ticks) == found.violation
    assert trial(found.scenario, found.ticks - 1) is None
    without = copy.deepcopy(found.scenario) | {"adversaries": []}
    assert trial(without, 40) is None


def test_time_that_is_over(provoked: dict[str, Any]) -> None:
    """Without time, nothing is tried, and the result is not called minimal; only what comes too late is left out."""
    violation = trial(provoked, 40)
    assert violation is not None
    found = minimise(provoked, violation, trial, budget_s=-1)
    assert (found.trials, found.is_minimal, found.violation) == (0, False, violation)
    assert [one["id"] for one in found.scenario["adversaries"]] == ["noise", "slow"]


def test_it_is_written_as_a_scenario(tmp_path: Path, provoked: dict[str, Any]) -> None:
    """The file can be run; an existing file is not overwritten."""
    path = tmp_path / "small.toml"
    found = Minimised(provoked, Violation("few", 9, "text"), 1, is_minimal=True)
    write_minimised(path, found, None)
    loaded = load_scenario(str(path))
    assert loaded.provocation == provoked | {"steps": 10, "seed": 0}
    assert loaded.ticks == 9
    assert path.read_text().startswith("# Made smaller: violates few at tick 9.\n")
    with pytest.raises(FileExistsError):
        write_minimised(path, found, None)
