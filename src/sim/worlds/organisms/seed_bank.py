"""The seed bank: genomes that were born, with their usage, from which a small population is filled up."""

from __future__ import annotations

import attrs
import numpy as np

from sim.kernel.arithmetic.counter_rng import RANGE_MAX, KeyedRandom
from sim.kernel.state import State
from sim.worlds.organisms.execution import genome_rows
from sim.worlds.organisms.layout import KeyPhase
from sim.worlds.organisms.table_rows import replace_rows


@attrs.define
class Seed:
    """One genome of the bank.

    Attributes:
        first: the tick of its first birth. births: how often it was born, in any way, as long as the bank has had it.
        reseeded: how often of these from the bank.
    """

    first: int
    births: int = 0
    reseeded: int = 0


class SeedBank:
    """The seeds by genome, in the order of first births; read from a state, and written back."""

    def __init__(self, state: State) -> None:
        columns = {name: state[f"seed_bank.{name}"] for name in ("genome", "size", "first", "births", "reseeded")}
        figures = zip(*(columns[name].tolist() for name in ("first", "births", "reseeded")), strict=True)
        sizes = columns["size"].tolist()
        genomes = [columns["genome"][row, :size].tobytes() for row, size in enumerate(sizes)]
        self.seeds = {genome: Seed(*figure) for genome, figure in zip(genomes, figures, strict=True)}

    def note_birth(self, genome: bytes, tick: int) -> None:
        """Count a birth, of a known genome or a new one."""
        self.seeds.setdefault(genome, Seed(tick)).births += 1

    def draw(self, keyed: KeyedRandom, tick: int, next_id: int) -> bytes:
        """Choose a genome by a keyed draw, with chances in proportion to usage, and count that. The bank is not empty."""
        total = min(sum(seed.births for seed in self.seeds.values()), RANGE_MAX)
        left = keyed.numbers(KeyPhase.RESEED, tick, next_id)[0] * total >> 32
        for genome, seed in self.seeds.items():
            left -= seed.births
            if left < 0:
                seed.reseeded += 1
                return genome
        raise RuntimeError("the seed bank is empty")

    def keep(self, seeds_max: int) -> None:
        """Keep this many seeds: the lowest usage goes first, of equal ones the oldest, then the smallest genome."""
        excess = len(self.seeds) - seeds_max
        if excess > 0:
            order = sorted(self.seeds, key=lambda genome: (self.seeds[genome].births, self.seeds[genome].first, genome))
            for genome in order[:excess]:
                del self.seeds[genome]

    def write(self, state: State) -> None:
        """Write the seeds to the state."""
        seeds = list(self.seeds.values())
        figures = {
            name: np.array([getattr(seed, name) for seed in seeds], np.int64)
            for name in ("first", "births", "reseeded")
        }
        sizes = np.array([len(genome) for genome in self.seeds], np.int32)
        replace_rows(state, "seed_bank", {**figures, "size": sizes, "genome": genome_rows(list(self.seeds))})
