"""Kill processes while they record, at random times, and count acknowledged ticks that are lost (promise P10).

Each run records a random simulation with random settings in a separate process. The process reports through a pipe for
which ticks ``step`` has returned. It is killed by the signal that cannot be caught, and its tape is read. Half of the runs
are resumed and killed up to three times more. At the end each tape is resumed once more, and all of its hashes are
compared with those of a run without recorder and kills.

    python tools/campaigns/kill_runs.py [--runs N] [--seed N] [--durability tick|block|none]

Exit code 1 if a state was wrong, a tape was called corrupt, or, with durability "tick", an acknowledged tick was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from rich.console import Console
from rich.progress import track

import recorder
from replayer import Tape
from sim import Field, RandomStream, Schema, State, Table
from sim.kernel.simulation import Simulation, as_simulation
from sim.scenario.scenario_file import load_scenario

TICK_BYTES = 8
START_TIMEOUT_S = 60.0
KILL_AFTER_S = 0.4  # At most, from the first acknowledged tick on; ticks take 20 µs to some milliseconds.
AT_ONCE = 0.2  # The share of kills that come as soon as there is a file, during its creation.
DEATHS_MAX = 4

Inputs = Callable[[int], Any]


class Walkers:
    """Random walkers, pushed by their inputs; writes without marking."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (500,)), Field("y", "i8", (500,)), Field("rng", "u8", (4,))))
        RandomStream.seed(self.state["rng"], 1)

    def step(self, inputs: list[int]) -> None:
        """Move all walkers; push one."""
        draws = RandomStream(self.state["rng"])
        for name in ("x", "y"):
            self.state[name][:] += draws.integers(-1, 2, 500)
        self.state["x"][inputs[0]] += inputs[1]


class Herd:
    """A table that grows and shrinks; marks every write."""

    marks_writes = True

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Table("animals", Field("age", "i4"), capacity=2)))

    def step(self, inputs: list[int]) -> None:
        """Age the animals, add some, and remove many if there are too many."""
        state = self.state
        state.set("tick", 0, int(state["tick"]) + 1)
        state.add_rows("animals", inputs[0] % 7)
        state.set("animals.age", slice(None), state["animals.age"] + 1)
        if state.count("animals") > 400:
            state.truncate_rows("animals", inputs[1] % 12)


class Saved:
    """A simulation in the save/load form: a total and a blob whose length changes."""

    def __init__(self) -> None:
        self.total, self.trail = 0, b""

    def step(self, inputs: list[int]) -> None:
        """Add to the total and to the trail."""
        self.total += inputs[1]
        self.trail = (self.trail + bytes([inputs[0] % 256]))[-(self.total % 300) or None :]

    def save(self) -> dict[str, Any]:
        """Return the complete state."""
        return {"total": np.int64(self.total), "trail": self.trail}

    def load(self, saved: dict[str, Any]) -> None:
        """Replace the complete state."""
        self.total, self.trail = int(saved["total"]), saved["trail"]


def simulation_of(name: str) -> tuple[Any, Inputs]:
    """Make a fresh simulation and its inputs by tick; both are the same in each process."""
    if name == "meadow":
        scenario = load_scenario("quiet-meadow")
        return scenario.world.make(scenario.config), scenario.world.inputs(scenario.config)
    made = {"walkers": Walkers, "herd": Herd, "saved": Saved}[name]()
    return made, lambda tick: [tick * 31 % 500, tick % 13]


