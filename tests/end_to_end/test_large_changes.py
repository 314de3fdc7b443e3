"""Recordings of large states, where much changes in each tick: the states of the live run, and bounded memory.

What is large is made small here, but for the test of memory, which has a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim import Field, Schema, State

TICKS = 40
STATES_MAX = 3.5  # Of the memory beyond the simulation's; buffers of a fixed size are half a state of this size.


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all states and changes be large."""
    monkeypatch.setattr("sim.kernel.changes.tick_changes.MANY_WORDS", 200)
    monkeypatch.setattr("sim.kernel.changes.many_changes.CHUNK_WORDS", 256)
    monkeypatch.setattr("recorder.session.keyframe_policy.LARGE_STATE_BYTES", 1)
    monkeypatch.setattr("recorder.writer.keyframe_encoder.LARGE_PAYLOAD_BYTES", 1)
    monkeypatch.setattr("recorder.writer.handoff_queue.WAITING_BYTES_MAX", 2000)
    monkeypatch.setattr("recorder.writer.handoff_queue.KEYFRAME_BYTES_MAX", 2000)


class Changing:
    """Five fields; the inputs are a seed, and the share that a step changes."""

    def __init__(self, *, marks: bool = False) -> None:
        self.state = State(
            Schema(
                Field("whole", "i8", (1000,)),
                Field("real", "f8", (700,)),
                Field("short", "u2", (333,)),
                Field("pairs", "f4", (150, 2), row_axes=1),
                Field("flags", "u1", (500,)),
            )
        )
        self.marks_writes = marks

    def step(self, inputs: list[Any]) -> None:
        """Write random values into a share of the rows; mark them as they come."""
        seed, share = inputs
        chance = np.random.default_rng(seed)
        for name in self.state.layout.slots:
            if name.startswith("#"):
                continue
            field = self.state[name]
            rows = np.flatnonzero(chance.random(len(field)) < share)
            field[rows] = chance.integers(0, 200, field[rows].shape)
            mixed = chance.permutation(rows)
            if self.marks_writes:
                self.state.mark(name, [None, rows, mixed][seed % 3])


def live_states(shares: list[float]) -> list[bytes]:
    """The states of a run that is not recorded."""
    simulation = Changing()
    states = [simulation.state.arena.tobytes()]
    for inputs in enumerate(shares):
        simulation.step(list(inputs))
        states.append(simulation.state.arena.tobytes())
    return states


SHARES = {
    "few": [0.02] * TICKS,
    "half": [0.5] * TICKS,
    "all": [1.0] * TICKS,
    "in turns": [0.01, 1.0, 0.01, 0.3, 0.0, 0.7, 0.01, 0.1] * (TICKS // 8),
}


WAYS: list[tuple[Any, dict[str, Any]]] = [
    *[
        (changes, options)
        for changes in ("marks", "scan", "auto")
        for options in ({"deterministic": True}, {"sync": "never"})
    ],
    ("marks", {"hashes": "changes"}),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("changes", "options"), WAYS, ids=str)
@pytest.mark.usefixtures("small_limits")
def test_every_tick_is_that_of_the_live_run(tmp_path: Path, changes: Any, options: Any, share: str) -> None:
    """Each state, reached by changes and by steps, equals that of a loop without a recorder."""
    shares = SHARES[share]
    live = live_states(shares)
    path = tmp_path / "run.tape"
    simulation = Changing(marks=changes == "marks")
    with recorder.Recorder(
        path,
        simulation,
        mode="changes",
        changes=changes,
        keyframe_interval_ticks=5,
        full_every=3,
        trial_ms=0,
        **options,
    ) as tape:
        for inputs in enumerate(shares):
            tape.step(list(inputs))
        assert not tape.statistics().writer.dropped
    run = replayer.open(path)  # Without the simulation: by changes alone.
    assert [run.at(tick).arena.tobytes() for tick in range(TICKS + 1)] == live
    report = replayer.open(path, world=lambda: Changing(marks=changes == "marks")).verify(jobs=1)
    assert (report.ok, report.first_bad) == (True, None)


RECORD = """
import pathlib, resource, sys
import numpy as np
import recorder
from sim import Field, Schema, State

BYTES = 96_000_000
MODE, CHANGES, PATH = sys.argv[1:]


class Halves:
    marks_writes = CHANGES == "marks"

    def __init__(self, size):
        self.state = State(Schema(Field("real", "f8", (size // 16,)), Field("whole", "i8", (size // 16,))))

    def step(self, _):
        for name in ("real", "whole"):
            self.state[name][::2] += 1
            for begin in range(0, len(self.state[name]), 1 << 20):
                end = min(begin + (1 << 20), len(self.state[name]))
                self.state.mark(name, np.arange(begin, end, 2))


def record(path, size, ticks):
    world = Halves(size)
    world.step(None)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with recorder.Recorder(path, world, mode=MODE, changes=CHANGES, keyframe_interval_ticks=4, trial_ms=0) as tape:
        for _ in range(ticks):
            tape.step(None)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


record(PATH + ".small", 100_000, 9)  # Imports what recording needs.
print(1024 * record(PATH, BYTES, 9) / BYTES)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("changes", ["marks", "scan"])
@pytest.mark.parametrize("mode", ["changes", "events"])
def test_the_memory_of_a_recording_is_bounded(tmp_path: Path, mode: str, changes: str) -> None:
    """A recording takes a few states of memory, also where half of the state changes in each tick."""
    command = [sys.executable, "-c", RECORD, mode, changes, str(tmp_path / "run.tape")]
    states = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert states < STATES_MAX
