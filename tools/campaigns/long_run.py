"""Record a very long run and show that the recorder's memory does not grow with it (promise P15).

A tiny simulation is recorded for ten million ticks under tracemalloc. The peak of traced memory is measured ten times
during the run and must stay under the ceiling. Then the tape is opened and random ticks are sought, to show that
the cost of reading does not grow with the length either.

    python tools/campaigns/long_run.py [--ticks N] [--ceiling-mib N] [--split SIZE] [--seed N]

Exit code 1 if the ceiling was exceeded or a state was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from rich.console import Console
from rich.progress import track

import recorder
import replayer
from sim import Field, Schema, State

SAMPLES = 10
SEEKS = 20
KEYFRAME_INTERVAL = 1000


class Counter:
    """A simulation that sums its inputs."""

    marks_writes = True

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "i8"), Field("last", "i8", (16,))))

    def step(self, inputs: int) -> None:
        """Add inputs to the sum, and store them."""
        self.state["sum"][...] += inputs
        self.state["last"][inputs % 16] = inputs
        self.state.mark("sum")
        self.state.mark("last", inputs % 16)


def resident_mib() -> float:
    """Resident memory of this process, as the system counts it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def sum_at(tick: int) -> int:
    """Counter's sum at a tick if the inputs are the ticks modulo 1000."""
    cycles, rest = divmod(tick, 1000)
    return cycles * 499_500 + rest * (rest + 1) // 2


def record(path: Path, ticks: int, split: str | None, console: Console) -> list[tuple[int, float, float]]:
    """Record. Each sample is the tick, the peak of traced memory since the last sample, and resident memory, in MiB."""
    samples: list[tuple[int, float, float]] = []
    every = max(1, ticks // SAMPLES)
    tracemalloc.start()
    with recorder.Recorder(path, Counter(), keyframe_interval_ticks=KEYFRAME_INTERVAL, split=split) as tape:
        step = tape.step
        for tick in track(range(1, ticks + 1), "recording", console=console, transient=True, update_period=1.0):
            step(tick % 1000)
            if tick % every == 0:
                samples.append((tick, tracemalloc.get_traced_memory()[1] / (1 << 20), resident_mib()))
                tracemalloc.reset_peak()
    tracemalloc.stop()
    return samples


def check(path: Path, ticks: int, seed: int) -> tuple[float, float, bool]:
    """Milliseconds to open the tape, median milliseconds to seek a random tick, and True if all states were right."""
    numbers = random.Random(seed)
    start_s = time.perf_counter()
    with replayer.open(path, world=Counter) as run:
        open_ms = (time.perf_counter() - start_s) * 1e3
        times = []
        right = run.last_tick == ticks
        for tick in (numbers.randrange(ticks + 1) for _ in range(SEEKS)):
            times.append(run.seek(tick).milliseconds)
            right = right and int(run.state["sum"]) == sum_at(tick)
    return open_ms, sorted(times)[SEEKS // 2], right


def main() -> int:
    """Record, measure, check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=10_000_000)
    parser.add_argument("--ceiling-mib", type=float, default=16.0, help="limit of traced memory at any time")
    parser.add_argument("--split", help="begin a new file after this size, such as 100MB")
    parser.add_argument("--seed", type=int, default=1, help="seed of the ticks that are sought")
    options = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder) / "long.tape"
        start_s = time.perf_counter()
        samples = record(path, options.ticks, options.split, console)
        seconds = time.perf_counter() - start_s
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        files = len(list(Path(folder).iterdir()))
        open_ms, seek_ms, right = check(path, options.ticks, options.seed)
    for tick, peak, resident in samples:
        print(f"  tick {tick:>12,}: traced peak {peak:6.2f} MiB, resident {resident:7.1f} MiB")
    highest = max(peak for _, peak, _ in samples)
    under = highest <= options.ceiling_mib
    print(
        f"{options.ticks:,} ticks in {seconds:.0f} s with tracemalloc, {size / 1e6:.1f} MB in {files} files; "
        f"peak {highest:.2f} MiB, ceiling {options.ceiling_mib:g} MiB: {'kept' if under else 'PASSED'}"
    )
    print(
        f"opened in {open_ms:.1f} ms, a random tick in {seek_ms:.1f} ms, all states right: {right} (seed {options.seed})"
    )
    return 0 if under and right else 1


if __name__ == "__main__":
    sys.exit(main())
