"""Kill the server, workers and drivers of clusters at random moments, and compare every hash with a plain loop.

In each run a small world of organisms runs by one to five workers, with checkpoints of the whole every few ticks. Its server
and workers are killed by the signal that cannot be caught, up to a twentieth of a second after a random tick began: in a
slice, at the barrier, while a checkpoint is written, in a recovery. Every third run is a process of ``record run`` that is
itself killed, up to three times, and started again with another number of workers in the same folder. No process may be
left behind, each checkpoint that is listed has to restore to the state of its tick, and no half of one may be left.

    python tools/campaigns/cluster_kills.py [--kills N] [--seed N]

Exit code 1 if a hash was wrong, a process survived its driver, or a checkpoint was not whole.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[2]
sys.path.insert(
    0, str(ROOT / "tests" / "support")
)  # The small world, its plain loop and the kills are part of the tests.

from cluster_runs import TICKS, ensure_all_whole  # noqa: E402
from dying_actors import run_with_kills  # noqa: E402
from killed_drivers import run_with_driver_kills  # noqa: E402

KILLS_A_RUN = 8


def main() -> int:
    """Run the campaign, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60, help="the least number of kills")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    console, killed = Console(), Counter[str]()
    console.print(f"seed {arguments.seed}")
    run = 0
    while killed.total() < arguments.kills or killed["driver"] == 0:
        seed = arguments.seed + run
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "whole"
            try:
                if run % 3 == 2:
                    killed["driver"] += run_with_driver_kills(seed, Path(name))
                else:
                    killed += run_with_kills(seed, folder, TICKS, KILLS_A_RUN)
                ensure_all_whole(folder)
            except AssertionError as error:
                console.print(f"[red]run {run} (seed {seed}): {error}")
                return 1
        run += 1
        console.print(f"run {run}: {dict(killed)}")
    console.print(f"{killed.total()} kills in {run} runs: {dict(killed)}; every hash is that of the plain loop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
