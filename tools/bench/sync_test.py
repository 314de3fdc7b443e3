"""The cost of a sync test per tick: capturing what is outside the state, and a complete test.

Run it: python tools/bench/sync_test.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots
from replayer import SyncTest
from replayer.diagnose.hidden_state.sync_test import PERIOD_TICKS
from sim import Field, RandomStream, Schema, State
from sim.kernel.simulation import as_simulation
from sim.scenario.scenario_file import load_scenario

TICKS = 400
REPEATS = 300


class Walkers:
    """A small world: 500 random walkers."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (500,)), Field("y", "i8", (500,)), Field("rng", "u8", (4,))))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        """Move each walker by at most one."""
        random = RandomStream(self.state["rng"])
        for name in ("x", "y"):
            self.state[name][:] += random.integers(-1, 2, 500)


def median_us(act: Callable[[], Any], repeats: int) -> float:
    """The median duration of act, in microseconds."""
    times = []
    for _ in range(repeats):
        start_s = time.perf_counter()
        act()
        times.append(time.perf_counter() - start_s)
    return statistics.median(times) * 1e6


def main() -> None:
    """Print a line for each world."""
    scenario = load_scenario("quiet-meadow")
    worlds: dict[str, tuple[Callable[[], Any], Callable[[int], Any] | None, int]] = {
        "Walkers": (Walkers, None, TICKS),
        "quiet-meadow": (lambda: scenario.world.make(scenario.config), scenario.world.inputs(scenario.config), 60),
    }
    for name, (factory, inputs, ticks) in worlds.items():
        roots, simulation = Roots(factory), as_simulation(factory())
        roots.add_types(take_ambient(roots, simulation).types)
        once_us = median_us(lambda roots=roots, one=simulation: take_ambient(roots, one), REPEATS)  # type: ignore[misc]
        step_us = median_us(lambda one=simulation: one.step(None), 50)  # type: ignore[misc]
        start_s = time.perf_counter()
        report = SyncTest(factory, inputs, ticks=ticks).run()
        test_us = (time.perf_counter() - start_s) / report.tick_count * 1e6
        print(
            f"{name}: captured in {once_us:,.0f} µs, {once_us / PERIOD_TICKS:,.0f} µs a tick of a period of {PERIOD_TICKS}; "
            f"a step takes {step_us:,.0f} µs, the complete test {test_us:,.0f} µs a tick; passed: {report.ok}"
        )


if __name__ == "__main__":
    main()
