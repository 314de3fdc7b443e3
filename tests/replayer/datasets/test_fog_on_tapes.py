"""A player's view in a live run equals the view from its tape byte for byte, including what the player remembers."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder import Recorder
from replayer import Tape
from sim.kernel.registry import Readable
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow

pytestmark = pytest.mark.share(0.18)

TICKS = 90
KEYFRAME_TICKS = 8
PLAYERS = {"caterpillar": "greedy", "beetle": "random"}
CONFIG = load_scenario("arms-race").config
OBSERVERS = [WORLD.observations["fog"](CONFIG, agent) for agent in PLAYERS] + [WORLD.observations["layers"](CONFIG, "")]

Inputs = Callable[[int, Any], list[Any]]


def digests(state: Readable) -> list[str]:
    """The views of each player and of a neutral observer: names, dtypes, shapes and bytes of all arrays."""
    found = []
    for observe in OBSERVERS:
        digest = hashlib.blake2b(digest_size=16)
        for name, value in observe(state).items():
            digest.update(f"{name} {value.dtype.str} {value.shape} ".encode() + value.tobytes())
        found.append(digest.hexdigest())
    return found


def players() -> Inputs:
    """The inputs of the scenario and of the policies, which read the state."""
    assert WORLD.play is not None
    scheduled, playing = WORLD.inputs(CONFIG), [WORLD.play(CONFIG, *player) for player in PLAYERS.items()]
    return lambda tick, state: scheduled(tick) + [one for player in playing for one in player(tick, state)]


@pytest.fixture(scope="module")
def seen_live() -> list[list[str]]:
    """The views at each tick of a run that is not recorded."""
    meadow, inputs_at = Meadow(CONFIG), players()
    seen = [digests(meadow.state)]
    for tick in range(1, TICKS + 1):
        meadow.step(inputs_at(tick, meadow.state))
        seen.append(digests(meadow.state))
    assert len({tuple(one) for one in seen}) == TICKS + 1  # No two ticks look alike.
    return seen


@pytest.fixture(scope="module")
def tape_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run on a tape, recorded in two sessions: closed inside an interval, then resumed with new policies."""
    path = tmp_path_factory.mktemp("fog") / "played.tape"
    with Recorder(path, Meadow(CONFIG), keyframe_interval_ticks=KEYFRAME_TICKS, full_every=4) as tape:
        inputs_at = players()
        for tick in range(1, 53):
            tape.step(inputs_at(tick, tape.simulation.state))
    with recorder.resume(path) as tape:
        inputs_at = players()
        for tick in range(53, TICKS + 1):
            tape.step(inputs_at(tick, tape.simulation.state))
    return path


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.seldom(0.15)
def test_a_tape_gives_what_was_seen_live(tape_path: Path, seen_live: list[list[str]], seed: int) -> None:
    """Views are equal at each tick, sought in random order: at keyframes, between them, and after the resume."""
    ticks = list(range(TICKS + 1))
    random.Random(seed).shuffle(ticks)
    with replayer.open(tape_path) as run:
        for tick in ticks:
            run.seek(tick)
            assert digests(run.state) == seen_live[tick], tick


def test_a_keyframe_alone_gives_what_was_seen_live(tape_path: Path, seen_live: list[list[str]]) -> None:
    """Views of the tape's own snapshots, full and delta, are equal without any step."""
    with Tape(tape_path) as tape:
        assert len(tape.keyframes) > TICKS // KEYFRAME_TICKS
        for place in tape.keyframes:
            assert digests(tape.snapshot(place)) == seen_live[place.tick], place.tick


def test_orders_on_a_tape_are_those_that_the_players_sent(tape_path: Path) -> None:
    """Each player's policy, given the state before a tick, sends the inputs that the frame holds for this player."""
    assert WORLD.play is not None
    assert WORLD.actions is not None
    with replayer.open(tape_path) as run, Tape(tape_path) as tape:
        for tick in (1, 20, 53, TICKS):
            run.seek(tick - 1)
            inputs = tape.frame(tick).inputs
            for player, policy in PLAYERS.items():
                sent = WORLD.play(CONFIG, player, policy)(tick, run.state)
                assert WORLD.actions(CONFIG, player)(inputs, run.state) == sent
                assert sent
