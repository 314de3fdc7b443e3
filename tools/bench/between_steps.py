"""The cost of recording with between_steps=True, next to recording without it.

Games of units (unit_games.py), of which 10 % change in a tick. Both ways take turns in one process; the times are CPU
times of the simulation's thread.

    python tools/bench/between_steps.py [--ticks N]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import unit_games

import recorder

SIZES = (200, 2_000)
CHANGE = "10 %"
WARM_TICKS = 5


def record(folder: Path, unit_count: int, *, between_steps: bool) -> Any:
    """A recorded game."""
    return recorder.record(
        unit_games.make_game(unit_count, CHANGE),
        folder / f"{unit_count}-{between_steps}.tape",
        quiet=True,
        trial_ms=0,
        keyframe_after_ms=None,
        between_steps=between_steps,
    )


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=100)
    ticks = parser.parse_args().ticks
    for unit_count in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            games = {on: record(Path(folder), unit_count, between_steps=on) for on in (False, True)}
            taken: dict[bool, list[float]] = {False: [], True: []}
            for tick in range(ticks + WARM_TICKS):
                for on, game in games.items():
                    start_ns = time.thread_time_ns()
                    game.step(None)
                    if tick >= WARM_TICKS:
                        taken[on].append((time.thread_time_ns() - start_ns) / 1e3)
            for game in games.values():
                game.close()
        plain_us, checked_us = (statistics.median(taken[way]) for way in (False, True))
        ratio = f"{checked_us / plain_us:.1f} times"
        print(f"{unit_count:,} units: {plain_us:,.0f} µs a tick, with between_steps {checked_us:,.0f} µs: {ratio}")


if __name__ == "__main__":
    main()
