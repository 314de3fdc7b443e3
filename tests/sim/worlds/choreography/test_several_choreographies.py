"""Several different choreographies in one machine: their sessions, one scheduler, and results of each."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer
from recorder import Recorder
from recorder.scenarios import run_with_scenario
from recorder.scenarios.batch_manifest import read_record
from replayer import Tape
from replayer.commands.main import main
from replayer.timeline.scenario_results import scenario_result
from sim.kernel.registry import ConfigError
from sim.kernel.simulation import restore
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.config import POLICIES
from sim.worlds.choreography.training import agents, observe_role

BARTER: dict[str, Any] = {
    "protocol": {
        "roles": ["Buyer", "Seller"],
        "steps": [
            {"loop": "haggle", "times": 3, "steps": [
                {"send": "offer", "from": "Buyer", "to": "Seller", "payload": "number", "counter": True},
                {"choice": "Seller", "to": "Buyer", "schedule": ["more", "sold"],
                 "branches": [{"label": "more"}, {"label": "sold"}]},
            ]},
        ],
    },
}  # fmt: skip
CHAIN: dict[str, Any] = {
    "protocol": {
        "roles": ["A", "B", "C"],
        "steps": [
            {"send": "down", "from": "A", "to": "B", "payload": "fixed", "register": 2, "into": 2},
            {"send": "on", "from": "B", "to": "C", "payload": "fixed", "register": 2, "into": 2},
            {"send": "back", "from": "C", "to": "A"},
        ],
    },
    "sessions": 2,
    "initial": [{"role": "A", "values": ["1.5"]}],
}  # fmt: skip
FIELD: dict[str, Any] = {
    "protocol": {
        "roles": ["L", "R"],
        "steps": [{"loop": "swap", "times": 4, "steps": [
            {"send": "here", "from": "L", "to": "R", "payload": "fixed", "register": 2},
            {"send": "there", "from": "R", "to": "L", "payload": "fixed", "register": 2},
        ]}],
    },
    "field": {"kind": "continuum", "coupling": "0.5", "fields": ["1", "3"], "step": "0.25"},
}  # fmt: skip
ALONE = {"barter": BARTER, "chain": CHAIN, "springs": FIELD}
TOGETHER = {"world": "choreography", "choreographies": [{"name": name, **one} for name, one in ALONE.items()]}


def run_to_end(simulation: Choreography) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for _ in range(500):
        if simulation.ended():
            break
        simulation.step(None)
        events += simulation.events()
    assert simulation.ended()
    return events


def told_by_role(events: list[dict[str, Any]], prefix: str = "") -> dict[str, list[Any]]:
    """The events of each role, in its order, without what the order of roles decides."""
    found = defaultdict(list)
    for event in events:
        if event["role"].startswith(prefix) and event["kind"] != "closed":
            facts = {
                key: value for key, value in event.items() if key not in ("role", "message", "session", "to", "from")
            }
            found[event["role"].removeprefix(prefix)].append(json.dumps(facts, sort_keys=True))
    return dict(found)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("concurrency", [1, 3])
def test_several_choreographies_run_in_one_machine_each_as_it_does_alone(policy: str, concurrency: int) -> None:
    """Each role goes through the same events, to the same registers, whatever one scheduler makes of all of them."""
    scheduler = {"policy": policy, "concurrency": concurrency}
    together = Choreography({**TOGETHER, "scheduler": scheduler})
    events = run_to_end(together)
    for name, plain in ALONE.items():
        alone = Choreography({"world": "choreography", **plain, "scheduler": scheduler})
        assert told_by_role(events, f"{name}.") == told_by_role(run_to_end(alone))
        for role in alone.roles:
            ours, its = together.sample(f"{name}.{role}"), alone.sample(role)
            width = min(len(ours), len(its))
            assert list(ours)[:width] == list(its)[:width]


def test_each_choreography_has_results_of_its_own() -> None:
    """Progress and figures of each equal those of its run alone; the machine has the sums."""
    together = Choreography(TOGETHER)
    start = together.progress()
    run_to_end(together)
    progress, figures = together.progress(), together.telemetry()
    reports = {}
    for name, plain in ALONE.items():
        alone = Choreography({"world": "choreography", **plain})
        assert start["choreographies"][name] == alone.progress()
        run_to_end(alone)
        reports[name] = alone.progress()
        assert figures[f"{name}.productive_steps"] == alone.telemetry()["productive_steps"]
        assert figures[f"{name}.live"] == 0
    assert progress["choreographies"] == reports
    for key in ("initial_w", "depth_budget", "remaining_w", "consumed", "productive_steps"):
        assert progress[key] == sum(one[key] for one in reports.values())
    assert progress["remaining_w"] == 0


def test_names_and_sessions_are_those_of_all() -> None:
    together = Choreography(TOGETHER)
    assert together.roles == (
        "barter.Buyer", "barter.Seller", "chain.A.0", "chain.B.0", "chain.C.0", "chain.A.1", "chain.B.1", "chain.C.1",
        "springs.L", "springs.R",
    )  # fmt: skip
    assert together.sessions == 4
    assert together.has_channel("chain.A.1", "chain.B.1")
    assert not together.has_channel("chain.A.0", "chain.B.1")
    assert not together.has_channel("barter.Buyer", "chain.A.0")
    events = run_to_end(together)
    sessions = {event["role"]: event["session"] for event in events}
    assert sessions == dict(zip(together.roles, (0, 0, 1, 1, 1, 2, 2, 2, 3, 3), strict=True))
    assert sorted(event["session"] for event in events if event["kind"] == "closed") == [0, 1, 2, 3]


def test_a_tape_of_several_is_replayed_from_any_tick(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    live = Choreography(
        {**TOGETHER, "scheduler": {"policy": "priority_aging", "concurrency": 2, "priorities": [3, 1, 2, 1, 1, 4, 1]}}
    )
    states = [live.state.snapshot()]
    with Recorder(path, live, keyframe_interval_ticks=7) as tape:
        for _ in range(30):
            tape.step()
            states.append(live.state.snapshot())
    with replayer.open(path) as run:
        for tick in (0, 5, 13, 30):
            assert run.seek(tick).state_hash == states[tick].hash()
    assert replayer.verify_tape(path).ok
    again = Choreography(
        {**TOGETHER, "scheduler": {"policy": "priority_aging", "concurrency": 2, "priorities": [3, 1, 2, 1, 1, 4, 1]}}
    )
    restore(again, states[11])
    again.step(None)
    assert again.state.hash() == states[12].hash()


def test_a_scenario_gives_a_trace_and_the_progress_of_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also from its tape, and by the command; a record of a batch keeps them."""
    path = tmp_path / "run.tape"
    plain = {"name": "all", "properties": [{"name": "moves", "kind": "send_recv_liveness", "bound": 60, "session": 3}]}
    result = run_with_scenario(Choreography(TOGETHER), plain, steps=101, tape=path)

    assert list(result.traces) == ["barter", "chain", "springs"]
    assert sum(len(trace.samples) for trace in result.traces.values()) == len(result.trace.samples)
    assert {sample.role for sample in result.traces["springs"].samples} == {"springs.L", "springs.R"}
    with Tape(path) as tape:
        assert scenario_result(tape).progress == result.progress
    with pytest.raises(SystemExit) as left:
        main(["results", str(path), "--json"])
    shown = json.loads(capsys.readouterr().out)["result"]
    assert left.value.code == int(bool(result.violations))
    assert {name: len(trace["samples"]) for name, trace in shown["traces"].items()} == {
        name: len(trace.samples) for name, trace in result.traces.items()
    }
    assert shown["traces"]["chain"]["samples"][0]["role"] == "chain.A.0"
    assert result.progress is not None
    kept = {"index": 0, "name": "x", "bindings": {}, "ticks": 1, "scenario_hash": "", "regime": "", "final_tick": 1}
    kept |= {"final_hash": "", "violations": [], "extinctions": {}, "event_counts": {}, "productive": 0, "tape": None}
    assert read_record({**kept, "progress": dict(result.progress)}).progress == result.progress
    with pytest.raises(ValueError, match="progress"):
        read_record({**kept, "progress": {"choreographies": {"barter": {"x": []}}}})


