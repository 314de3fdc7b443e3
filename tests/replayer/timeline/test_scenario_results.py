"""Results of scenarios from their tapes are those of the live runs; canonical replays; threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from staging import staged
from tiny_roles import Ring

import replayer
from recorder.errors import MissingTickError
from recorder.reopen.resume import resume
from recorder.scenarios import run_with_scenario
from recorder.scenarios.run_scenario import raced_inputs
from recorder.session.recorder import Recorder
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.tape.tape import Tape
from replayer.timeline.scenario_results import compare_tapes, run_canonical_replay, scenario_result
from replayer.timeline.verify import verify_tape
from sim.kernel.registry import ConfigError
from sim.scenario.results.result import ScenarioResult
from sim.scenario.scenario_file import load_scenario
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.protocol.builder import again, loop, protocol, send

NOISE: dict[str, Any] = {
    "name": "noise",
    "seed": 2,
    "adversaries": [{"id": "w", "kind": "withholding", "budget": {"total": 5, "kind": "independent", "chance": 0.3}}],
    "network": {"latency_ms": 2, "variance": 0.5},
    "reconfigurations": [
        {"id": "cut", "kind": "link", "from": "a", "to": "b", "enabled": False, "trigger": {"at_tick": 20}}
    ],
    "environment": {"bodies": [{"role": "c", "dx": 1}]},
    "properties": [{"name": "few", "kind": "always", "when": "in_flight < 4"}],
}


def comparable(result: ScenarioResult) -> dict[str, Any]:
    """A result without what is not on a tape."""
    return attrs.asdict(attrs.evolve(result, checkpoints=(), checkpoint_error=None))


def talkers(concurrency: int) -> Choreography:
    """Three sessions in which two roles exchange numbers forever."""
    steps = [send("A", "B", "ping", payload="number"), send("B", "A", "pong", payload="number"), again("r")]
    return Choreography(
        {
            "sessions": 3,
            "protocol": protocol(["A", "B"], loop("r", *steps)),
            "scheduler": {"concurrency": concurrency, "policy": "progress_aware"},
        }
    )


def threaded(concurrency: int) -> dict[str, Any]:
    """A scenario on the threaded backend."""
    execution = {"backend": "threaded", "scheduler_concurrency": concurrency, "worker_threads": 3}
    drop = {"id": "w", "kind": "withholding", "budget": {"total": 2}, "trigger": {"at_tick": 30}}
    return {
        "name": "threads",
        "execution": execution,
        "adversaries": [drop],
        "properties": [{"name": "ok", "kind": "no_faults"}],
    }


def test_a_tape_has_the_complete_result(tmp_path: Path) -> None:
    """Every artefact equals the live run's, and the canonical replay gives it again."""
    live = run_with_scenario(Ring(), NOISE, steps=41, tape=tmp_path / "a.tape")
    assert live.violations
    assert live.reconfigurations
    assert live.environment
    with Tape(tmp_path / "a.tape") as tape:
        assert comparable(scenario_result(tape)) == comparable(live)
        assert comparable(scenario_result(tape, Ring)) == comparable(live)
        found = run_canonical_replay(tape, Ring)
    assert (found.comparison.verdict, found.same_hash) == ("exact_raw_match", True)
    assert comparable(found.result) == comparable(live)


def test_events_that_a_crash_has_cost_are_made_again(tmp_path: Path) -> None:
    """Events of ticks that were in the journal only; the result is that of an uninterrupted run."""
    live = run_with_scenario(Ring(), NOISE, steps=41)
    path = tmp_path / "a.tape"
    recorder = Recorder(path, staged(NOISE, Ring()), notes={"ticks": 40})
    for _ in range(23):
        recorder.step(None)
    data, journal = path.read_bytes(), path.with_name("a.tape.journal").read_bytes()
    recorder.close()
    path.write_bytes(data)  # What a kill leaves: a few blocks, and the rest in the journal.
    path.with_name("a.tape.journal").write_bytes(journal)
    with resume(path, Ring()) as again_recorder:
        assert again_recorder.tick == 23
        for _ in range(17):
            again_recorder.step(None)
    with Tape(path) as tape:
        assert tape.missing_event_ticks()
        assert comparable(scenario_result(tape, Ring)) == comparable(live)


