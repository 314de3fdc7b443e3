"""kill -9 of processes that record: no acknowledged tick is lost (promise P10), and the run stays the same.

The long form of this, with more simulations and settings, is tools/campaigns/kill_runs.py.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

import recorder
from recorder import RecordingError
from recorder.storage.file_names import journal_path
from replayer import Tape
from replayer.timeline.verify import verify_tape
from sim.scenario.scenario_file import load_scenario

from project_paths import SUPPORT
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

TICK_BYTES = 8
RECORD = [sys.executable, "-c", "import recorder.commands.main; recorder.commands.main.main()"]

# Records until it is killed; writes the number of each tick after step has returned.
ACKNOWLEDGING = """
import os, sys
import recorder
from small_worlds import Walkers
path, settings = sys.argv[1], eval(sys.argv[2])
tape = recorder.resume(path, Walkers()) if os.path.exists(path) else recorder.Recorder(path, Walkers(), **settings)
while True:
    tick = tape.tick + 1
    tape.step([[tick % 20, tick]])
    os.write(1, tick.to_bytes(8, "little"))
"""
SETTINGS: list[dict[str, Any]] = [
    {},
    {"keyframe_interval_ticks": 7, "full_every": 3},
    {"split": 20_000, "sync": "0.05s", "keyframe_interval_ticks": 50},
    {"keep": 500, "keyframe_interval_ticks": 20},
    {"sync": "never", "on_error": "raise"},
]


def record_and_kill(path: Path, settings: dict[str, Any], seconds: float) -> int:
    """Let a process record for this long after its first tick, kill it, and return the last acknowledged tick."""
    command = [sys.executable, "-c", ACKNOWLEDGING, str(path), repr(settings)]
    process = subprocess.Popen(command, cwd=SUPPORT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as pipe:
        received = pipe.read(TICK_BYTES)
        assert len(received) == TICK_BYTES, "the recording process ended by itself"
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            received = pipe.read(TICK_BYTES)
        process.send_signal(signal.SIGKILL)
        rest = pipe.read()  # What was in the pipe was acknowledged before the kill.
    assert process.wait() == -signal.SIGKILL
    return int.from_bytes((received + rest)[-TICK_BYTES:], "little")


@pytest.mark.sample(2)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.seldom(0.15)
def test_no_acknowledged_tick_is_lost(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Killed, resumed and killed again: all acknowledged ticks are there, with the states of an uninterrupted run."""
    path, seed = tmp_path / "run.tape", random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(2):
        acknowledged = record_and_kill(path, settings, chance.uniform(0, 0.15))
        with Tape(path) as tape:
            assert tape.status == "incomplete"
            assert tape.last_tick >= acknowledged
            assert tape.missing_ticks() == []
    with recorder.resume(path, Walkers()) as resumed:
        last_tick = resumed.tick + 10
        while resumed.tick < last_tick:
            resumed.step([[(resumed.tick + 1) % 20, resumed.tick + 1]])
        final_hash = resumed.simulation.state.hash()

    walkers, hashes = Walkers(), {}
    for tick in range(1, last_tick + 1):
        walkers.step([[tick % 20, tick]])
        hashes[tick] = walkers.state.hash()
    assert final_hash == hashes[last_tick]
    with Tape(path) as tape:
        assert tape.status == "not checked"
        first_tick = tape.first_tick
        assert {tick: tape.frame(tick).state_hash for tick in range(first_tick + 1, last_tick + 1)} == {
            tick: state_hash for tick, state_hash in hashes.items() if tick > first_tick
        }
    assert (first_tick > 0) is ("keep" in settings and last_tick > 650)
    assert not journal_path(path).exists()


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_record_run_is_resumed(tmp_path: Path, number: int) -> None:
    """The command, killed during the shipped scenario and resumed, ends in the uninterrupted run's state."""
    path, seed = tmp_path / "a.tape", random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    process = subprocess.Popen([*RECORD, "run", "quiet-meadow", "-q", "-o", str(path), "--ticks", "100000"])
    wanted = chance.randrange(1, 120) * (number + 1)

    def reached_enough() -> int | None:
        assert process.poll() is None
        try:
            with Tape(path) as tape:
                return tape.last_tick if tape.last_tick >= wanted else None
        except (FileNotFoundError, RecordingError):
            return None  # It has only begun.

    reached = wait_until(reached_enough)
    assert reached is not None
    process.kill()
    process.wait()
    with Tape(path) as tape:
        assert (tape.status, tape.last_tick >= reached) == ("incomplete", True)
        last_tick = tape.last_tick + 20
    finished = subprocess.run(
        [*RECORD, "resume", str(path), "--ticks", str(last_tick)], capture_output=True, text=True, check=True
    )

    scenario = load_scenario("quiet-meadow")
    inputs_at, meadow = scenario.world.inputs(scenario.config), scenario.world.make(scenario.config)
    for tick in range(1, last_tick + 1):
        meadow.step(inputs_at(tick))
    assert f"state hash: {meadow.state.hash():016x}" in finished.stdout
    report = verify_tape(path)
    assert (report.ok, report.status, report.tick_count) == (True, "intact", last_tick + 1)