def test_training_data_has_the_roles_of_all() -> None:
    together = Choreography(TOGETHER)
    together.step(None)
    assert agents(TOGETHER) == together.roles
    seen = observe_role(TOGETHER, "springs.R")(together.state)
    assert seen["registers"].tolist() == together.state["roles.registers"][9].tolist()
    assert seen["waiting"].shape == (1,)
    assert np.int64(1) == seen["tick"]


def with_part(**changes: Any) -> dict[str, Any]:
    return {"choreographies": [{"name": "a", **BARTER}, {"name": "b", **CHAIN, **changes}]}


@pytest.mark.parametrize(
    ("plain", "line"),
    [
        ({}, "protocol: this key is missing"),
        ({**TOGETHER, "protocol": BARTER["protocol"]}, "protocol: not with choreographies, each of which has its own"),
        ({**TOGETHER, "sessions": 2}, "sessions: not with choreographies, each of which has its own"),
        (with_part(name="a"), "choreographies[1].name: a is used twice"),
        (with_part(name="a.b"), "choreographies[1].name: expected a name of letters, digits, '_' and '-', got 'a.b'"),
        (with_part(sessions=0), "choreographies[1].sessions: expected an integer from 1 to 1000, got 0"),
        (with_part(initial=[{"role": "Q", "values": []}]), "choreographies[1].initial[0].role: expected one of the roles A, B, C, got 'Q'"),
        ({**TOGETHER, "scheduler": {"priorities": [1, 2]}}, "scheduler.priorities: expected one for each of 7 roles, got 2"),
        ({**TOGETHER, "registers": 2}, "registers: expected at least 3, got 2"),
        (
            with_part(protocol={"roles": ["A", "B", "C"], "steps": [
                {"choice": "A", "to": "B", "branches": [{"label": "x", "steps": [{"send": "y", "from": "C", "to": "A"}]}, {"label": "z"}]},
            ]}),
            "choreographies[1].protocol.steps[0].branches: C cannot learn which branch A chose",
        ),
    ],
)  # fmt: skip
def test_a_mistake_names_the_key(plain: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Choreography({"world": "choreography", **plain})
    assert str(caught.value).startswith(line)
