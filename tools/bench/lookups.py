"""Count the intervals and steps of questions to a long tape, with a lookup file and without one.

--ticks N takes a shorter run, --without asks some of them without the file as well, which takes as long as replaying the tape.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recorder
import replayer
from replayer.search.lookup.lookup_file import lookup_path, stored, write_lookup
from replayer.search.lookup.make_lookup import Measured, measured_intervals
from sim import Field, Schema, State

TICKS = 1_000_000
CELLS = 64
CONDITIONS = (
    "stock.min() < 0",
    "stock.sum() > {most}",
    "heat.max() >= 40.0 and tick > 1000",
    "(stock == 0).any() or heat.min() < -1000.0",
    "stock.sum() > 1000000",
)


class Shelves:
    """Stock that is sold and delivered, a temperature that wanders, and one cell that is written once."""

    def __init__(self) -> None:
        self.state = State(
            Schema(Field("stock", "i4", (CELLS,)), Field("heat", "f8", (4,)), Field("marked", "i8", (CELLS,)))
        )
        self.state["stock"][:] = 500

    def step(self, inputs: Any) -> None:
        """Sell or deliver at one shelf, and warm one sensor."""
        where, amount, warmth = inputs
        state = self.state
        stock = state["stock"]
        stock[where] = max(0, int(stock[where]) + amount)
        heat = state["heat"]
        heat[where % 4] = float(heat[where % 4]) * 0.99 + warmth
        state["marked"][where // 2] += 1 if amount > 0 else 0


def record(path: Path, ticks: int) -> None:
    """Record the shelves."""
    chance = random.Random(1)
    with recorder.Recorder(path, Shelves(), trial_ms=0) as tape:
        for tick in range(ticks):
            shelf = CELLS - 1 if tick == ticks // 400 else chance.randrange(CELLS - 2)
            tape.step([shelf, chance.choice([-2, -1, 1, 2]), chance.choice([-0.5, 0.5])])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=TICKS)
    parser.add_argument("--without", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "shelves.tape")
        record(path, arguments.ticks)
        with replayer.open(path, Shelves) as run:
            begin_s = time.perf_counter()
            intervals = [stored(one) for one in measured_intervals(run.tape, run.counted_cursor(), Measured())]
            size = write_lookup(run.tape, lookup_path(path), intervals)
            print(f"{arguments.ticks:,} ticks, tape {run.tape.size_bytes:,} bytes, lookup file {size:,} bytes,")
            print(f"made in {time.perf_counter() - begin_s:.0f} s")
            most = 500 * CELLS + arguments.ticks // 100
        for with_file in (True, False) if arguments.without else (True,):
            if not with_file:
                lookup_path(path).unlink()
            print("\nwith the lookup file" if with_file else "\nwithout it")
            ask(path, most, CONDITIONS if with_file else CONDITIONS[-2:])


def ask(path: Path, most: int, conditions: Sequence[str]) -> None:
    """Ask the questions and print a line for each."""
    with replayer.open(path, Shelves) as run:
        for text in conditions:
            for which in ("first", "all") if len(conditions) > 2 else ("first",):
                begin_s = time.perf_counter()
                finder = run.finder(text.format(most=most))
                found = finder.find("first" if which == "first" else "all")
                seconds = time.perf_counter() - begin_s
                at = f"{found.ticks[0]:,}" if found.ticks else "never"
                print(
                    f"{text.format(most=most)} | {which} | {at} | {len(found.ticks):,} | "
                    f"{found.intervals - found.skipped_intervals:,} of {found.intervals:,} | "
                    f"{found.simulated:,} | {seconds:.1f} s"
                )
        for row in (0, CELLS // 2 - 1, CELLS - 1):
            begin_s = time.perf_counter()
            write = run.last_write("stock", row, line=False)
            at = f"{write.tick:,}" if write.tick is not None else "never"
            print(
                f"last write of stock[{row}] | | {at} | | {write.intervals - write.skipped_intervals:,} of "
                f"{write.intervals:,} | {write.simulated:,} | {time.perf_counter() - begin_s:.1f} s"
            )


if __name__ == "__main__":
    main()
