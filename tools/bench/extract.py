"""Rows a second from tapes to Parquet: ours on one and two processes, compared with an ordinary export.

The long form of the workloads S and M, one row for each entity and tick. The ordinary export reads the same replayed
states and writes a data frame a tick with pyarrow's defaults. Target T9: 3 M rows a second on one core, 1.8 times that
on two.

Transitions of environments are compared with bare calls of the same actions, in turns in one process, in rows per second
of processor time (that of the processes that it starts included).

    python tools/bench/extract.py [--only files environments] [--repeats N] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from workloads import FIELDS, SIZES, Entities, orders

import recorder
import replayer
from recorder import Recorder
from recorder.format.recording.decoded_blocks import decoded_blocks
from replayer.datasets.extract import extract
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape

TICKS = {"S": 12_000, "M": 200}  # 6 M and 20 M rows.
ENVIRONMENTS = ("CartPole-v1", "FrozenLake-v1")
INTERVALS = {"S": 300, "M": 25}
NAMES = [name for name, _ in FIELDS]


def record_workload(path: Path, name: str) -> None:
    """A tape of the workload."""
    random = np.random.default_rng(5)
    with Recorder(path, Entities(name), keyframe_interval_ticks=INTERVALS[name], sync="never") as tape:
        for _ in range(TICKS[name]):
            tape.step(orders(random))


def ordinary_way(path: Path, name: str, target: Path) -> int:
    """A table for each tick, appended to one file with pyarrow's defaults."""
    rows, writer = 0, None
    with replayer.open(path, lambda: Entities(name)) as run:
        for tick in range(run.first_tick, run.last_tick + 1):
            run.seek(tick)
            columns = {"tick": np.full(SIZES[name][0], tick), "row": np.arange(SIZES[name][0])}
            table = pa.table(columns | {field: run.state[field] for field in NAMES})
            writer = writer or pq.ParquetWriter(target, table.schema)
            writer.write_table(table)
            rows += table.num_rows
    assert writer is not None
    writer.close()
    return rows


def our_way(path: Path, name: str, target: Path, jobs: int) -> int:
    """The long form of the same fields."""
    made = extract(path, target, world=lambda: Entities(name), tables="states", fields=NAMES, long=True, jobs=jobs)
    return sum(made.rows.values())


