"""The time of 64 runs: run_many, a plain process pool with the same work, and one process.

Usage: python tools/bench/batch.py [RUNS]
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from recorder.scenarios.batch import run_job, run_many, worker_count
from recorder.scenarios.sweep import Axis, sweep_jobs
from sim.scenario.scenario_file import load_scenario

TICKS = 100
ROUNDS = 3  # The best of this many, in turns, so a drift of the machine affects all equally.


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    jobs = sweep_jobs(load_scenario("quiet-meadow"), [Axis("seed", tuple(range(runs)))], None, ticks=TICKS)
    workers = worker_count()

    def plain() -> list[Any]:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            return list(pool.map(run_job, jobs))

    ways: dict[str, Callable[[], list[Any]]] = {
        "one process": lambda: run_many(jobs, workers=1),
        f"run_many, {workers} workers": lambda: run_many(jobs, workers=workers),
        f"plain pool, {workers} workers": plain,
    }
    times: dict[str, float] = dict.fromkeys(ways, float("inf"))
    results: list[Any] = []
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start_s = time.perf_counter()
            results.append(way())
            times[name] = min(times[name], time.perf_counter() - start_s)
    if any(result != results[0] for result in results):
        raise SystemExit("the results differ")
    for name, seconds in times.items():
        print(f"{name:28} {seconds:7.2f} s   {seconds / runs * 1000:7.1f} ms a run")
    print(json.dumps(times))


if __name__ == "__main__":
    main()