class Truth:
    """The hashes of runs without a recorder, computed up to the last requested tick."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[Simulation, Inputs, list[int]]] = {}

    def hashes(self, name: str, last_tick: int) -> list[int]:
        """Return the hashes by tick, from 0 on."""
        if name not in self._runs:
            made, inputs_at = simulation_of(name)
            simulation = as_simulation(made)
            self._runs[name] = (simulation, inputs_at, [simulation.state.hash()])
        simulation, inputs_at, hashes = self._runs[name]
        while len(hashes) <= last_tick:
            simulation.step(inputs_at(len(hashes)))
            hashes.append(simulation.state.hash())
        return hashes


@attrs.define
class Counts:
    """The results of all kills.

    Attributes:
        kills: processes killed.
        empty: processes killed before their first keyframe and before their first acknowledged tick.
        acknowledged, recovered: acknowledged ticks over all kills, and how many of them could be read.
        worst: most ticks lost by one kill.
        from_journal: ticks that were only in the journal.
        torn: tapes with a half-written tail.
        wrong: descriptions of broken promises.
    """

    kills: int = 0
    empty: int = 0
    acknowledged: int = 0
    recovered: int = 0
    worst: int = 0
    from_journal: int = 0
    torn: int = 0
    wrong: list[str] = attrs.field(factory=list)

    def add(self, path: Path, before: int, acknowledged: int, label: str) -> bool:
        """Read the tape of a killed process. Return True if it can be resumed. before: its last tick when it began."""
        self.kills += 1
        new_ticks = max(0, acknowledged - before)
        self.acknowledged += new_ticks
        try:
            with Tape(path) as tape:
                last_tick = tape.last_tick
                self.from_journal += tape.journal_ticks
                self.torn += bool(tape.damages)
                if tape.status != "incomplete" or tape.missing_ticks():
                    self.wrong.append(f"{label}: {tape.status}, {tape.damages}, missing {tape.missing_ticks()}")
        except (FileNotFoundError, recorder.RecordingError) as error:
            if not isinstance(error, FileNotFoundError | recorder.UnreadableError | recorder.MissingTickError):
                self.wrong.append(f"{label}: {error}")
            self.empty += not new_ticks
            self.worst = max(self.worst, new_ticks)
            return False
        lost = min(new_ticks, max(0, acknowledged - last_tick))
        self.recovered += new_ticks - lost
        self.worst = max(self.worst, lost)
        return True


def random_settings(chance: random.Random, durability: str) -> dict[str, Any]:
    """Arguments for a Recorder."""
    settings: dict[str, Any] = {
        "durability": durability,
        "keyframe_interval_ticks": chance.choice([3, 20, 300]),
        "full_every": chance.choice([1, 3, 10]),
        "on_error": chance.choice(["continue", "raise"]),
    }
    if durability != "none":
        settings["sync"] = chance.choice(["1s", "0.05s", "block", "never"])
    settings |= chance.choice([{}, {}, {"split": 30_000}, {"keep": 200}, {"keep": "0.2s"}])
    return settings


def record_until_killed(path: Path, name: str, settings: dict[str, Any]) -> None:
    """The main function of a process that is killed: record or resume, and acknowledge each tick."""
    made, inputs_at = simulation_of(name)
    tape = recorder.resume(path, made) if path.exists() else recorder.Recorder(path, made, **settings)
    while True:
        tick = tape.tick + 1
        tape.step(inputs_at(tick))
        os.write(1, tick.to_bytes(TICK_BYTES, "little"))


def run_and_kill(path: Path, name: str, settings: dict[str, Any], chance: random.Random) -> int:
    """Start such a process and kill it. Return the last acknowledged tick, 0 if there was none."""
    command = [sys.executable, __file__, "--record", str(path), name, json.dumps(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    pipe, received = process.stdout.fileno(), b""
    at_once, seconds = chance.random() < AT_ONCE and not path.exists(), chance.uniform(0, KILL_AFTER_S)
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if at_once and path.exists():
            deadline = time.monotonic() + seconds / 100
            at_once = False
        if select.select([pipe], [], [], 0.001)[0]:
            piece = os.read(pipe, 1 << 16)
            if not piece:
                raise RuntimeError(f"the recording of {name} ended before its kill: {settings}")
            if not received and not at_once:
                deadline = min(deadline, time.monotonic() + seconds)
            received = (received + piece)[-(1 << 17) :]
    process.send_signal(signal.SIGKILL)
    received += process.stdout.read()  # The content of the pipe was acknowledged before the kill.
    process.stdout.close()
    process.wait()
    # A write of so few bytes into a pipe is atomic.
    return int.from_bytes(received[-TICK_BYTES:], "little")


def finish(path: Path, name: str, truth: Truth, label: str) -> list[str]:
    """Resume the tape once more, seal it, compare all hashes. Return what is wrong."""
    made, inputs_at = simulation_of(name)
    with recorder.resume(path, made) as tape:
        for _ in range(5):
            tape.step(inputs_at(tape.tick + 1))
    with Tape(path) as sealed:
        first, last = sealed.first_tick, sealed.last_tick
        hashes = truth.hashes(name, last)
        wrong = [tick for tick in range(first + 1, last + 1) if sealed.frame(tick).state_hash != hashes[tick]]
        problems = [str(problem) for problem in sealed.check_blocks()]
        if wrong or problems or sealed.status != "intact":
            return [f"{label}: {sealed.status}, wrong hashes at {wrong[:5]}, {problems[:5]}"]
    return []


def campaign(runs: int, seed: int, durability: str, console: Console) -> Counts:
    """Do all runs."""
    counts, truth = Counts(), Truth()
    for number in track(range(runs), "killing", console=console, transient=True):
        chance = random.Random(f"{seed} {number}")
        name = chance.choice(["meadow", "walkers", "herd", "saved"])
        settings = random_settings(chance, durability)
        label = f"run {number} of seed {seed}: {name}, {settings}"
        deaths = chance.randint(2, DEATHS_MAX) if chance.random() < 0.5 else 1
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            path = Path(folder) / "run.tape"
            before, can_resume = 0, True
            for _ in range(deaths):
                acknowledged = run_and_kill(path, name, settings, chance)
                can_resume = counts.add(path, before, acknowledged, label)
                if not can_resume:
                    break
                with Tape(path) as tape:
                    before = tape.last_tick
            if can_resume:
                counts.wrong += finish(path, name, truth, label)
    return counts


def main() -> int:
    """Kill, count, print; return the exit code."""
    if sys.argv[1:2] == ["--record"]:
        record_until_killed(Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--durability", choices=["tick", "block", "none"], default="tick")
    options = parser.parse_args()
    start_s = time.monotonic()
    counts = campaign(options.runs, options.seed, options.durability, Console(stderr=True))
    lost = counts.acknowledged - counts.recovered
    for line in counts.wrong:
        print(f"  WRONG: {line}")
    print(
        f"durability {options.durability}: {options.runs} runs, {counts.kills} kills in {time.monotonic() - start_s:.0f} s; "
        f"{counts.acknowledged:,} ticks acknowledged, {counts.recovered:,} recovered, {lost:,} lost "
        f"(at most {counts.worst:,} by one kill); {counts.from_journal:,} came from the journal, {counts.torn} tapes "
        f"were torn, {counts.empty} killed before their first keyframe; wrong: {len(counts.wrong)} (seed {options.seed})"
    )
    return 1 if counts.wrong or (lost and options.durability == "tick") else 0


if __name__ == "__main__":
    sys.exit(main())
