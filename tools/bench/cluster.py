"""Work on Ray beside local processes, and tapes at URLs beside local ones: times of one run, in turns, and their ratios.

Usage: python tools/bench/cluster.py [--quick] [--tapes N] [--json FILE]

The constants that tools/cluster_plan.py needs are among the results. Ray is started here, on loopback.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

import attrs
import numpy as np
import web_store

import replayer
from recorder import Recorder
from recorder.processes.engines.ray_engine import RayEngine
from recorder.processes.fork_pool import ForkPool
from recorder.processes.pool import Pool, Report, results_in_order
from replayer import TapeUrl

from ray_cluster import descendants, session_process
from small_worlds import Walkers

WORKERS = 2
ROUNDS = 3
SEEKS = 20
COUNT = 5000  # Of walkers: a state of 80 kB.
LARGE_COUNT = 60_000  # In the tape of the seeks: no seek finds its keyframe among what opening has read.
INTERVAL_TICKS = 300
SHORT_TICKS = 100
CALLS = 15


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tapes", type=int, help="the number of short tapes; by default 200, and 20 with --quick")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = measure(
            folder, tapes=parsed.tapes or (20 if parsed.quick else 200), ticks=3_000 if parsed.quick else 6_000
        )
    for key, value in facts.items():
        print(f"{key:34} {value:12,.4g}")
    if parsed.json is not None:
        parsed.json.parent.mkdir(parents=True, exist_ok=True)
        parsed.json.write_text(json.dumps(facts, indent=1) + "\n")
    return 0


def measure(folder: Path, *, tapes: int, ticks: int) -> dict[str, float]:
    """The results by name; times in seconds unless the name says otherwise."""
    long_tape = recorded(folder / "long.tape", 1, ticks)
    short = [recorded(folder / f"{seed}.tape", seed, SHORT_TICKS) for seed in range(tapes)]
    facts: dict[str, float] = {"tapes": tapes, "ticks_of_each": SHORT_TICKS, "ticks_of_the_long_one": ticks}
    facts |= seeks(recorded(folder / "large.tape", 2, 1200, LARGE_COUNT))
    with replayer.open(long_tape, world=make) as run:
        facts["bytes_per_tick"] = long_tape.stat().st_size / ticks
        facts["interval_ticks"] = ticks / len(run.tape.keyframes)
        facts["scan_bytes_per_s"] = long_tape.stat().st_size / timed(run.tape.check_blocks)
        first, last = 300, 300 + int(facts["interval_ticks"]) - 1
        facts["simulated_ticks_per_s"] = (last - first) / timed(lambda: [run.seek(first), run.seek(last)])
    start_s = time.perf_counter()
    with RayEngine(workers=WORKERS).pool() as ray:
        facts["ray_start_s"] = time.perf_counter() - start_s
        forks = ForkPool(WORKERS)
        items = partial(run_items, count=200)
        ways: dict[str, Callable[[Pool], Any]] = {
            "item": items,
            "many_tapes": lambda pool: ensure(all(one.ok for one in replayer.verify_tapes(short, make, pool=pool))),
            "long_tape": lambda pool: ensure(replayer.verify_tape(long_tape, make, pool=pool).ok),
        }
        items(ray)  # Each Ray worker starts its host once.
        # So few items are not bundled; what a call costs by itself is in both.
        few, more = (median(handing_out_ms(ray, items) for _ in range(CALLS)) for items in (4, 14))
        facts["hand_out_ms"] = (more - few) / 10
        facts["hand_out_bundled_ms"] = (median(handing_out_ms(ray, 414) for _ in range(3)) - more) / 400
        for name, way in ways.items():
            turns = [(costs(partial(way, forks)), costs(partial(way, ray))) for _ in range(ROUNDS)]
            facts[f"{name}_local_s"] = min(local.seconds for local, _ in turns)
            facts[f"{name}_ray_s"] = min(there.seconds for _, there in turns)
            facts[f"{name}_ray_to_local"] = median(there.seconds / local.seconds for local, there in turns)
            facts[f"{name}_ray_to_local_processor"] = median(
                there.processor_s / local.processor_s for local, there in turns
            )
    facts["item_local_ms"] = 1000 * facts.pop("item_local_s") / 200
    facts["item_ray_ms"] = 1000 * facts.pop("item_ray_s") / 200
    return facts


def recorded(path: Path, seed: int, ticks: int, count: int = COUNT) -> Path:
    """Record a run of the tests' walkers."""
    walkers = Walkers(seed, count)
    for name in ("x", "y"):  # Values that do not compress.
        walkers.state[name][:] = np.random.default_rng(seed).integers(-(2**62), 2**62, count)
    with Recorder(path, walkers, keyframe_interval_ticks=INTERVAL_TICKS, trial_ms=0) as recorder:
        for _ in range(ticks):
            recorder.step(None)
    return path


