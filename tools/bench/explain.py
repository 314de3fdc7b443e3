"""The time of replay explain with a known divergent tick, as a user runs it, in three cases.

One np.exp among 100,000 ticks, where the other variant disables the processor's features; a step that no variant gives as
recorded, so that environments and hidden state are tested as well; and a loop over 500 objects.

Run it: python tools/bench/explain.py
"""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs
import numpy as np

REPEATS = 5
HERD = """
import numpy as np
from sim import Field, Schema, State

class Herd:
    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("age", "f4", (200,)), Field("energy", "f4", (200,))))
        self.state["age"][:] = np.arange(200) / np.float32(7)

    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] >= 90_001:
            self.state["energy"][:] += np.exp(self.state["age"] * np.float32(-0.37))

class Edited(Herd):
    def step(self, inputs):
        super().step(inputs)
        self.state["age"][5] += self.state["tick"] == 90_001
"""
ARMY = """
class Unit:
    def __init__(self, name):
        self.name, self.hp, self.place, self.target = name, 70.0, [0, 0], None

class Army:
    orders = 0

    def __init__(self):
        self.units = [Unit(f"unit {number}") for number in range(500)]
        for number, unit in enumerate(self.units):
            unit.target = self.units[-number]

    def step(self, inputs):
        for unit in self.units:
            unit.place[0] += 1
            unit.target.hp -= 0.5
        Army.orders += 1
        self.units[14].hp += Army.orders
"""
RECORD_HERD = """
import recorder, herd
with recorder.Recorder("herd.tape", herd.Herd(), trial_ms=0) as tape:
    for tick in range(100_000):
        tape.step()
"""
RECORD_ARMY = """
import recorder, army
with recorder.record(army.Army(), "army.tape", keyframe_interval_ticks=10, trial_ms=0, quiet=True) as run:
    for tick in range(30):
        run.step(None)
"""


@attrs.frozen
class Case:
    """A tape to explain.

    Attributes:
        name: for the table.
        words: of the command.
    """

    name: str
    words: list[str]


def enabled_features() -> str:
    """The processor features that NumPy can disable."""
    core = getattr(np, "_core", None) or np.core
    known = core._multiarray_umath  # noqa: SLF001 - reported nowhere else as data
    return " ".join(name for name in known.__cpu_dispatch__ if known.__cpu_features__.get(name))


def measure(case: Case, folder: str, environment: dict[str, str]) -> None:
    """Explain a few times, print the output and medians."""
    walls, processors = [], []
    for _ in range(REPEATS):
        before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        finished = subprocess.run(
            [sys.executable, "-c", "import replayer.commands.main; replayer.commands.main.main()", *case.words],
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
        f"{case.name}: {statistics.median(walls):.2f} s (fastest {min(walls):.2f} s), "
        f"{statistics.median(processors):.2f} s of processor time in all processes; load {os.getloadavg()[0]:.1f}\n"
    )


def main() -> None:
    """Record both tapes, and measure each case."""
    compileall.compile_dir(Path(__file__).parents[2] / "src", quiet=1)  # As an installed package has it.
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *filter(None, sys.path)])}
        for name, source, record in (("herd", HERD, RECORD_HERD), ("army", ARMY, RECORD_ARMY)):
            (Path(folder) / f"{name}.py").write_text(source)
            subprocess.run([sys.executable, "-c", record], cwd=folder, env=environment, check=True)
        switch = f"NPY_DISABLE_CPU_FEATURES={enabled_features()}"
        herd = ["explain", "herd.tape", "--tick", "90001", "--sim"]
        for case in (
            Case("np.exp at tick 90,001 of 100,000", [*herd, "herd:Herd", "--env", switch]),
            Case("no line is the cause", [*herd, "herd:Edited"]),
            Case("a loop over 500 objects", ["explain", "army.tape", "--tick", "11", "--sim", "army:Army"]),
        ):
            measure(case, folder, environment)


if __name__ == "__main__":
    main()
