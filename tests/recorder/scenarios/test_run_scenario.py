"""Runs of scenarios: tapes, checkpoints, resumes in this process and in a different one; the threaded backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from staging import staged
from tiny_roles import Ring

import replayer
from recorder.scenarios import discover_checkpoints, resume_checkpoint, run, run_with_scenario
from recorder.scenarios.checkpoints import Checkpoints, write_checkpoint
from recorder.scenarios.pass_criteria import check_contracts
from sim.kernel.registry import ConfigError
from sim.scenario.results.result import ScenarioResult

from oracle.second_reader import FULL, Reader
from project_paths import SUPPORT

PROVOKED: dict[str, Any] = {
    "name": "ring",
    "seed": 3,
    "adversaries": [
        {"id": "w", "kind": "withholding", "budget": {"total": 9, "kind": "independent", "chance": 0.2}},
        {
            "id": "t",
            "kind": "timing_disturbance",
            "ticks": 3,
            "budget": {"total": 8, "kind": "correlated", "chance": 0.3, "burst_ticks": 4},
        },
        {"id": "c", "kind": "crash", "role": "b", "duration": 5, "budget": {"total": 1}, "trigger": {"random": 0.1}},
    ],
    "network": {"latency_ms": 2, "variance": 0.9, "loss": 0.1},
    "reconfigurations": [
        {"id": "d", "kind": "delegation", "from": "a", "to": "b", "cost": 3, "trigger": {"at_tick": 15}}
    ],
    "environment": {"reach": 30, "width": 50, "bodies": [{"role": "a", "dx": 7}, {"role": "b"}]},
    "properties": [
        {"name": "few", "kind": "always", "when": "in_flight < 7"},
        {"name": "late", "kind": "send_recv_liveness", "bound": 6},
    ],
}


def rest(result: ScenarioResult, tick: int) -> tuple[Any, ...]:
    """Return the facts of a result about ticks after this one."""
    lists = (
        result.events,
        result.effects,
        result.budget_history,
        result.diagnostics,
        result.reconfigurations,
        result.environment,
    )
    return (
        *([event for event in found if event["tick"] > tick] for found in lists),
        [one for one in result.trace.samples if one.step > tick],
        [one for one in result.violations if one.tick > tick],
        result.final_hash,
        result.final_tick,
        result.scenario_hash,
    )


@pytest.fixture(scope="module")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScenarioResult, Path]:
    """A run of 40 rounds with a checkpoint at each, and the folder of the checkpoints."""
    artifacts = tmp_path_factory.mktemp("artifacts")
    result = run_with_scenario(Ring(), PROVOKED | {"checkpoint_interval": 1}, steps=41, artifacts=artifacts)
    return result, artifacts / "ring"


def test_a_run_is_the_same_with_and_without_a_tape(tmp_path: Path, full_run: tuple[ScenarioResult, Path]) -> None:
    """The tape replays to the same states without an argument for the scenario."""
    taped = run_with_scenario(
        Ring(), PROVOKED, steps=41, tape=tmp_path / "a.tape", settings={"keyframe_interval_ticks": 7}
    )
    assert rest(taped, -1) == rest(full_run[0], -1)
    assert {one.name for one in taped.violations} == {"few", "late"}
    assert taped.checkpoints == ()
    with replayer.Timeline(tmp_path / "a.tape", world=Ring) as timeline:
        assert timeline.verify().ok
        timeline.seek(40)
        assert f"{timeline.state.hash():016x}" == taped.final_hash


def test_resuming_from_every_checkpoint(tmp_path: Path, full_run: tuple[ScenarioResult, Path]) -> None:
    """From every checkpoint the rest equals that of the complete run; step numbers and tape continue."""
    result, folder = full_run
    found = discover_checkpoints(folder)
    assert [one.tick for one in found.checkpoints] == list(range(40, 0, -1))
    assert (found.ignored, result.checkpoint_error) == ({}, None)
    for one in found.checkpoints:
        assert rest(run_with_scenario(Ring(), PROVOKED, steps=41, start=one), one.tick) == rest(result, one.tick)

    middle = next(one for one in found.checkpoints if one.tick == 23)
    again = run_with_scenario(Ring(), PROVOKED, steps=41, start=middle.path, tape=tmp_path / "rest.tape")
    assert rest(again, 23) == rest(result, 23)
    with replayer.Timeline(tmp_path / "rest.tape", world=Ring) as timeline:
        assert (timeline.first_tick, timeline.last_tick) == (23, 40)
        assert timeline.verify().ok


@pytest.mark.parametrize(("interval", "ticks"), [(5, [5, 10, 15, 20]), (7, [7, 14]), (21, []), (None, [])])
def test_a_checkpoint_is_written_when_the_interval_is_over(
    tmp_path: Path, interval: int | None, ticks: list[int]
) -> None:
    """Of a run of 20 ticks; without an interval there is none."""
    plain = PROVOKED | ({"checkpoint_interval": interval} if interval else {})
    result = run_with_scenario(Ring(), plain, steps=21, artifacts=tmp_path)
    assert [Path(path).name for path in result.checkpoints] == [f"checkpoint_{tick}.tape" for tick in ticks]
    assert result.checkpoint_error is None


OTHER_PROCESS = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from recorder.scenarios import run_with_scenario
from staging import staged
from tiny_roles import Ring
result = run_with_scenario(Ring(), json.loads(sys.argv[2]), steps=41, start=Path(sys.argv[3]))
print(json.dumps([result.final_hash, result.event_counts, [[v.name, v.tick] for v in result.violations]]))
"""


