"""A small world of organisms, and its hashes by a plain loop: the truth that clusters are compared with."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from recorder.cluster import discover_whole_checkpoints
from recorder.cluster.whole_checkpoint import restore_whole
from sim.worlds.organisms import WORLD, Organisms

TICKS = 60
CONFIG: dict[str, Any] = {
    "world": "organisms",
    "seed": 9,
    "organisms_max": 40,
    "organisms_min": 6,
    "seed_bank_max": 15,
    "slice": 16,
    "inflow": 500,
    "mutation": 9,
    "history_interval": 4,
    "history_max": 5,
    "inputs": [
        {"kind": "inject", "tick": 5, "every": 7, "program": "eat copy inc divide", "count": 3},
        {"kind": "feed", "tick": 11, "every": 20, "amount": 900},
    ],
}
inputs_at = WORLD.inputs(CONFIG)


@functools.cache
def plain_hashes() -> tuple[int, ...]:
    """The state hash of each tick in one process, without a recorder."""
    world = Organisms(CONFIG)
    hashes = [world.state.hash()]
    for tick in range(1, TICKS + 1):
        world.step(inputs_at(tick))
        hashes.append(world.state.hash())
    return tuple(hashes)


def assert_states_to(simulation: Organisms, last_tick: int) -> None:
    """Step to a tick, and compare the hash of each tick with that of one process."""
    for tick in range(int(simulation.state["tick"]) + 1, last_tick + 1):
        simulation.step(inputs_at(tick))
        assert simulation.state.hash() == plain_hashes()[tick], tick


def ensure_all_whole(folder: Path) -> None:
    """Each checkpoint of a folder has the state of its tick in one process, and no other file is left."""
    found = discover_whole_checkpoints(folder)
    assert not found.ignored
    for checkpoint in found.checkpoints:
        assert restore_whole(checkpoint).world.state.hash() == plain_hashes()[checkpoint.tick]
    named = {part.name for one in found.checkpoints for part in one.parts} | {
        one.path.name for one in found.checkpoints
    }
    assert {path.name for path in folder.iterdir()} == named | {".lock"}