def make() -> Walkers:
    """The simulation; its seed is in the tape."""
    return Walkers(0, COUNT)


@attrs.frozen
class Costs:
    """Of a call: its duration, and the processor time of this process, its workers, and all processes of Ray."""

    seconds: float
    processor_s: float


def costs(call: Callable[[], Any]) -> Costs:
    """Call, and measure."""
    before_s = processor_s()
    seconds = timed(call)
    return Costs(seconds, processor_s() - before_s)


def processor_s() -> float:
    """The processor time so far of this process and of those that have ended below it, and of Ray's."""
    ticks = 0
    for process in {session_process(), *descendants(session_process())}:
        with contextlib.suppress(OSError):  # It has just ended; the one above it has its time.
            ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return sum(os.times()[:4]) + ticks / os.sysconf("SC_CLK_TCK")


def handing_out_s() -> float:
    """The processor time of this process, and of the one that speaks with Ray."""
    times = Path(f"/proc/{session_process()}/stat").read_text().rpartition(")")[2].split()
    return sum(os.times()[:2]) + (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def handing_out_ms(pool: Pool, items: int) -> float:
    """Milliseconds of processor time of a call with items that take no time."""
    before_s = handing_out_s()
    run_items(pool, items)
    return 1000 * (handing_out_s() - before_s)


def run_items(pool: Pool, count: int) -> None:
    """Run items that take no time."""
    ensure(len(list(results_in_order(pool, same, range(count), name=str))) == count)


def same(item: int, _: Report) -> int:
    """The item."""
    return item


def seeks(tape: Path) -> dict[str, float]:
    """Milliseconds of seeks in a tape on this machine and at a web server on loopback, in turns."""
    facts = {}
    with web_store.serving() as store:
        store.files["/run.tape"] = tape.read_bytes()
        url = TapeUrl(f"{store.address}/run.tape")
        opens = {
            "local": partial(replayer.open, tape, world=partial(Walkers, 0, LARGE_COUNT)),
            "url": partial(replayer.open, url, world=partial(Walkers, 0, LARGE_COUNT)),
        }
        times: dict[str, list[float]] = {name: [] for name in opens}
        asked = []
        for number in range(SEEKS):
            for name, opening in opens.items():
                with opening() as run:
                    tick = run.last_tick * (number + 1) // (SEEKS + 1)
                    before = len(store.asked)
                    times[name].append(1000 * timed(partial(run.seek, tick)))
                    if name == "url":
                        asked.append(len(store.asked) - before)
        facts["seek_local_ms"], facts["seek_url_ms"] = median(times["local"]), median(times["url"])
        facts["seek_url_to_local"] = median(b / a for a, b in zip(times["local"], times["url"], strict=True))
        facts["seek_requests_max"] = max(asked)
        store.asked.clear()
        facts["open_url_ms"] = 1000 * timed(lambda: opens["url"]().close())
        facts["open_requests"] = len(store.asked)
    return facts


def timed(call: Callable[[], Any]) -> float:
    """The seconds that a call takes."""
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s


def ensure(holds: object) -> None:
    """Raise AssertionError if a result is wrong: its time says nothing."""
    assert holds


if __name__ == "__main__":
    sys.exit(main())