def test_resuming_in_a_different_process(full_run: tuple[ScenarioResult, Path]) -> None:
    """The process has a different hash seed."""
    result, folder = full_run
    tests = str(SUPPORT)
    for seed in ("1", "77"):
        arguments = [tests, json.dumps(PROVOKED), str(folder / "checkpoint_2.tape")]
        ran = subprocess.run(
            [sys.executable, "-c", OTHER_PROCESS, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        final_hash, counts, violations = json.loads(ran.stdout)
        assert final_hash == result.final_hash
        assert violations == [[one.name, one.tick] for one in result.violations if one.tick > 2]
        here = run_with_scenario(Ring(), PROVOKED, steps=41, start=folder / "checkpoint_2.tape")
        assert counts == here.event_counts


@given(seed=st.integers(0, 1 << 32), tick=st.integers(0, 20), other=st.integers(0, 20))
@settings(max_examples=25, deadline=None)
def test_a_checkpoint_of_any_run(seed: int, tick: int, other: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Restored into a fresh or used simulation, it gives the state of its tick, and the same rest."""
    plain = PROVOKED | {"seed": seed}
    one = staged(plain, Ring())
    for _ in range(tick):
        one.step(None)
    written = write_checkpoint(tmp_path_factory.mktemp("one"), one, tick)
    used = staged(plain, Ring())
    for _ in range(other):
        used.step(None)
    assert resume_checkpoint(written, used) == tick
    for _ in range(10):
        one.step(None)
        used.step(None)
        assert (one.state.hash(), list(one.events())) == (used.state.hash(), list(used.events()))


def test_a_checkpoint_of_a_different_scenario_is_refused(full_run: tuple[ScenarioResult, Path]) -> None:
    """The message has its hash; a different name alone is not a different scenario."""
    folder = full_run[1]
    path = folder / "checkpoint_5.tape"
    with pytest.raises(
        ValueError, match=r"checkpoint_5.tape belongs to a different scenario: expected the hash [0-9a-f]{16}"
    ):
        run_with_scenario(Ring(), PROVOKED | {"seed": 4}, steps=41, start=path)
    run_with_scenario(Ring(), PROVOKED | {"name": "other", "steps": 41}, steps=7, start=path)
    with pytest.raises(ValueError, match="the checkpoint is of tick 5, after the last tick, 3"):
        run_with_scenario(Ring(), PROVOKED | {"steps": 41}, steps=4, start=path)


def test_discovery(tmp_path: Path, full_run: tuple[ScenarioResult, Path]) -> None:
    """Newest first, each state once, from folder and history; empty, damaged and missing files are reported."""
    (tmp_path / "a").mkdir()
    source = {tick: (full_run[1] / f"checkpoint_{tick}.tape").read_bytes() for tick in (3, 12, 30)}
    for tick, data in source.items():
        (tmp_path / "a" / f"checkpoint_{tick}.tape").write_bytes(data)
    (tmp_path / "a" / "checkpoint_12-2.tape").write_bytes(source[12])
    (tmp_path / "a" / "checkpoint_7.tape").touch()
    (tmp_path / "a" / "checkpoint_8.tape").write_bytes(source[3][:-40])
    full = next(block for block in Reader(source[3]).blocks if block.kind == FULL)
    damaged = bytearray(source[3])
    damaged[full.offset + 72 + 40] ^= 1
    (tmp_path / "a" / "checkpoint_9.tape").write_bytes(damaged)
    (tmp_path / "a" / "notes.txt").write_text("mine")
    gone = discover_checkpoints(full_run[1]).checkpoints[0].__class__(tmp_path / "gone.tape", 1, "", "")
    history = [gone, discover_checkpoints(full_run[1]).checkpoints[10]]
    found = discover_checkpoints(tmp_path / "a", history)

    assert [one.tick for one in found.checkpoints] == [30, 12, 3]
    assert sorted((path.name, bool(why)) for path, why in found.ignored.items()) == [
        ("checkpoint_7.tape", True),
        ("checkpoint_8.tape", True),
        ("checkpoint_9.tape", True),
        ("gone.tape", True),
    ]
    assert found.ignored[tmp_path / "a" / "checkpoint_7.tape"] == "it is empty"
    assert discover_checkpoints(tmp_path / "nowhere").checkpoints == ()


def test_a_checkpoint_that_cannot_be_written_fails_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file instead of a folder, values that cannot be encoded, a failing disk: the result has the reason."""
    (tmp_path / "ring").write_text("in the way")
    plain = PROVOKED | {"checkpoint_interval": 5}
    result = run_with_scenario(Ring(), plain, steps=21, artifacts=tmp_path)
    assert (result.final_tick, result.checkpoints) == (20, ())
    assert result.checkpoint_error is not None
    assert result.checkpoint_error.startswith("checkpoint at tick 20: FileExistsError")

    def refuse(*_: Any, **__: Any) -> None:
        raise OverflowError("a number that no tape holds")

    monkeypatch.setattr("recorder.scenarios.checkpoints.encode_small", refuse)
    result = run_with_scenario(Ring(), plain, steps=21, artifacts=tmp_path / "b")
    assert result.checkpoint_error == "checkpoint at tick 20: OverflowError: a number that no tape holds"
    assert list((tmp_path / "b" / "ring").iterdir()) == []


def test_a_checkpoint_is_never_overwritten(tmp_path: Path) -> None:
    """The file of the same state is kept; a different state of the same tick gets a different name."""
    one, other = (staged(PROVOKED, Ring()) for _ in range(2))
    one.step(None)
    other.step(None)
    other.state["count"][0] += 5
    kept = Checkpoints(tmp_path)
    for simulation in (one, one, other, other, one):
        kept.write(simulation, 1)
    assert kept.error is None
    assert [path.path.name for path in kept.written] == [
        "checkpoint_1.tape",
        "checkpoint_1.tape",
        "checkpoint_1-2.tape",
        "checkpoint_1-2.tape",
        "checkpoint_1.tape",
    ]


def test_a_world_that_raises_ends_the_run() -> None:
    """The result has the exception, all earlier facts, and the fallback sample."""

    class Falls(Ring):
        def step(self, inputs: Any) -> None:
            if self.state["count"][0] == 4:
                raise ZeroDivisionError("the world has an end")
            super().step(inputs)

    result = run_with_scenario(Falls(), {"name": "falls"}, steps=11)
    assert (result.final_tick, result.error) == (4, "tick 5: ZeroDivisionError: the world has an end")
    assert result.trace.at_step(10) == result.trace.at_step(4)
    assert not check_contracts(result).passed


def test_a_scenario_that_ships(tmp_path: Path) -> None:
    """A shipped scenario runs by name, with players and the requested number of samples."""
    result = run("arms-race", steps=6, players={"caterpillar": "random"}, tape=tmp_path / "a.tape")
    assert (result.final_tick, result.error, result.violations) == (5, None, ())
    assert [one.step for one in result.trace.samples if one.role == "beetle"] == [0, 1, 2, 3, 4, 5]
    with replayer.Timeline(tmp_path / "a.tape") as timeline:
        assert timeline.verify().ok
    with pytest.raises(ConfigError, match="steps: expected at least 1, got 0"):
        run("arms-race", steps=0)


@pytest.mark.parametrize(("rounds", "roles", "passed"), [(40, "abc", True), (41, "abc", False), (1, "abcd", False)])
def test_contracts(rounds: int, roles: str, passed: bool) -> None:  # noqa: FBT001
    """The pass criteria check rounds, roles and counts."""
    result = run_with_scenario(Ring(), {key: value for key, value in PROVOKED.items() if key != "properties"}, steps=41)
    assert check_contracts(result, minimum_rounds=rounds, expected_roles=list(roles)).passed is passed
