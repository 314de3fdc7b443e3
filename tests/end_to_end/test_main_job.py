"""The main job: record the shipped scenario and seek any tick, in this process and in others."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import replayer
from recorder import Recorder
from sim.scenario.scenario_file import load_scenario

# Ticks of the run, ticks that are sought, ticks between keyframes (by default 300).
SIZES = [(900, 24, 50), pytest.param((5000, 200, 100), marks=pytest.mark.long)]
SEED_MAX = 1 << 30

VISIT = """
import hashlib, json, sys
import replayer
ticks = json.load(sys.stdin)
with replayer.open(sys.argv[1]) as run:
    found = []
    for tick in ticks:
        report = run.seek(tick)
        found.append([tick, f"{report.state_hash:016x}", hashlib.blake2b(run.state.arena).hexdigest()])
    from numpy._core._multiarray_umath import __cpu_features__ as features
    print(json.dumps({"found": found, "features": [name for name, on in features.items() if on]}))
"""


class Live:
    """The live run's values at some ticks."""

    def __init__(self, path: Path, seed: int, ticks: int, sought: int, interval: int) -> None:
        self.path = path
        self.interval = interval
        self.ticks = sorted(random.Random(seed).sample(range(1, ticks + 1), sought))
        wanted = set(self.ticks)
        self.arenas: dict[int, bytes] = {}
        self.hashes: dict[int, int] = {}
        scenario = load_scenario("quiet-meadow")
        inputs_at = scenario.world.inputs(scenario.config)
        with Recorder(path, scenario.world.make(scenario.config), keyframe_interval_ticks=interval) as tape:
            for tick in range(1, ticks + 1):
                tape.step(inputs_at(tick))
                if tick in wanted:
                    self.arenas[tick] = tape.simulation.state.arena.tobytes()
                    self.hashes[tick] = tape.simulation.state.hash()

    def expected(self) -> list[list[Any]]:
        """The values that a visitor must find."""
        return [
            [tick, f"{self.hashes[tick]:016x}", hashlib.blake2b(self.arenas[tick]).hexdigest()] for tick in self.ticks
        ]


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size[0]}-ticks")
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Live:
    """Record many ticks of the shipped scenario."""
    seed = random.randrange(SEED_MAX)
    print("seed of the ticks", seed)
    return Live(tmp_path_factory.mktemp("main") / "run.tape", seed, *request.param)


@pytest.mark.seldom(0.18)
def test_random_ticks_are_the_live_state(live: Live) -> None:
    """In random order, each sought state equals the live one in every byte and in its hash."""
    order = random.Random(1).sample(live.ticks, len(live.ticks))
    with replayer.open(live.path) as run:
        for tick in order:
            report = run.seek(tick)

            assert run.state.arena.tobytes() == live.arenas[tick], tick
            assert report.state_hash == live.hashes[tick]
            assert report.simulated_ticks < live.interval


def visit(live: Live, **environment: str) -> dict[str, Any]:
    """Seek the same ticks in a fresh process with a different environment."""
    finished = subprocess.run(
        [sys.executable, "-c", VISIT, live.path],
        input=json.dumps(live.ticks),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def test_a_fresh_process_with_a_different_hash_seed_finds_the_same(live: Live) -> None:
    """After a restart with a different PYTHONHASHSEED, the same states are found."""
    other = "4242" if os.environ.get("PYTHONHASHSEED") != "4242" else "1"

    assert visit(live, PYTHONHASHSEED=other)["found"] == live.expected()


@pytest.mark.seldom(0.15)
def test_with_simd_dispatch_switched_off_the_same_is_found(live: Live) -> None:
    """With every CPU feature disabled that NumPy can disable, the same states are found."""
    try:
        from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
    except ImportError:
        pytest.skip("this NumPy does not tell its processor features")
    on = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    if not on:
        pytest.skip("this processor has nothing to disable")
    found = visit(live, NPY_DISABLE_CPU_FEATURES=" ".join(on))

    assert not set(found["features"]) & set(on)
    assert found["found"] == live.expected()


def test_the_recorder_does_not_disturb_the_run(live: Live) -> None:
    """The same scenario without a recorder has the same hashes."""
    scenario = load_scenario("quiet-meadow")
    inputs_at = scenario.world.inputs(scenario.config)
    simulation = scenario.world.make(scenario.config)
    last = [tick for tick in live.ticks if tick <= 600][-1]
    for tick in range(1, last + 1):
        simulation.step(inputs_at(tick))
        if tick in live.hashes:
            assert simulation.state.hash() == live.hashes[tick]
