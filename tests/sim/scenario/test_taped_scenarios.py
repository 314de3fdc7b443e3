"""Scenarios on tape: recorded, verified, sought, cut off and resumed elsewhere; always equal to the uninterrupted run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from random_scenarios import CASES, Case, any_scenario
from staging import Tally, staged
from tiny_roles import Ring

import replayer
from recorder import Recorder
from replayer.playback.rebuild_events import rebuild_events
from sim.kernel.messages import Event
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.scenario.scenario_file import load_scenario

pytestmark = pytest.mark.share(0.18)

SETTINGS: dict[str, Any] = {"keyframe_interval_ticks": 3, "full_every": 2}
TICKS = 14


@attrs.define
class Live:
    """An uninterrupted run: the hash of each tick, and all events with their ticks."""

    hashes: list[int]
    events: list[tuple[int, Event]]


def as_on_tape(event: Event) -> Event:
    """An event as a tape returns it."""
    return decode_plain(encode_plain(event))


def live_run(plain: dict[str, Any], case: Case) -> Live:
    """Run a scenario without a tape."""
    simulation = staged(plain, case.make())
    live = Live([simulation.state.hash()], [(0, as_on_tape(event)) for event in simulation.events()])
    for tick in range(1, TICKS + 1):
        simulation.step(case.inputs(tick))
        live.hashes.append(simulation.state.hash())
        live.events += [(tick, as_on_tape(event)) for event in simulation.events()]
    return live


def check_tape(path: Path, case: Case, live: Live, chance: random.Random, *, complete: bool) -> None:
    """Assert that a tape is intact, has the ticks and events of the live run, and gives them from any tick on.

    complete: False if the run was cut off; the events of the last ticks before the cut are then rebuilt from frames.
    """
    world = None if case.is_registered else case.make
    with replayer.Timeline(path, world) as run:
        assert run.verify().ok
        assert run.last_tick == TICKS
        events = run.tape.events() if complete else rebuild_events(run.tape, world)
        assert list(events) == live.events
        for tick in [chance.randint(0, TICKS) for _ in range(6)]:
            assert run.seek(tick).state_hash == live.hashes[tick]
        first = chance.randint(1, TICKS)
        again = rebuild_events(run.tape, world, first, stored=False)
        assert list(again) == [(tick, event) for tick, event in live.events if tick >= first]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1])
def test_a_scenario_on_tape_is_the_run(tmp_path: Path, name: str, seed: int) -> None:
    """META holds the scenario: the world alone is enough to open the tape, and a registered world needs nothing."""
    case, chance = CASES[name], random.Random(seed)
    plain = any_scenario(name, chance)
    live, path = live_run(plain, case), tmp_path / "run.tape"
    with Recorder(path, staged(plain, case.make()), **SETTINGS) as tape:
        for tick in range(1, TICKS + 1):
            tape.step(case.inputs(tick))

    with replayer.Timeline(path, case.make) as run:
        assert run.tape.meta["scenario"] == plain
    check_tape(path, case, live, chance, complete=True)


RESUMING = """
import sys
sys.path[:0] = {path!r}
import recorder
from random_scenarios import CASES
name, tape, ticks = sys.argv[1], sys.argv[2], int(sys.argv[3])
case = CASES[name]
with recorder.resume(tape, None if case.is_registered else case.make()) as tape:
    for tick in range(tape.tick + 1, ticks + 1):
        tape.step(case.inputs(tick))
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.seldom(0.18)
def test_a_killed_run_is_resumed_in_a_different_process(tmp_path: Path, name: str) -> None:
    """The resuming process has a different hash seed, and knows nothing but the world."""
    case, chance = CASES[name], random.Random(len(name))
    plain = any_scenario(name, chance)
    live, path, cut = live_run(plain, case), tmp_path / "run.tape", chance.randint(4, TICKS - 4)
    child = os.fork()
    if child == 0:
        tape = Recorder(path, staged(plain, case.make()), **SETTINGS)
        for tick in range(1, cut + 1):
            tape.step(case.inputs(tick))
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL

    code = RESUMING.format(path=sys.path)
    environment = {**os.environ, "PYTHONHASHSEED": "11"}
    subprocess.run([sys.executable, "-c", code, name, str(path), str(TICKS)], check=True, env=environment)

    check_tape(path, case, live, chance, complete=False)


SCENARIO_FILE = """
base = "arms-race"
name = "provoked"
ticks = 12
[scenario]
properties = [{ name = "early", kind = "always", when = "tick < 9" }]
[[scenario.adversaries]]
id = "thief"
kind = "withholding"
budget = { total = 3 }
trigger = { at_tick = 2 }
"""


@pytest.mark.seldom(0.18)
def test_a_scenario_file_on_a_registered_world_needs_nothing_else(tmp_path: Path) -> None:
    """A tape of it opens by its path alone; the violation is among the tape's events."""
    file, path = tmp_path / "provoked.toml", tmp_path / "run.tape"
    file.write_text(SCENARIO_FILE)
    scenario = load_scenario(str(file))
    caterpillars = {"kind": "release", "species": 0, "x": 4, "y": 5, "population": 9}
    with Recorder(path, scenario.make(), **SETTINGS) as tape:
        for _ in range(12):
            tape.step({"caterpillar": [caterpillars]})

    with replayer.Timeline(path) as run:
        assert run.verify().ok
        events = list(run.tape.events())
    assert [(tick, event["property"]) for tick, event in events if event["kind"] == "violation"] == [(9, "early")]
    assert [tick for tick, event in events if event["kind"] == "withheld"] == [2, 3, 4]


def test_the_tape_names_the_class_of_the_simulation(tmp_path: Path) -> None:
    """META names neither the scenario's class nor the adapter's."""
    for make, name in ((Ring, "tiny_roles.Ring"), (Tally, "staging.Tally")):
        path = tmp_path / f"{name}.tape"
        with Recorder(path, staged({"name": "x", "properties": []}, make())):
            pass
        with replayer.Timeline(path) as run:
            assert run.tape.meta["simulation"] == name
