"""Manifests of sweeps: the scheduler with its bounds, and eligibility witnesses, of each run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from recorder.scenarios import run_with_scenario
from recorder.scenarios.batch import job_of, run_many
from recorder.scenarios.batch_manifest import read_manifest, read_record
from recorder.scenarios.sweep import Axis, compare_sweeps, run_batch, sweep_jobs
from replayer import Tape
from replayer.timeline.scenario_results import scenario_result
from sim.scenario.scenario_file import load_scenario
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.config import POLICIES

ENDLESS: dict[str, Any] = {
    "roles": ["Ping", "Pong"],
    "steps": [{"loop": "l", "steps": [{"send": "ping", "from": "Ping", "to": "Pong"}, {"continue": "l"}]}],
}  # fmt: skip
SHORT: dict[str, Any] = {
    "roles": ["A", "B"],
    "steps": [{"send": "x", "from": "A", "to": "B"}, {"send": "y", "from": "B", "to": "A"}],
}

SWEPT = """
world = "choreography"
name = "swept"
ticks = 30
[[choreographies]]
name = "short"
[choreographies.protocol]
roles = ["A", "B"]
steps = [{ send = "x", from = "A", to = "B" }, { send = "y", from = "B", to = "A" }]
[scenario]
[[scenario.adversaries]]
id = "thief"
kind = "withholding"
budget = { total = 1 }
trigger = { at_tick = 1 }
[scenario.network]
loss = 0
"""


@pytest.mark.parametrize("policy", POLICIES)
def test_fairness_by_policy_lets_no_role_wait_for_ever(policy: str) -> None:
    """A role whose messages never arrive goes on for ever; a short protocol beside it ends under each fair policy only."""
    plain = {
        "world": "choreography",
        "choreographies": [{"name": "endless", "protocol": ENDLESS}, {"name": "short", "protocol": SHORT}],
        "scheduler": {"policy": policy},
    }
    world = Choreography(plain)
    thief = {"id": "x", "kind": "withholding", "senders": ["endless.Ping"], "budget": {"total": 1000}}
    result = run_with_scenario(world, {"name": "fair", "adversaries": [thief]}, steps=400)
    assert result.scheduler is not None
    is_fair = result.scheduler["fairness"] == "by_policy"
    assert is_fair is (world.telemetry()["short.live"] == 0)
    assert is_fair is (policy != "cooperative")
    assert result.scheduler["bound_mode"] == "unsupported"
    assert result.eligibility["bounded"] == [False, "the protocol has an endless loop"]


@pytest.mark.parametrize("concurrency", [1, 2])
def test_productive_steps_stay_below_the_bound(concurrency: int) -> None:
    """The bound is W, or W times the concurrency where only the envelope is certain."""
    scheduler = {"policy": "round_robin", "concurrency": concurrency}
    plain = {
        "name": "b",
        "execution": {"backend": "threaded", "scheduler_concurrency": concurrency, "worker_threads": 2},
    }
    world = Choreography({"world": "choreography", "protocol": SHORT, "sessions": 3, "scheduler": scheduler})
    result = run_with_scenario(world, plain, steps=60)
    assert result.progress is not None
    assert result.progress["initial_w"] == 2 * 4 * 3
    assert result.scheduler == {
        "policy": "round_robin", "backend": "threaded", "concurrency": concurrency, "worker_threads": 2,
        "exactness": "exact" if concurrency == 1 else "envelope",
        "bound_mode": "w" if concurrency == 1 else "w_times_concurrency",
        "upper_bound": 24 * concurrency, "fairness": "by_policy",
    }  # fmt: skip
    assert result.progress["productive_steps"] <= result.scheduler["upper_bound"]
    assert result.eligibility["exact"] == [concurrency == 1, result.regime]


def test_each_condition_has_a_witness_from_the_run() -> None:
    """What is counted in the events is what the witness says."""
    plain = {
        "name": "w",
        "adversaries": [{"id": "thief", "kind": "withholding", "budget": {"total": 1}}],
        "properties": [{"name": "none", "kind": "always", "when": "tick < 3"}],
    }
    result = run_with_scenario(Choreography({"world": "choreography", "protocol": SHORT}), plain, steps=11)
    assert result.event_counts["withheld"] == 1
    found = result.eligibility
    assert found["delivery"] == [False, "1 withheld"]
    assert found["authenticity"] == [True, "no message was changed or repeated"]
    assert found["availability"] == [True, "no role was stopped"]
    assert found["properties"] == [False, "1 violation"]
    assert found["assumptions"] == [False, f"{len(result.diagnostics)} diagnostic"]
    assert found["bounded"] == [True, "W was 8 at the start"]
    assert found["completed"] == [True, "no error ended the run"]
    calm = run_with_scenario(Choreography({"world": "choreography", "protocol": SHORT}), {"name": "c"}, steps=11)
    assert all(held for held, _ in calm.eligibility.values())


def test_a_manifest_holds_the_scheduler_profile_and_eligibility_witnesses_of_each_run(tmp_path: Path) -> None:
    """Two sweeps are compared by them; a tape gives the same ones."""
    file = tmp_path / "swept.toml"
    file.write_text(SWEPT, encoding="utf-8")
    loaded = load_scenario(str(file))
    records = {}
    for name, budgets in (("one", (1, 2)), ("two", (1, 9))):
        axes = [Axis("scenario.adversaries[0].budget.total", budgets)]
        jobs = sweep_jobs(loaded, axes, tmp_path / name)
        run_batch(jobs, tmp_path / name, workers=1)
        records[name] = read_manifest(tmp_path / name)
    for record in records["one"]:
        assert record.error is None
        assert record.scheduler is not None
        assert record.scheduler["upper_bound"] == 8
        assert record.eligibility is not None
        assert record.eligibility["delivery"] == [False, "1 withheld"]
        assert record.tape is not None
        with Tape(record.tape) as tape:
            result = scenario_result(tape)
        assert (result.scheduler, result.eligibility) == (record.scheduler, record.eligibility)
    second = records["one"][0]
    other = attrs.evolve(second, eligibility={**(second.eligibility or {}), "delivery": [True, "no message was lost"]})
    assert [change.what for change in compare_sweeps([second], [other])] == [("eligibility",)]
    assert compare_sweeps([second], [attrs.evolve(second, eligibility=None, scheduler=None)]) == []


@pytest.mark.parametrize(
    "bad", [{"eligibility": {"exact": [1, "x"]}}, {"eligibility": {"exact": True}}, {"scheduler": {"policy": []}}]
)
def test_a_manifest_with_anything_else_is_refused(bad: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "swept.toml"
    file.write_text(SWEPT, encoding="utf-8")
    (record,) = run_many([job_of(load_scenario(str(file)), 0, ticks=3)], workers=1)
    entry = attrs.asdict(record)
    assert read_record(entry | {"violations": []}).eligibility == record.eligibility
    with pytest.raises(ValueError, match="unexpected value"):
        read_record(entry | {"violations": []} | bad)
