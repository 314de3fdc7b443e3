"""Count the steps that replay shrink takes, next to delta debugging: 2,000 inputs, of which three are needed.

--ticks N takes a shorter run.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import recorder
import replayer
from sim import Field, Schema, State

TICKS = 2_000
LEVERS = (100_007, 100_011, 100_013)
PLACES = ((310, 1_207, 1_733), (1_700, 1_850, 1_990), (10, 40, 90))


class Levers:
    """Breaks once three levers were pulled in order. Every other input leaves a trace in the state."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("pulled", "i8"), Field("broken", "i8"), Field("sum", "i8")))

    def step(self, inputs: Any) -> None:
        """Pull a lever, or add a number."""
        if inputs is None:
            return
        state = self.state
        state["sum"][()] += inputs
        pulled = int(state["pulled"])
        if pulled < len(LEVERS) and inputs == LEVERS[pulled]:
            state["pulled"][...] = pulled + 1
            state["broken"][...] = pulled + 1 == len(LEVERS)


class CountedRuns:
    """Runs from tick 0 until the failure, or to the last tick.

    Attributes:
        steps: simulated so far.
    """

    def __init__(self, inputs: Sequence[int]) -> None:
        self.steps = 0
        self._inputs = inputs
        self._known: dict[tuple[int, ...], bool] = {}

    def fails(self, kept: Sequence[int]) -> bool:
        """Return True if these inputs alone fail; no list is run twice."""
        key = tuple(kept)
        if key not in self._known:
            self._known[key] = self._run(key)
        return self._known[key]

    def _run(self, kept: Sequence[int]) -> bool:
        simulation, left = Levers(), set(kept)
        for tick in range(len(self._inputs)):
            simulation.step(self._inputs[tick] if tick in left else None)
            self.steps += 1
            if simulation.state["broken"]:
                return True
        return False


def ddmin(count: int, fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Zeller's delta debugging: subsets first, then their complements."""
    current, parts = list(range(count)), 2
    while len(current) >= 2:
        size = -(-len(current) // parts)
        chunks = [current[start : start + size] for start in range(0, len(current), size)]
        rests = [[number for number in current if number not in set(chunk)] for chunk in chunks]
        smaller = next((chunk for chunk in chunks if fails(chunk)), None)
        if smaller is not None:
            current, parts = smaller, 2
            continue
        smaller = next((rest for rest in rests if rest and fails(rest)), None)
        if smaller is not None:
            current, parts = smaller, max(parts - 1, 2)
        elif parts >= len(current):
            break
        else:
            parts = min(len(current), 2 * parts)
    return current


def main() -> None:
    """Print one line for each set of places."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=TICKS)
    ticks = parser.parse_args().ticks
    for named in PLACES:
        places = [place * ticks // TICKS for place in named]
        draws = random.Random(5)
        inputs = [draws.randrange(90_000) for _ in range(ticks)]
        for place, lever in zip(places, LEVERS, strict=True):
            inputs[place] = lever
        runs = CountedRuns(inputs)
        plain = ddmin(places[-1] + 1, runs.fails)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.tape"
            with recorder.Recorder(path, Levers(), trial_ms=0) as tape:
                for one in inputs:
                    tape.step(one)
            report = replayer.shrink(path, "broken == 1", Levers)
        found = [one.tick - 1 for one in report.inputs]
        print(f"{places}: delta debugging {runs.steps:,} steps, shrink {report.steps:,}; the same: {plain == found}")


if __name__ == "__main__":
    main()
