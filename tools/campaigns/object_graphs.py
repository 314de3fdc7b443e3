"""Change random graphs of ordinary objects, restore them at random ticks, and compare them with the live ones.

Each batch of examples has its own seed, the first one's plus its number. The first example that fails is reduced and
printed with its seed, and the exit code is 1.

    python tools/campaigns/object_graphs.py [--examples N] [--seed S] [--steps N] [--only FEATURE ...] [--without ...]
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from object_graphs.machine import GraphMachine  # noqa: E402 - it is in tests/support
from object_graphs.makers import FEATURES  # noqa: E402

BATCH_EXAMPLES = 100


def run_batch(features: frozenset[str], examples: int, steps: int, number: int) -> None:
    """Run one batch; raises what the first failing example raises."""

    class Drawn(GraphMachine):  # type: ignore[misc]
        """The machine with these features."""

    Drawn.features = features
    run_state_machine_as_test(
        seed(number)(Drawn),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first batch")
    parser.add_argument("--steps", type=int, default=50, help="the most rules that one example runs")
    parser.add_argument("--only", nargs="*", choices=sorted(FEATURES), default=sorted(FEATURES), metavar="FEATURE")
    parser.add_argument("--without", nargs="*", choices=sorted(FEATURES), default=[], metavar="FEATURE")
    options = parser.parse_args()
    features = frozenset(options.only) - frozenset(options.without)
    start_s, done = time.monotonic(), 0
    print(f"features: {', '.join(sorted(features))}")
    while done < options.examples:
        number, examples = options.seed + done // BATCH_EXAMPLES, min(BATCH_EXAMPLES, options.examples - done)
        try:
            run_batch(features, examples, options.steps, number)
        except Exception:  # noqa: BLE001 - of whatever kind, it is reported with its seed
            traceback.print_exc()
            print(
                f"FAILED, see above; again: --examples {examples} --seed {number} --steps {options.steps}", flush=True
            )
            return 1
        done += examples
        print(f"{done:,} examples, {time.monotonic() - start_s:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
