"""Measure what recording costs the simulation's thread, what it writes, and how fast a tick is reached.

Prints a table for the workloads S and M with other ways of keeping the same data beside it, measured in the same run,
and writes JSON with machine and versions. Times on shared machines are noisy: compare within one table only.

    python tools/bench/record_and_seek.py [--json FILE] [--ticks N]
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import lz4.frame
import msgpack
import numpy as np
import workloads
import xxhash
from rich.console import Console
from rich.table import Table

import recorder
import replayer

KEYFRAME_INTERVAL = 300
TICKS = {"S": 6001, "M": 3001}
SEEKS = 60

Step = Callable[[list[list[int]], int], None]


@attrs.frozen
class Measured:
    """What one way of recording cost, in microseconds on the simulation's thread beyond its own step."""

    name: str
    tick_us: list[float]
    keyframe_us: list[float]
    size_bytes: int


class Timed:
    """A simulation whose own time is known after each step, so that the rest can be told from it."""

    def __init__(self, inner: workloads.Entities) -> None:
        self.inner = inner
        self.state = inner.state
        self.marks_writes = inner.marks_writes
        self.step_ns = 0

    def step(self, inputs: Any) -> None:
        """Step and keep the time."""
        start = time.perf_counter_ns()
        self.inner.step(inputs)
        self.step_ns = time.perf_counter_ns() - start


def measure(name: str, make: Callable[[Timed], tuple[Step, Callable[[], int]]], workload: str, marks: bool) -> Measured:  # noqa: FBT001
    """Run a workload with one way of recording. make: gives the step to call and, at the end, the size written."""
    timed = Timed(workloads.Entities(workload, marks_writes=marks))
    step, finish = make(timed)
    random = np.random.Generator(np.random.PCG64(7))
    given = [workloads.orders(random) for _ in range(500)]
    tick_us: list[float] = []
    keyframe_us: list[float] = []
    for tick in range(1, TICKS[workload] + 1):
        start = time.perf_counter_ns()
        step(given[tick % 500], tick)
        rest_us = (time.perf_counter_ns() - start - timed.step_ns) / 1e3
        (tick_us if tick % KEYFRAME_INTERVAL else keyframe_us).append(rest_us)
    return Measured(name, tick_us, keyframe_us, finish())


def ours(path: Path) -> Callable[[Timed], tuple[Step, Callable[[], int]]]:
    """This recorder with its defaults."""

    def make(timed: Timed) -> tuple[Step, Callable[[], int]]:
        tape = recorder.Recorder(path, timed, keyframe_interval_ticks=KEYFRAME_INTERVAL)

        def finish() -> int:
            tape.close()
            return path.stat().st_size

        return lambda inputs, _: tape.step(inputs), finish

    return make


def in_memory(_: Path) -> Callable[[Timed], tuple[Step, Callable[[], int]]]:
    """Hash, msgpack and a store into memory each tick, one memcpy at a keyframe: next to nothing kept."""

    def make(timed: Timed) -> tuple[Step, Callable[[], int]]:
        encoder, buffer, copy = msgpack.Packer(), bytearray(1 << 16), timed.state.arena.copy()

        def step(inputs: list[list[int]], tick: int) -> None:
            timed.step(inputs)
            encoded = encoder.pack((tick, xxhash.xxh3_64_intdigest(timed.state.arena.data), inputs))
            buffer[: len(encoded)] = encoded
            if tick % KEYFRAME_INTERVAL == 0:
                np.copyto(copy, timed.state.arena)

        return step, lambda: 0

    return make


def pickled(path: Path) -> Callable[[Timed], tuple[Step, Callable[[], int]]]:
    """pickle + lz4.frame into a file on the simulation's thread: inputs each tick, the state at keyframes; no hash."""

    def make(timed: Timed) -> tuple[Step, Callable[[], int]]:
        file = path.open("wb")

        def step(inputs: list[list[int]], tick: int) -> None:
            timed.step(inputs)
            file.write(pickle.dumps(inputs, protocol=5))
            if tick % KEYFRAME_INTERVAL == 0:
                fields = {name: timed.state[name] for name in timed.state}
                file.write(lz4.frame.compress(pickle.dumps(fields, protocol=5)))

        def finish() -> int:
            file.close()
            return path.stat().st_size

        return step, finish

    return make