def test_a_run_that_raised_and_one_that_was_cut_short(tmp_path: Path) -> None:
    """The error is that of the live run; the fallback sample is at the last step requested."""

    class Falls(Ring):
        def step(self, inputs: Any) -> None:
            if self.state["count"][0] == 4:
                raise ZeroDivisionError("the world has an end")
            super().step(inputs)

    live = run_with_scenario(Falls(), {"name": "falls"}, steps=11, tape=tmp_path / "a.tape")
    with Tape(tmp_path / "a.tape") as tape:
        found = scenario_result(tape)
    assert comparable(found) == comparable(live)
    assert found.error == "tick 5: ZeroDivisionError: the world has an end"
    assert [one.step for one in found.trace.samples if one.is_fallback] == [10, 10, 10]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_threads(tmp_path: Path, concurrency: int) -> None:
    """A tape of a threaded run replays bit for bit; a regime that cannot be exact never claims to be."""
    scenario = threaded(concurrency)
    paths = [tmp_path / f"{n}.tape" for n in range(3)]
    for path in paths:
        live = run_with_scenario(talkers(concurrency), scenario, steps=61, tape=path)
        assert live.is_exact is (concurrency == 1)
        assert verify_tape(path).ok
        with Tape(path) as tape:
            assert comparable(scenario_result(tape)) == comparable(live)
            found = run_canonical_replay(tape)
        if concurrency == 1:
            assert (found.comparison.verdict, found.same_hash) == ("exact_raw_match", True)
            assert live.scheduler is not None
            canonical = {**live.scheduler, "backend": "canonical", "worker_threads": 1}
            expected = attrs.evolve(live, regime="canonical_exact", scheduler=canonical)
            assert comparable(found.result) == comparable(expected)
        else:
            assert found.comparison.verdict != "exact_raw_match"
            assert live.regime == "threaded_envelope_bounded"
    for other in paths[1:]:
        with Tape(paths[0]) as one, Tape(other) as two:
            verdict = compare_tapes(one, two).verdict
        assert (verdict == "exact_raw_match") is (concurrency == 1)


def test_a_threaded_run_continues_where_it_was(tmp_path: Path) -> None:
    """With a concurrency of 1 from any tick; the rest is that of the uninterrupted run."""
    scenario = {**threaded(1), "steps": 41}
    whole = run_with_scenario(talkers(1), scenario, steps=41)
    for tick in (1, 17, 40):
        path = tmp_path / f"{tick}.tape"
        run_with_scenario(talkers(1), scenario, steps=tick + 1, tape=path)
        with resume(path) as recorder, raced_inputs(recorder.simulation, lambda *_: None) as inputs:
            for next_tick in range(tick + 1, 41):
                recorder.step(inputs(next_tick, recorder.simulation.state))
        with Tape(path) as tape:
            assert comparable(scenario_result(tape)) == comparable(whole)
        with replayer.Timeline(path) as timeline:
            timeline.seek(tick // 2)


def test_the_regime_is_enforced() -> None:
    """A world that advances more roles at once than the scenario states would violate the claim of its regime."""
    with pytest.raises(
        ConfigError, match=r"execution.scheduler_concurrency: expected 4, the world's own concurrency, got 1"
    ):
        run_with_scenario(talkers(4), threaded(1), steps=3)
    for execution in ({"scheduler_concurrency": 2}, {"backend": "canonical", "worker_threads": 2}):
        with pytest.raises(ConfigError, match='expected 1 unless backend = "threaded", got '):
            run_with_scenario(talkers(4), {"execution": execution}, steps=3)


def test_what_is_no_scenario(tmp_path: Path) -> None:
    """A tape without one has no result; one that begins late has no canonical replay."""
    with Recorder(tmp_path / "a.tape", Ring()) as recorder:
        recorder.step()
    with Tape(tmp_path / "a.tape") as tape, pytest.raises(UnfitSimulationError, match="recorded without a scenario"):
        scenario_result(tape)
    ring = staged(NOISE, Ring())
    with Recorder(tmp_path / "b.tape", ring, keep=4, keyframe_interval_ticks=1) as recorder:
        for _ in range(20):
            recorder.step()
    with Tape(tmp_path / "b.tape") as tape, pytest.raises(MissingTickError):
        run_canonical_replay(tape, Ring)


@pytest.mark.parametrize("seed", range(6))
def test_two_threaded_runs_of_the_swarm_with_two_workers_do_not_differ(tmp_path: Path, seed: int) -> None:
    """Whichever thread is first: no event that both runs have differs. Only where the runs are cut may be another place."""
    loaded = load_scenario("swarm", seed=seed)
    execution = {"backend": "threaded", "scheduler_concurrency": 2, "worker_threads": 2}
    scenario = {"name": "swarm", "seed": seed, "execution": execution}
    paths = [tmp_path / "a.tape", tmp_path / "b.tape"]
    for path in paths:
        run_with_scenario(loaded.world.make(loaded.config), scenario, steps=41, tape=path)
    with Tape(paths[0]) as one, Tape(paths[1]) as other:
        comparison = compare_tapes(one, other)
    assert comparison.verdict == "equivalent_under_normalization" or comparison.only_length, comparison.normalised
    assert min(comparison.event_counts) > 40
