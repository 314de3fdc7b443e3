"""Sweeps over what decides a run: seed, capacity, scheduler, reconfigurations, budgets of adversaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recorder.scenarios.batch import RunRecord, run_job
from recorder.scenarios.sweep import read_axis, sweep_jobs
from sim.scenario.scenario_file import Scenario, load_scenario

RELAY = """
world = "choreography"
name = "relay"
seed = 1
ticks = 60
buffer_capacity = 1
[scheduler]
policy = "round_robin"
[protocol]
roles = ["A", "B", "C"]
[[protocol.steps]]
loop = "round"
times = 4
steps = [
    { send = "x", from = "A", to = "B" },
    { send = "y", from = "B", to = "C" },
]
[scenario]
[[scenario.adversaries]]
id = "fog"
kind = "withholding"
budget = { total = 1, kind = "independent", chance = 0.5 }
[[scenario.reconfigurations]]
id = "slow"
kind = "link"
from = "A"
to = "B"
latency_ms = 1
cost = 1
trigger = { at_tick = 3 }
"""


@pytest.fixture
def relay(tmp_path: Path) -> Scenario:
    """A protocol of eight messages, some of which may be withheld."""
    path = tmp_path / "relay.toml"
    path.write_text(RELAY)
    return load_scenario(str(path))


def seen(record: RunRecord) -> dict[str, Any]:
    """What the axes change in a result."""
    assert record.error is None
    assert record.progress is not None
    assert record.scheduler is not None
    assert record.reconfigurations is not None
    return {
        "capacity": record.progress["buffer_phase"],
        "policy": record.scheduler["policy"],
        "cost": record.reconfigurations["transition_budget"],
        "withheld": record.event_counts.get("withheld", 0),
        "hash": record.final_hash,
    }


@pytest.mark.parametrize(
    ("axis", "figure", "expected"),
    [
        ("seed=1,2", "hash", None),
        ("buffer_capacity=1,9", "capacity", ["below", "above"]),
        ("scheduler.policy=round_robin,cooperative", "policy", ["round_robin", "cooperative"]),
        ("scenario.reconfigurations[0].cost=2,5", "cost", [2, 5]),
        ("scenario.adversaries[0].budget.total=1,3", "withheld", [1, 3]),
    ],
)
def test_a_sweep_is_over_seed_capacity_scheduler_reconfigurations_and_budgets(
    relay: Scenario, axis: str, figure: str, expected: list[Any] | None
) -> None:
    """Each is an axis: the two runs have these bindings, and differ in what the axis decides."""
    path = axis.partition("=")[0]
    jobs = sweep_jobs(relay, [read_axis(axis)], None)
    records = [run_job(job) for job in jobs]
    assert [list(record.bindings) for record in records] == [[path], [path]]
    found = [seen(record)[figure] for record in records]
    assert found[0] != found[1]
    assert expected in (None, found)


def test_all_axes_at_once_vary_the_last_one_fastest(relay: Scenario) -> None:
    """Two values of each of five axes are 32 runs, in the same order at each call."""
    texts = ("seed=1,2", "buffer_capacity=1,2", "scheduler.policy=round_robin,cooperative")
    texts += ("scenario.reconfigurations[0].cost=0,1", "scenario.adversaries[0].budget.total=1,2")
    axes = [read_axis(text) for text in texts]
    jobs = sweep_jobs(relay, axes, None)
    assert len(jobs) == 32
    assert [tuple(job.bindings.values()) for job in jobs[:3]] == [
        (1, 1, "round_robin", 0, 1),
        (1, 1, "round_robin", 0, 2),
        (1, 1, "round_robin", 1, 1),
    ]
    assert [job.bindings for job in sweep_jobs(relay, axes, None)] == [job.bindings for job in jobs]
