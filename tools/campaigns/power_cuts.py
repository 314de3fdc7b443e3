"""Cut the power a hundred thousand times and compare what is found with what was promised (promise P4).

Runs of random kinds (syncs by block or by flush, several files, rings, calls that fail) are recorded on a disk in
memory that keeps the history of all operations. The power goes at a random operation: of what was not synced, each
512-byte sector is as it was written, zero or garbage, the file's length is anything in between, the journal is
anything. What was durable must be there, what is there must be true, and nothing may be called corrupt.

    python tools/campaigns/power_cuts.py [--count N] [--seed N]

Exit code 1 with what is needed to see it again if a promise was broken.
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
sys.path.insert(0, str(ROOT / "tests" / "support"))  # The disk in memory is the tests'.

import recorder.writer.writer  # noqa: E402

from oracle.power_cuts import RUNS, Run, check_cut, record_run  # noqa: E402

CUTS_A_RUN = 500


def random_run(numbers: random.Random) -> Run:
    """One of the tests' runs, or one with everything chosen."""
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
    """Record, cut, compare; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    recorder.writer.writer.RETRY_S = (0.0, 0.0)  # These disks recover at once.
    numbers = random.Random(given.seed)
    done = runs = 0
    start_s = time.perf_counter()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("power cuts", total=given.count)
        while done < given.count:
            run = random_run(numbers)
            files, live, synced = record_run(run)
            runs += 1
            for _ in range(min(CUTS_A_RUN, given.count - done)):
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
        f"{done:,} power cuts in {runs:,} runs, {seconds:.0f} s, seed {given.seed}: nothing synced lost, nothing false"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
