"""Provoke a small world in many random scenarios and count what the adversaries did (budgets are never exceeded).

Each scenario has a network, surroundings, adversaries and reconfigurations drawn from its number. Counted are the
adversaries' deeds, by a counter that knows nothing of how budgets are kept, and the end that each message came to. The
first scenario in which something is wrong is named, and the exit code is 1.

    python tools/campaigns/provoked_runs.py [--runs N] [--first N]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from random_scenarios import check_many  # noqa: E402 - the tests are where it says


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first scenario")
    asked = parser.parse_args()
    began, strikes = time.monotonic(), 0
    for start in range(asked.first, asked.first + asked.runs, 500):
        seeds = range(start, min(start + 500, asked.first + asked.runs))
        try:
            strikes += check_many(seeds)
        except AssertionError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{seeds.stop - asked.first:,} scenarios, {strikes:,} strikes, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
