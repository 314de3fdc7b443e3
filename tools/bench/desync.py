"""The time to find, compare and explain a divergent tick near the end of a long tape, and the speed-up of two processes.

The other version of a small world differs in one element at one tick. Verification up to the finding is compared with
one run of the simulation without a recorder. The speed-up is that of a complete tape without a divergent tick.

    python tools/bench/desync.py [--ticks N] [--repeats N] [--json FILE] [--markdown FILE]

Times on shared machines are noisy: check the load that is printed with them, and compare the fastest ones.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from recorder import Recorder
from replayer import Tape
from replayer.diagnose.compare.tape_diff import diff_tapes
from replayer.timeline.verify import verify_tape

TICKS = 100_000
SPEED_UP_TICKS = 60_000
REPEATS = 3
SIMULATION = """
import numpy as np
from sim import Field, Schema, State

class Herd:
    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8", (2000,)), Field("words", "u8", (2000,))))
        self.state["words"][:] = np.arange(2000)

    def step(self, inputs):
        self.state["tick"][()] += 1
        words = self.state["words"]
        words[:] = words * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        moved = (words >> np.uint64(61)).astype("i8") - 3
        self.state["x"][:] += moved
"""
LINE, EDITED = 'self.state["x"][:] += moved', 'self.state["x"][:] += moved + (self.state["tick"] == {bad_tick})'


@attrs.frozen
class Measured:
    """The times of one operation.

    Attributes:
        name: name of the operation.
        wall_s, processor_s: medians; the processor time is that of all its processes.
        fastest_s: the shortest wall time.
    """

    name: str
    wall_s: float
    processor_s: float
    fastest_s: float


def processor_s() -> float:
    """Processor time used by this process and by those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(name: str, act: Callable[[], object], repeats: int) -> Measured:
    """Time a few calls."""
    walls, processors = [], []
    for _ in range(repeats):
        before, start_s = processor_s(), time.perf_counter()
        act()
        walls.append(time.perf_counter() - start_s)
        processors.append(processor_s() - before)
    return Measured(name, statistics.median(walls), statistics.median(processors), min(walls))


def record(path: Path, simulation: Any, ticks: int) -> Path:
    """Record a tape."""
    with Recorder(path, simulation, durability="none", sync="never") as recorder:
        for _ in range(ticks):
            recorder.step()
    return path


def simulate(simulation: Any, ticks: int) -> None:
    """Run the simulation without a recorder."""
    for _ in range(ticks):
        simulation.step(None)


def find(path: Path, factory: Callable[[], Any], jobs: int, bad_tick: int | None) -> None:
    """Verify a tape and check that the finding is correct."""
    assert verify_tape(path, factory, jobs=jobs).first_bad == bad_tick


def explain(folder: Path, bad_tick: int) -> None:
    """Run replay explain as a user does, against the other version of the code."""
    words = ["explain", "herd.tape", "--sim", "herd:Herd", "--code", "edited", "--tick", str(bad_tick)]
    finished = subprocess.run(
        [sys.executable, "-c", "import replayer.commands.main; replayer.commands.main.main()", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1, finished.stderr
    assert "differ in this line" in finished.stdout


def compare(one: Path, other: Path, bad_tick: int) -> None:
    """Compare two tapes by their frames."""
    with Tape(one) as first, Tape(other) as second:
        assert diff_tapes(first, second).first_bad == bad_tick


def measure_all(folder: Path, ticks: int, repeats: int) -> list[Measured]:
    """Run all measurements, in a folder for the tapes and both versions of the code."""
    bad_tick = ticks - ticks // 100
    (folder / "edited").mkdir()
    (folder / "herd.py").write_text(SIMULATION)
    (folder / "edited" / "herd.py").write_text(SIMULATION.replace(LINE, EDITED.format(bad_tick=bad_tick)))
    sys.path.insert(0, str(folder))
    herd = importlib.import_module("herd").Herd
    sys.path[0] = str(folder / "edited")
    del sys.modules["herd"]
    edited = importlib.import_module("herd").Herd
    del sys.path[0]
    tape, other = record(folder / "herd.tape", herd(), ticks), record(folder / "edited.tape", edited(), ticks)
    shorter = record(folder / "shorter.tape", herd(), SPEED_UP_TICKS)
    to_do: dict[str, Callable[[], object]] = {
        f"simulate {ticks:,} ticks once, without a recorder": lambda: simulate(herd(), ticks),
        f"verify up to the bad tick {bad_tick:,}, 1 process": lambda: find(tape, edited, 1, bad_tick),
        f"verify up to the bad tick {bad_tick:,}, 2 processes": lambda: find(tape, edited, 2, bad_tick),
        f"verify {SPEED_UP_TICKS:,} intact ticks, 1 process": lambda: find(shorter, herd, 1, None),
        f"verify {SPEED_UP_TICKS:,} intact ticks, 2 processes": lambda: find(shorter, herd, 2, None),
        "diff of the two tapes": lambda: compare(tape, other, bad_tick),
        "explain a known tick": lambda: explain(folder, bad_tick),
    }
    return [measure(name, act, repeats) for name, act in to_do.items()]


def main() -> None:
    """Measure and print; write the requested files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ticks", type=int, default=TICKS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        measured = measure_all(Path(folder), options.ticks, options.repeats)
    once, to_finding, one, two = (measured[index].fastest_s for index in (0, 1, 3, 4))
    facts = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processors": os.cpu_count(),
        "load_before": round(load, 1),
        "finding_against_simulating_once": round(to_finding / once, 2),
        "speed_up_on_two": round(one / two, 2),
    }
    rows = [["", "wall s, median", "fastest", "processor s"], ["---", "---:", "---:", "---:"]]
    rows += [[it.name, f"{it.wall_s:.2f}", f"{it.fastest_s:.2f}", f"{it.processor_s:.2f}"] for it in measured]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    print(table)
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    if options.json:
        figures = {**facts, "measured": [attrs.asdict(it) for it in measured]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
