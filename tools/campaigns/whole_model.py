"""A million random operations on tapes and their readers, in any order, compared with a plain account of the truth.

Each sequence records, resumes, kills, damages, repairs and copies tapes on a disk that refuses now and then, while
several readers seek, walk, follow, verify and run out of memory. The model (tests/support/whole_model) knows what was
acknowledged. An error that is not documented, a wrong state or hash, and an acknowledged tick that no damage has taken
and that cannot be read are findings. Each is printed with its seed and the operations that it needs.

    python tools/campaigns/whole_model.py [--steps N] [--seed N] [--jobs N] [--minutes N]

Exit code 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from whole_model.driver import model_settings  # noqa: E402 - it is in tests/support
from whole_model.sequences import Failure, Step, run_sequence, shrink  # noqa: E402

FINDINGS_MAX = 20  # Then it stops.
BATCH = 8  # Sequences for a process at a time.


def run_batch(seeds: list[str]) -> tuple[Counter[str], list[tuple[Failure, list[Step]]]]:
    """Run the sequences of these seeds; the counts of each operation, and the failures, each with its shrunk steps."""
    counts: Counter[str] = Counter()
    findings = []
    with model_settings() as interruption:
        for seed in seeds:
            failure = run_sequence(seed, interruption, counts)
            if failure is not None:
                kind = re.sub(r"[0-9a-fx]+", "#", failure.line)[:40]

                def is_same(error: str, kind: str = kind) -> bool:
                    return kind in re.sub(r"[0-9a-fx]+", "#", error)

                findings.append((failure, shrink(failure, interruption, is_same)))
    return counts, findings


def batches(seed: int) -> Iterator[list[str]]:
    """Seeds of sequences, without end."""
    number = 0
    while True:
        yield [f"{seed} {number + n}" for n in range(BATCH)]
        number += BATCH


def main() -> int:
    """Run, count, print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time, with fewer steps")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    found, start_s, work = 0, time.monotonic(), batches(options.seed)
    with Progress(console=Console(stderr=True), transient=True) as progress, ProcessPoolExecutor(options.jobs) as pool:
        task = progress.add_task("steps", total=options.steps)
        end_s = start_s + 60 * options.minutes
        while counts.total() < options.steps and found < FINDINGS_MAX and time.monotonic() < end_s:
            for done, findings in pool.map(run_batch, [next(work) for _ in range(options.jobs)]):
                counts += done
                for failure, steps in findings:
                    found += 1
                    print(
                        f"BROKEN, sequence {failure.seed!r}: {failure.line}\n{failure.error}\n  needs {steps}",
                        flush=True,
                    )
            progress.update(task, completed=counts.total())
    print(", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())))
    print(f"{counts.total():,} steps in {time.monotonic() - start_s:.0f} s, seed {options.seed}: {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
