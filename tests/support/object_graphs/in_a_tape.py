"""A random graph on a tape, sought by another process."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import replayer
from recorder import Recorder

from object_graphs.changes import OPERATIONS, random_inputs
from object_graphs.makers import FEATURES, makers_of
from object_graphs.walk import canonical
from object_graphs.world import adapted_world

# Of a set of texts no order can be kept in a process with other hashes; what iterates one is refused or warned of.
MOVABLE = frozenset(FEATURES) - {"text_sets"}
AHEAD = 9  # Ticks that a replay continues after each seek.


def digest(subject: Any) -> str:
    """The walk of a graph in one word."""
    return hashlib.blake2b(repr(canonical(subject)).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def record_graph(path: Path, seed: int, ticks: int) -> list[str]:
    """Record a random run; return the digest of the live graph at each tick."""
    rng = random.Random(seed)
    makers = makers_of(frozenset(rng.sample(sorted(MOVABLE), 6)))
    simulation = adapted_world()
    live = [digest(simulation.subject)]
    with Recorder(path, simulation, keyframe_interval_ticks=7, durability="none") as tape:
        for _ in range(ticks):
            tape.step(random_inputs(rng, rng.randrange(12), OPERATIONS, makers))
            live.append(digest(simulation.subject))
    return live


def digests_of_a_replay(path: Path | str, ticks: list[int]) -> list[str]:
    """Seek to each tick and continue; return the digests, after comparing each tick's recorded hash."""
    found = []
    with replayer.open(path, world=adapted_world) as run:
        last_tick = run.tape.last_tick
        for tick in ticks:
            run.seek(tick)
            simulation = run.simulation
            found.append(digest(simulation.subject))
            for later in range(tick + 1, min(last_tick, tick + AHEAD) + 1):
                simulation.step(run.tape.frame(later).inputs)
                found.append(digest(simulation.subject))
                assert simulation.state.hash() == run.tape.state_hash(later), f"other bytes at tick {later}"
            run._cursor.leave()
    return found
