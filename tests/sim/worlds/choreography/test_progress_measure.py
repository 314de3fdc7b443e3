"""The weighted measure W = 2 × depth + buffered of protocols, along runs in random order."""

from __future__ import annotations

import random

import pytest

from sim.scenario.results.result import PRODUCTIVE_KINDS
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.protocol.builder import branch, choice, loop, protocol, send


def exchange() -> dict[str, object]:
    """A loop, then a choice whose second branch is shorter."""
    return protocol(
        ["A", "B", "C"],
        loop("r", send("A", "B", "x", payload="number"), send("B", "C", "y"), times=3),
        choice("C", "A", branch("long", send("A", "B", "z")), branch("short", send("A", "B", "s")), schedule=["short"]),
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_weighted_measure_decreases_with_each_productive_step_and_with_no_other(seed: int) -> None:
    """Step by step: one role at a time, in any order, with room for one message or for three."""
    rng = random.Random(seed)
    world = Choreography({"protocol": exchange(), "sessions": 2, "buffer_capacity": rng.choice([1, 3])})
    while not world.ended():
        before = world.progress()
        world.step({"order": [rng.choice(world.roles)]})
        productive = sum(event["kind"] in PRODUCTIVE_KINDS for event in world.events())
        after = world.progress()
        assert productive in (0, 1)
        assert after["productive_steps"] - before["productive_steps"] == productive
        consumed = before["remaining_w"] - after["remaining_w"]
        assert consumed >= 1 if productive else consumed == 0, (seed, world.events())
        assert after["initial_w"] - after["remaining_w"] == after["consumed"]
    assert world.progress()["remaining_w"] == 0
