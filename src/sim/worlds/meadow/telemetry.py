"""The figures of a tick: populations, energies, births and deaths so far, by species and cause.

Counts are whole numbers. Energies are decimals, and exact: each multiple of 1/65536 below 2**37 is a double. Births,
deaths, costs and losses are sums since tick 0, so the difference of two rows covers the ticks between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.fixed_point import to_number
from sim.kernel.state import State
from sim.worlds.meadow.config.meadow import MeadowConfig
from sim.worlds.meadow.model.layout import HeadLoss, LossCause
from sim.worlds.meadow.model.loops import sum_by_species
from sim.worlds.meadow.model.numba_loops import PLANTS_MIN, compiled_for

Column = npt.NDArray[Any]


def make_row(state: State, config: MeadowConfig) -> dict[str, int | float]:
    """Return the row of the current tick, by column."""
    return dict(_figures(state, config))


def _figures(state: State, config: MeadowConfig) -> Iterator[tuple[str, int | float]]:
    for table, names, amount in (
        ("plants", [flora.name for flora in config.flora], None),
        ("swarms", [herbivore.name for herbivore in config.herbivores], "swarms.population"),
    ):
        species = state[f"{table}.species"]
        count, energy = _counts_and_sums(state[f"{table}.id"], species, state[f"{table}.energy"], len(names))
        heads = _sums(state[amount], species, len(names)) if amount else None
        for index, name in enumerate(names):
            yield f"{table}.{name}", int(count[index])
            yield f"{table}_energy.{name}", to_number(int(energy[index]))
            if heads is not None:
                yield f"heads.{name}", int(heads[index])
    for index, flora in enumerate(config.flora):
        yield f"births.{flora.name}", int(state["births"][index])
        for cause in LossCause:
            yield f"deaths.{flora.name}.{cause.name.lower()}", int(state["deaths"][index, cause])
        yield f"defence_cost.{flora.name}", to_number(int(state["defence_cost"][index]))
    for index, herbivore in enumerate(config.herbivores):
        yield f"heads_born.{herbivore.name}", int(state["heads_born"][index])
        for loss in HeadLoss:
            yield f"heads_lost.{herbivore.name}.{loss.name.lower()}", int(state["heads_lost"][index, loss])
    if config.substances:
        active = np.flatnonzero(state["substances.active"] != 0)
        running = np.bincount(state["substances.substance"][active], minlength=len(config.substances))
        for index, substance in enumerate(config.substances):
            yield f"active.{substance.name}", int(running[index])


def _counts_and_sums(ids: Column, species: Column, energy: Column, kinds: int) -> tuple[Column, Column]:
    """Count the rows in use, and add up their energies, by species: (kinds,) int64 each."""
    compiled = compiled_for(len(ids), PLANTS_MIN, sum_by_species)
    if compiled is not None:
        count, sums = np.zeros((2, kinds), np.int64)
        compiled(ids, species, energy, count, sums)
        return count, sums
    count = np.bincount(species, minlength=kinds)
    count[:1] -= np.count_nonzero(ids == 0)  # A free row is all zeros, so it was counted as species 0.
    return count, _sums(energy, species, kinds)


def _sums(values: Column, species: Column, count: int) -> Column:
    """Return exact sums by species; weights of bincount would be floats."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, species, values)
    return sums
