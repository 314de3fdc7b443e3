"""Measure the memory of recording a large state: the peak of resident memory beyond the simulation's own, in states.

A state has two large fields, of floating-point numbers and of integers. A part of the integers, or of both, changes in each
tick, and a keyframe is due every ten ticks. Each way is a process of its own.

    python tools/bench/memory.py [--quick] [--megabytes N] [--ticks N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import turns
from tables import print_table

import recorder
from sim import Field, Schema, State

INTERVAL_TICKS = 10
TICKS = 10 * INTERVAL_TICKS + 5
STATES_MAX = 3  # The aim.
SHARES = [
    (0.01, False),
    (0.2, False),
    (0.5, False),
    (0.5, True),
    (1.0, True),
]  # Of the integers alone, or of both fields.
WAYS = [
    (mode, changes, *share)
    for mode in ("events", "changes")
    for changes in ("marks", "scan", "auto")
    for share in SHARES
]
MARKED_ROWS = 1 << 20  # Marked at a time: the simulation's own arrays are to be small.

Row = dict[str, Any]


class Counters:
    """Two fields of 8-byte numbers; each step adds to every n-th number of the second or of both, with another start."""

    def __init__(self, size_bytes: int, share: float, *, both: bool, marks: bool) -> None:
        """size_bytes: of the state. share: of a field's numbers, changed in a step. both: change both fields."""
        count = size_bytes // 16
        self.state = State(Schema(Field("still", "f8", (count,)), Field("counted", "i8", (count,))))
        self.state["still"][:] = np.random.default_rng(1).random(count)
        self.state["counted"][:] = np.arange(count)
        self.changed = {"counted": 1, "still": 0.1} if both else {"counted": 1}
        self.step_rows = round(1 / share)
        self.marks_writes = marks
        self.tick = 0

    def step(self, _: Any) -> None:
        """Count."""
        first = self.tick * 7 % self.step_rows
        self.tick += 1
        for name, increase in self.changed.items():
            numbers = self.state[name]
            numbers[first :: self.step_rows] += increase
            for begin in range(first, len(numbers) if self.marks_writes else 0, MARKED_ROWS * self.step_rows):
                end = min(begin + MARKED_ROWS * self.step_rows, len(numbers))
                self.state.mark(name, np.arange(begin, end, self.step_rows))


def begin(path: Path, world: Counters, mode: Any, changes: Any) -> recorder.Recorder:
    """Begin to record."""
    return recorder.Recorder(
        path, world, mode=mode, changes=changes, keyframe_interval_ticks=INTERVAL_TICKS, trial_ms=0
    )


def measure(size_bytes: int, ticks: int, mode: str, changes: str, share: float, both: bool) -> Row:  # noqa: FBT001
    """Record in this process, and read its memory at three moments."""
    with tempfile.TemporaryDirectory() as folder:
        small = Counters(10_000, share, both=both, marks=changes == "marks")
        with begin(Path(folder) / "small.tape", small, mode, changes) as tape:  # Imports what recording needs.
            for _ in range(2 * INTERVAL_TICKS):
                tape.step(None)
        world = Counters(size_bytes, share, both=both, marks=changes == "marks")
        world.step(None)
        before = turns.rss_bytes()
        tape = begin(Path(folder) / "run.tape", world, mode, changes)
        begun = turns.rss_bytes()
        Path("/proc/self/clear_refs").write_text("5")  # The peak is that of the steps.
        for _ in range(ticks):
            tape.step(None)
        most = turns.rss_bytes("VmHWM")
        Path("/proc/self/clear_refs").write_text("5")
        tape.close()
        closing = turns.rss_bytes("VmHWM")
        after = turns.rss_bytes()
    return {
        "mode": mode,
        "changes found by": changes,
        "change": f"{share:.0%} of " + ("the state" if both else "one field"),
        "after the start": (begun - before) / size_bytes,
        "while it steps": (most - before) / size_bytes,
        "while it closes": (closing - before) / size_bytes,
        "after close": (after - before) / size_bytes,
    }


def measure_apart(size_bytes: int, ticks: int, *way: Any) -> Row:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--one", json.dumps([size_bytes, ticks, *way])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # type: ignore[no-any-return]


def main() -> None:
    """Measure all ways, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="size of the state")
    parser.add_argument("--quick", action="store_true", help="a state of 50 MB")
    parser.add_argument("--ticks", type=int, default=TICKS, help="ticks of each recording")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*json.loads(options.one))))
        return
    size_bytes = (50 if options.quick else options.megabytes) * 1_000_000
    rows = [measure_apart(size_bytes, options.ticks, *way) for way in WAYS]
    print_table(f"memory beyond the simulation's own, in states of {size_bytes / 1e6:.0f} MB; aim: {STATES_MAX}", rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
