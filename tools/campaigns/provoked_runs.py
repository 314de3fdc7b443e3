"""Provoke a small world in many random scenarios and count the adversaries' strikes (budgets are never exceeded).

Each scenario has a network, surroundings, adversaries and reconfigurations drawn from its number. An independent counter
counts the strikes and the end of each message. The first scenario with an error is printed, and the exit code is 1.

    python tools/campaigns/provoked_runs.py [--runs N] [--first N]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from random_scenarios import check_many  # noqa: E402 - it is in tests/support


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first scenario")
    options = parser.parse_args()
    start_s, strikes = time.monotonic(), 0
    for start in range(options.first, options.first + options.runs, 500):
        seeds = range(start, min(start + 500, options.first + options.runs))
        try:
            strikes += check_many(seeds)
        except AssertionError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{seeds.stop - options.first:,} scenarios, {strikes:,} strikes, {time.monotonic() - start_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
