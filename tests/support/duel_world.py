"""A small world with players and outcomes, and a folder that installs it for processes of the tests.

Two players add to their heaps. ``push`` adds three, ``lazy`` one every fifth tick, ``random`` a random number, ``idle``
nothing. The player with the larger heap at the end wins. A scenario may end a run when a heap is full, send the left player gifts,
make the step raise, kill its process, or wait until a file exists.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waiting import wait_until

from sim import Field, Schema, State
from sim.kernel.arithmetic.counter_rng import KeyedRandom
from sim.kernel.registry import Config, ConfigError, Origin, World

PLAYERS = ("left", "right")
GO_ON = "go-on"  # With this file in the folder of work, no step waits.
POLICIES = ("push", "lazy", "random", "idle")


class Duel:
    """Heaps grow by inputs [player, amount], and by one for a random player, by the seed."""

    def __init__(self, config: Config) -> None:
        known = {"world", "name", "seed", "ticks", "full", "gift_every", "raise_at", "kill_at", "stops_at", "outcome"}
        unknown = set(config) - known
        if unknown:
            raise ConfigError(min(unknown), "unknown key")
        self._config = dict(config)
        self.origin = Origin("duel", 1, self._config)
        self.state = State(Schema(Field("heaps", "i8", (2,)), Field("tick", "i8")))

    def step(self, inputs: Any) -> None:
        """Advance by one tick."""
        config, state = self._config, self.state
        tick = int(state["tick"]) + 1
        if tick == config.get("raise_at"):
            raise RuntimeError("the heap fell over")
        if tick == config.get("kill_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        if tick == config.get("stops_at"):
            wait_until(Path(GO_ON).exists)
        state["tick"][()] = tick
        lucky = int(KeyedRandom(config.get("seed", 0)).words(1, tick, [0])[0, 0]) & 1
        state["heaps"][lucky] += 1
        for player, amount in inputs or ():
            state["heaps"][player] += amount

    def ended(self) -> tuple[str, str] | None:
        """The reason for the end: a heap is full."""
        full = self._config.get("full")
        return ("full", "a heap is full") if full is not None and int(self.state["heaps"].max()) >= full else None


def _inputs(config: Config) -> Any:
    every = config.get("gift_every", 0)
    return lambda tick: [[0, 1]] if every and tick % every == 0 else []


def _play(config: Config, player: str, policy: str) -> Any:
    if player not in PLAYERS or policy not in POLICIES:
        raise ConfigError(
            "",
            f"expected one of {', '.join(PLAYERS)} with one of {', '.join(POLICIES)}, got {player!r} with {policy!r}",
        )
    index = PLAYERS.index(player)

    def inputs_at(tick: int, _: State) -> list[Any]:
        if policy == "push":
            return [[index, 3]]
        if policy == "lazy":
            return [[index, 1]] if tick % 5 == 0 else []
        if policy == "random":
            draw = int(KeyedRandom(config.get("seed", 0)).words(2 + index, tick, [0])[0, 0]) & 3
            return [[index, draw]] if draw else []
        return []

    return inputs_at


def _outcome(config: Config, state: Any) -> Mapping[str, float]:
    heaps = state["heaps"].tolist()
    return {} if config.get("outcome") == "none" else dict(zip(PLAYERS, map(float, heaps), strict=True))


WORLD = World(
    name="duel",
    version=1,
    make=Duel,
    inputs=_inputs,
    summarize=lambda _, snapshot: {"heaps": str(snapshot["heaps"].tolist())},
    play=_play,
    agents=lambda _: PLAYERS,
    outcome=_outcome,
)

SCENARIO = 'world = "duel"\nname = "heaps"\nseed = 3\nticks = 40\n'


def install(folder: Path) -> Path:
    """Make a folder that installs this world when it is on the path of modules, and return it."""
    described = folder / "duel-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: duel\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[sim.worlds]\nduel = duel_world:WORLD\n")
    return folder