def size_of(target: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(path.stat().st_size for path in ([target] if target.is_file() else target.rglob("*")) if path.is_file())


def measure(folder: Path, name: str, repeats: int) -> dict[str, dict[str, Any]]:
    """Measure all ways in turns: a drift of the machine affects all equally."""
    tape = folder / f"{name}.tape"
    record_workload(tape, name)
    ways: dict[str, Callable[[Path], int]] = {
        "ordinary way": lambda target: ordinary_way(tape, name, target),
        "replay extract": lambda target: our_way(tape, name, target, 1),
        "replay extract -j 2": lambda target: our_way(tape, name, target, 2),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    found: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for way, run in ways.items():
            target = folder / "target"
            start_s = time.perf_counter()
            rows = run(target)
            seconds[way].append(time.perf_counter() - start_s)
            found[way] = {"rows": rows, "bytes_a_row": size_of(target) / rows}
            shutil.rmtree(target) if target.is_dir() else target.unlink()
    for way, times in seconds.items():
        found[way] |= {
            "rows_a_second": found[way]["rows"] / statistics.median(times),
            "best_rows_a_second": found[way]["rows"] / min(times),
        }
    return found


def processor_s() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def record_environment(path: Path, name: str, ticks: int) -> list[Any]:
    """A tape of random actions; returns them, None for a reset."""
    actions: list[Any] = [None]
    with recorder.record(gymnasium.make(name), path, quiet=True) as env:
        env.action_space.seed(1)
        env.reset(seed=1)
        while len(actions) < ticks:
            actions.append(env.action_space.sample())
            _, _, terminated, truncated, _ = env.step(actions[-1])
            if terminated or truncated:
                env.reset()
                actions.append(None)
    return actions


def bare_calls(name: str, actions: list[Any]) -> int:
    """The calls of the recording, without one."""
    env = gymnasium.make(name)
    env.reset(seed=1)
    for action in actions[1:]:
        env.reset() if action is None else env.step(action)
    return len(actions) - actions.count(None)


def only_replayed(tape: Path, *, compares: bool) -> int:
    """Decode a tape of numbers and make its calls, without rows: the limit of an extraction. Returns the steps."""
    with Tape(tape) as opened:
        simulation: Any = make_simulation(opened, None)
        Cursor(opened, simulation).place_before(0)
        known_tick, steps = opened.first_tick + 300, 0
        for block in decoded_blocks(opened.recording, 1, opened.last_tick):
            for tick, (inputs, expected) in enumerate(zip(block.inputs(), block.hashes, strict=True), block.first_tick):
                is_compared = compares or tick < known_tick
                if tick == known_tick:
                    simulation.capture_skipped = not compares
                if "reset" in inputs:
                    simulation.step(inputs)
                else:
                    (simulation.act if is_compared else simulation.env.step)(np.int64(inputs["<i8"]))
                    steps += 1
                if is_compared and simulation.state.hash() != expected:
                    raise SystemExit(f"{tape}: the state at tick {tick} differs")
    return steps


def measure_environment(folder: Path, name: str, ticks: int, repeats: int) -> dict[str, dict[str, float]]:
    """Rows per second of processor time, median of the repeats, and the ratio to bare calls."""
    tape = folder / f"{name}.tape"
    actions = record_environment(tape, name, ticks)

    def extracted(proof: str) -> int:
        rows = replayer.extract(tape, folder / "rows", proof=proof).rows["transitions"]
        shutil.rmtree(folder / "rows")
        return rows

    def streamed(proof: str) -> int:
        return sum(len(batch["tick"]) for batch in replayer.samples(tape, batch=256, shuffle=False, proof=proof))

    ways: dict[str, Callable[[], int]] = {
        "bare calls": lambda: bare_calls(name, actions),
        "decode and call": partial(only_replayed, tape, compares=False),
        "decode, call, compare": partial(only_replayed, tape, compares=True),
    }
    for proof in ("ticks", "sampled"):
        ways |= {
            f"samples, proof {proof}": partial(streamed, proof),
            f"extract, proof {proof}": partial(extracted, proof),
        }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, run in ways.items():
            start_s = processor_s()
            rows = run()
            rates[way].append(rows / (processor_s() - start_s))
    medians = {way: statistics.median(found) for way, found in rates.items()}
    bare = medians["bare calls"]
    return {way: {"rows_a_cpu_second": rate, "of_bare_calls": rate / bare} for way, rate in medians.items()}


def environment_lines(results: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """The table, as Markdown."""
    lines = ["| environment | way | µs of CPU a row | of bare calls |", "|---|---|---|---|"]
    return lines + [
        f"| {name} | {way} | {1e6 / one['rows_a_cpu_second']:.1f} | {one['of_bare_calls']:.2f} |"
        for name, ways in results.items()
        for way, one in ways.items()
    ]


def lines_of(results: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """The table, as Markdown."""
    lines = ["| workload | way | million rows a second, median (best) | bytes a row |", "|---|---|---|---|"]
    for name, ways in results.items():
        for way, one in ways.items():
            rate = f"{one['rows_a_second'] / 1e6:.2f} ({one['best_rows_a_second'] / 1e6:.2f})"
            lines.append(f"| {name} | {way} | {rate} | {one['bytes_a_row']:.2f} |")
    for name, ways in results.items():
        one, two = (ways[way]["best_rows_a_second"] for way in ("replay extract", "replay extract -j 2"))
        met = "met" if one >= 3e6 and two / one >= 1.8 else "not met"
        lines.append(
            f"\nT9 on {name}: {one / 1e6:.2f} M rows/s (target 3), on two {two / one:.2f} times (target 1.8): {met}"
        )
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="*", choices=("files", "environments"), default=["files", "environments"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ticks", type=int, default=100_000, help="of an environment")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        if "files" in options.only:
            results |= {name: measure(Path(folder), name, options.repeats) for name in TICKS}
            lines += [*lines_of(results), ""]
        if "environments" in options.only:
            found = {
                name: measure_environment(Path(folder), name, options.ticks, options.repeats) for name in ENVIRONMENTS
            }
            results |= found
            lines += environment_lines(found)
    print("\n".join(lines))
    print(f"\nload: {os.getloadavg()}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1))
    if options.markdown is not None:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
