"""Cut the power a hundred thousand times and compare the surviving data with the promise (promise P4).

Runs of random kinds (syncs by block or by flush, several files, rings, calls that fail) are recorded on a disk in
memory that keeps the history of all operations. The power fails at a random operation. Each 512-byte sector that was not
synced is then as it was written, zero or garbage. The file's length is anything in between, and the journal is anything.
All durable data must be there, all data that is read must be true, and no tape may be called corrupt.

    python tools/campaigns/power_cuts.py [--count N] [--seed N]

If a promise is broken, it prints the data for a repetition and exits with code 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))  # The disk in memory is part of the tests.

import recorder.writer.retries  # noqa: E402

from oracle.power_cuts import RUNS, Run, check_cut, record_run  # noqa: E402

CUTS_A_RUN = 500


def random_run(numbers: random.Random) -> Run:
    """One of the tests' runs, or one with random settings."""
    if numbers.random() < 0.3:
        return numbers.choice(list(RUNS.values()))
    fail_kind = numbers.choice([None, "append", "fdatasync", "truncate", "create", "remove"])
    return Run(
        sync=numbers.choice(["block", "by flushes"]),
        flush_every=numbers.choice([0, 2, 5, 11]),
        split=numbers.choice([None, 500, 1500]),
        keep=numbers.choice([None, None, 9, 20]),
        fail_kind=fail_kind,
        fail_k=numbers.randint(3, 25) if fail_kind else 0,
        seed=numbers.randrange(1 << 32),
    )


def main() -> int:
    """Record, cut, compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    recorder.writer.retries.RETRY_S = (0.0, 0.0)  # These disks recover at once.
    numbers = random.Random(options.seed)
    done = runs = 0
    start_s = time.perf_counter()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("power cuts", total=options.count)
        while done < options.count:
            run = random_run(numbers)
            files, live, synced = record_run(run)
            runs += 1
            for _ in range(min(CUTS_A_RUN, options.count - done)):
                operation, cut_seed = numbers.randint(1, len(files.history)), numbers.randrange(1 << 32)
                is_ring = run.keep is not None
                problem = check_cut(files, live, synced, operation, random.Random(cut_seed), is_ring=is_ring)
                if problem is not None:
                    print(f"BROKEN after {done:,} cuts: {problem}\n  {run}\n  operation {operation}, cut {cut_seed}")
                    return 1
                done += 1
            progress.update(task, completed=done)
    seconds = time.perf_counter() - start_s
    print(
        f"{done:,} power cuts in {runs:,} runs, {seconds:.0f} s, seed {options.seed}: nothing synced lost, nothing false"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
