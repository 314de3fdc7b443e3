"""Generators of NumPy in attributes of a captured object: what they share with others, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.adapters.find_adapter import adapt
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.adapters.plain_object.adapter import fields
from sim.kernel.simulation import restore


class Pair:
    """Two generators of one bit generator, until one is made again; before a recording, or in it."""

    def __init__(self) -> None:
        bits = np.random.PCG64(1)
        self.a, self.b = np.random.Generator(bits), np.random.Generator(bits)
        self.drawn = 0.0

    def part(self) -> None:
        """Give the second one its own."""
        self.b = np.random.default_rng(7)

    def step(self, _: Any = None) -> None:
        """Draw from both, and spawn."""
        self.drawn = self.a.random() + 2 * self.b.random() + 4 * np.random.default_rng(_seeds(self.b)).random()


def _seeds(generator: Any) -> Any:
    return generator.bit_generator._seed_seq.spawn(1)[0]


def test_a_fresh_object_whose_generators_share_what_the_recorded_ones_do_not() -> None:
    game = Pair()
    game.part()
    live = adapt(game, fields())
    for _ in range(5):
        live.step(None)
    state, drawn = live.state.snapshot(), []
    for _ in range(5):
        live.step(None)
        drawn.append(game.drawn)
    other = Pair()
    simulation = adapt(other, fields())
    restore(simulation, state)
    again = []
    for _ in range(5):
        simulation.step(None)
        again.append(other.drawn)
    assert again == drawn
    assert simulation.state.hash() == live.state.hash()


@pytest.mark.parametrize(
    ("seeds", "is_saved"),
    [
        (np.random.SeedSequence(5, pool_size=1024), True),
        (np.random.SeedSequence(5, pool_size=1025), False),
        (np.random.SeedSequence(list(range(1 << 16))), True),
        (np.random.SeedSequence(list(range((1 << 16) + 1))), False),
        (np.random.SeedSequence(list(range(1 << 16)), spawn_key=(1,)), False),
    ],
    ids=["pool", "a larger pool", "words", "more words", "words and a key"],
)
def test_what_is_saved_can_be_restored(seeds: Any, is_saved: bool) -> None:  # noqa: FBT001
    """At the limits of a seed sequence; beyond them it is refused by its path."""

    class Game:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(seeds)

        def step(self, _: Any = None) -> None:
            self.rng.random()

    if not is_saved:
        with pytest.raises(NotCapturedError, match=r"Game\.rng.*SeedSequence"):
            adapt(Game(), fields())
        return
    live = adapt(Game(), fields())
    live.step(None)
    other = adapt(Game(), fields())
    restore(other, live.state.snapshot())
    live.step(None)
    other.step(None)
    assert other.state.hash() == live.state.hash()