def arrays(path: Path) -> Callable[[Timed], tuple[Step, Callable[[], int]]]:
    """JSON lines and numpy.savez_compressed on the simulation's thread; no hash."""

    def make(timed: Timed) -> tuple[Step, Callable[[], int]]:
        path.mkdir()
        lines = (path / "inputs.jsonl").open("w", encoding="utf-8")

        def step(inputs: list[list[int]], tick: int) -> None:
            timed.step(inputs)
            lines.write(json.dumps(inputs) + "\n")
            if tick % KEYFRAME_INTERVAL == 0:
                np.savez_compressed(path / f"{tick}.npz", **{name: timed.state[name] for name in timed.state})  # type: ignore[arg-type]

        def finish() -> int:
            lines.close()
            return sum(file.stat().st_size for file in path.iterdir())

        return step, finish

    return make


def measure_seeks(path: Path, workload: str) -> dict[str, list[float]]:
    """Milliseconds to reach random ticks from nothing near, to step back after that, and to decode a keyframe."""
    random = np.random.Generator(np.random.PCG64(3))
    found: dict[str, list[float]] = {"seek": [], "step back": [], "seek to a keyframe": []}
    with replayer.open(path, lambda: workloads.Entities(workload)) as run:
        run.seek(0)
        for tick in random.integers(1, len(run), SEEKS).tolist():
            found["seek"].append(run.seek(tick).milliseconds)
            found["step back"].append(run.step_back().milliseconds)
            found["seek to a keyframe"].append(run.seek(tick // KEYFRAME_INTERVAL * KEYFRAME_INTERVAL).milliseconds)
    return found


def row(measured: Measured) -> dict[str, Any]:
    """The figures of one line of the table."""
    p50, p99 = np.percentile(measured.tick_us, [50, 99])
    keyframes = np.percentile(measured.keyframe_us, [50, 100])
    return {
        "name": measured.name,
        "tick_us_p50": round(float(p50), 2),
        "tick_us_p99": round(float(p99), 2),
        "keyframe_us_p50": round(float(keyframes[0]), 1),
        "keyframe_us_max": round(float(keyframes[1]), 1),
        "bytes_per_tick": round(measured.size_bytes / (len(measured.tick_us) + len(measured.keyframe_us)), 1),
    }


def run_workload(workload: str, folder: Path, console: Console) -> dict[str, Any]:
    """All ways of recording one workload, and seeks in our tape."""
    ways = {
        "hash, msgpack, store": (in_memory, True),
        "ours, marks": (ours, True),
        "ours, scan": (ours, False),
        "pickle + lz4": (pickled, True),
        "npz + json lines": (arrays, True),
    }
    rows = [
        row(measure(name, way(folder / f"{workload} {name}.tape"), workload, marks))
        for name, (way, marks) in ways.items()
    ]
    seeks = {
        name: {"ms_p50": round(float(np.median(times)), 3), "ms_p99": round(float(np.percentile(times, 99)), 3)}
        for name, times in measure_seeks(folder / f"{workload} ours, marks.tape", workload).items()
    }
    table = Table(title=f"workload {workload}: cost beyond the step, on the simulation's thread", title_justify="left")
    for title in ("way", "tick µs p50", "p99", "keyframe µs p50", "max", "bytes a tick"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for one in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, float) else value for value in one.values()))
    console.print(table)
    for name, times in seeks.items():
        console.print(f"  {name}: {times['ms_p50']} ms (p99 {times['ms_p99']} ms)")
    return {"recording": rows, "seeking": seeks}


def main() -> None:
    """Run both workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--ticks", type=int, help="ticks of each workload instead of the usual number")
    given = parser.parse_args()
    if given.ticks:
        TICKS.update(dict.fromkeys(TICKS, given.ticks))
    results: dict[str, Any] = {
        "machine": platform.machine(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "workloads": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for workload in TICKS:
            results["workloads"][workload] = run_workload(workload, Path(folder), Console(width=110))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
