"""A thousand forks of ten steps each, against copy.deepcopy of the bare object, which no recorder has.

    python tools/bench/forks.py [--quick] [--only CartPole] [--json figures.json]

Three kinds: arrays in a State (the bare object holds the same arrays in attributes), a Gymnasium environment by its
adapter, and a game of 200 plain objects. The ways take turns, fork by fork, in one process; processor time is measured.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import recorder
import replayer
from sim import Field, Schema, State

STEPS, AT = 10, 10
FORKS, QUICK = 1000, 20


class Bodies:
    """32 kB in a State, of which a step changes a tenth."""

    def __init__(self) -> None:
        fields = Field("x", "f8", (500,)), Field("y", "f8", (500,)), Field("v", "f8", (500, 6)), Field("tick", "i8")
        self.state = State(Schema(*fields))

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it has no inputs
        """Make a step."""
        state, tick = self.state, int(self.state["tick"])
        rows = (np.arange(50) * 7 + tick) % 500
        state["x"][rows] += 1.0
        state["tick"][...] = tick + 1


class BareBodies:
    """The same in attributes."""

    def __init__(self) -> None:
        self.x, self.y, self.v, self.tick = np.zeros(500), np.zeros(500), np.zeros((500, 6)), 0

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it has no inputs
        """Make a step."""
        rows = (np.arange(50) * 7 + self.tick) % 500
        self.x[rows] += 1.0
        self.tick += 1


class Unit:
    """A member of the game."""

    def __init__(self, number: int) -> None:
        self.hp, self.x, self.y, self.name, self.items = 100, number, 0, f"unit {number}", ["bow", "rope"]


class Game:
    """200 objects and a random generator."""

    def __init__(self) -> None:
        self.units = [Unit(number) for number in range(200)]
        self.rng, self.turn = random.Random(1), 0

    def step(self, order: Any = None) -> None:  # noqa: ARG002 - it has none
        """Make a step."""
        self.turn += 1
        for unit in self.rng.sample(self.units, 20):
            unit.hp -= 1
            unit.x += self.rng.randrange(3) - 1


@attrs.frozen
class Kind:
    """A kind of simulation.

    Attributes:
        name: for the table.
        record: records a run of it into a tape.
        world: its factory for the tape.
        bare: makes the object that is copied, at tick AT; from the subject of the run there.
        inputs: of each step.
    """

    name: str
    record: Callable[[Path], None]
    world: Callable[[], Any] | None
    bare: Callable[[Any], Any]
    inputs: Any = None


def record_bodies(path: Path) -> None:
    """Record them."""
    with recorder.Recorder(path, Bodies(), trial_ms=0) as tape:
        for _ in range(2 * AT):
            tape.step()


def bare_bodies(_: Any) -> BareBodies:
    """The same arrays at tick AT."""
    bodies = BareBodies()
    for _ in range(AT):
        bodies.step(None)
    return bodies


def record_game(path: Path) -> None:
    """Record it."""
    game = recorder.record(Game(), path, trial_ms=0, quiet=True)
    with recorder.tape_of(game):
        for _ in range(2 * AT):
            game.step()


def record_pole(path: Path) -> None:
    """Record an episode."""
    import gymnasium  # noqa: PLC0415 - only for this kind

    env = recorder.record(gymnasium.make("CartPole-v1"), path, trial_ms=0, quiet=True)
    env.reset(seed=3)
    for number in range(2 * AT):
        env.step(number % 2)
    env.close()


KINDS = (
    Kind("State", record_bodies, Bodies, bare_bodies),
    Kind("CartPole", record_pole, None, lambda subject: subject, 1),
    Kind("objects", record_game, Game, lambda subject: subject),
)


def measured(action: Callable[[], None]) -> float:
    """Processor time in microseconds."""
    start_ns = time.process_time_ns()
    action()
    return (time.process_time_ns() - start_ns) / 1e3


def compare(kind: Kind, forks: int, folder: Path) -> dict[str, Any]:
    """Fork and copy in turns; the mean and the median of each, and the ratio of the sums."""
    path = folder / f"{kind.name}.tape"
    kind.record(path)
    costs: dict[str, list[float]] = {"fork": [], "fork and steps": [], "deepcopy": [], "deepcopy and steps": []}
    with replayer.open(path, kind.world) as run:
        run.seek(AT)
        bare = kind.bare(run.subject)

        def fork(steps: int) -> None:
            with run.fork() as one:
                for _ in range(steps):
                    one.step(kind.inputs)

        def copied(steps: int) -> None:
            one = copy.deepcopy(bare)
            for _ in range(steps):
                one.step(kind.inputs)

        for way in (fork, copied):
            way(STEPS)  # Not measured: the first fork makes its simulation.
        for _ in range(forks):
            costs["fork and steps"].append(measured(lambda: fork(STEPS)))
            costs["deepcopy and steps"].append(measured(lambda: copied(STEPS)))
            costs["fork"].append(measured(lambda: fork(0)))
            costs["deepcopy"].append(measured(lambda: copied(0)))
    figures: dict[str, Any] = {"kind": kind.name, "forks": forks, "steps": STEPS}
    figures |= {f"{name}, µs": round(statistics.median(values), 1) for name, values in costs.items()}
    return figures | {"ratio": round(sum(costs["fork and steps"]) / sum(costs["deepcopy and steps"]), 2)}


def main() -> None:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} forks instead of {FORKS:,}")
    parser.add_argument("--only", choices=[kind.name for kind in KINDS], help="one kind")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            if arguments.only in (None, kind.name):
                rows.append(compare(kind, QUICK if arguments.quick else FORKS, Path(folder)))
                print("  ".join(f"{name} {value}" for name, value in rows[-1].items()))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"figures": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
