"""What stays of the memory of a recording after its end, measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from project_paths import SUPPORT

RUNS = 10  # All of them keep a state once in some ten thousand times.
MEASURE = """
import ctypes, json, re, sys
from pathlib import Path
import numpy as np
from recorder import Recorder
from sim import Field, Schema, State

try:
    ctypes.CDLL(None).malloc_trim
except AttributeError:
    print("null")
    sys.exit()


def own_bytes():
    return 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])


class Noise:
    def __init__(self, count):
        self.state = State(Schema(Field("noise", "i8", (count,))))
        self.random = np.random.default_rng(1)
        self.state["noise"][:] = self.random.integers(1 << 60, size=count)

    def step(self, inputs):
        rows = self.random.integers(len(self.state["noise"]), size=1000)
        self.state["noise"][rows] += 1


def record(world, name):
    with Recorder(Path(sys.argv[1]) / name, world, keyframe_interval_ticks=5, trial_ms=0) as tape:
        for _ in range(40):
            tape.step(None)


record(Noise(1000), "small.tape")  # Imports what recording needs.
world = Noise(1 << 20)
world.step(None)
before = own_bytes()
record(world, "large.tape")
print(json.dumps((own_bytes() - before) / len(world.state.arena)))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_less_than_half_a_state_can_stay_after_close(tmp_path: Path) -> None:
    """The C library keeps freed memory of this size for the process, unless it is asked to give it back.

    One state stays in about a third of the runs, and without the question in all of them.
    """
    for run in range(RUNS):
        (tmp_path / str(run)).mkdir()
        command = [sys.executable, "-c", MEASURE, str(tmp_path / str(run))]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=SUPPORT).stdout
        states = json.loads(printed)
        if states is None:
            pytest.skip("the C library has no malloc_trim")
        if states < 0.5:
            return
    pytest.fail(f"{states} states stayed in each of {RUNS} runs")
