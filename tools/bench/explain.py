"""The time of replay explain on a tape of 100,000 ticks, with a known divergent tick, as a user runs it.

The simulation has one np.exp. The other variant disables the processor's features.

Run it: python tools/bench/explain.py
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TICKS = 100_000
BAD_TICK = 90_001
REPEATS = 5
SIMULATION = f"""
import numpy as np
from sim import Field, Schema, State

class Herd:
    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("age", "f4", (200,)), Field("energy", "f4", (200,))))
        self.state["age"][:] = np.arange(200) / np.float32(7)

    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] >= {BAD_TICK}:
            self.state["energy"][:] += np.exp(self.state["age"] * np.float32(-0.37))
"""
RECORD = f"""
import recorder, herd
with recorder.Recorder("herd.tape", herd.Herd()) as tape:
    for tick in range({TICKS}):
        tape.step()
"""


def enabled_features() -> str:
    """The processor features that NumPy can disable."""
    core = getattr(np, "_core", None) or np.core
    known = core._multiarray_umath  # noqa: SLF001 - reported nowhere else as data
    return " ".join(name for name in known.__cpu_dispatch__ if known.__cpu_features__.get(name))


def main() -> None:
    """Record, explain a few times, print medians."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "herd.py").write_text(SIMULATION)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *filter(None, sys.path)])}
        subprocess.run([sys.executable, "-c", RECORD], cwd=folder, env=environment, check=True)
        switch = f"NPY_DISABLE_CPU_FEATURES={enabled_features()}"
        words = ["explain", "herd.tape", "--sim", "herd:Herd", "--tick", str(BAD_TICK), "--env", switch]
        walls, processors = [], []
        for _ in range(REPEATS):
            before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            finished = subprocess.run(
                [sys.executable, "-c", "import replayer.commands.main; replayer.commands.main.main()", *words],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            walls.append(time.perf_counter() - start_s)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processors.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        print(finished.stdout)
    print(
        f"{TICKS:,} ticks: {statistics.median(walls):.2f} s (fastest {min(walls):.2f} s), "
        f"{statistics.median(processors):.2f} s of processor time in three processes; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
