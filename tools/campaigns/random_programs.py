"""Record random programs whose values move and see each other's memory, and compare each with the live run in every way.

    python tools/campaigns/random_programs.py [--world values|arrays|calls] [--runs N] [--seed S]

Each run has its own seed, the first one's plus its number. The seeds that failed are printed; the exit code is 1 if one did.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from arrays_of_one_memory import Sharing  # noqa: E402 - these are in tests/support
from called_programs import compare_calls  # noqa: E402
from moving_values import Moving  # noqa: E402
from seen_in_each_way import compare  # noqa: E402

WORLDS = {"values": partial(compare, Moving), "arrays": partial(compare, Sharing), "calls": compare_calls}


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=WORLDS, default="values")
    parser.add_argument("--runs", type=int, default=2_000, help="three take a second")
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    options = parser.parse_args()
    failed = []
    for seed in range(options.seed, options.seed + options.runs):
        with tempfile.TemporaryDirectory() as folder:
            try:
                WORLDS[options.world](seed, Path(folder, "run.tape"))
            except Exception as error:  # noqa: BLE001 - each failure is a finding, and the others are looked at, too
                failed.append(seed)
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{options.world}, {options.runs} runs from seed {options.seed}: {len(failed)} failed {failed or ''}".strip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
