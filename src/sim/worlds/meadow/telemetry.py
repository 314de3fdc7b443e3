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


def make_row(state: State, config: MeadowConfig, columns: tuple[str, ...]) -> dict[str, int | float]:
    """Return the row of the current tick, by column. columns: column_names of the configuration."""
    return dict(zip(columns, _figures(state, config), strict=True))


def column_names(config: MeadowConfig) -> tuple[str, ...]:
    """The names of the columns, in the order of a row. To make them takes longer than the figures of a tick."""
    flora, herbivores, substances = (
        [one.name for one in some] for some in (config.flora, config.herbivores, config.substances)
    )
    names = [f"{figure}.{name}" for name in flora for figure in ("plants", "plants_energy")]
    names += [f"{figure}.{name}" for name in herbivores for figure in ("swarms", "swarms_energy", "heads")]
    for name in flora:
        causes = [f"deaths.{name}.{cause.name.lower()}" for cause in LossCause]
        names += [f"births.{name}", *causes, f"defence_cost.{name}"]
    for name in herbivores:
        names += [f"heads_born.{name}", *(f"heads_lost.{name}.{loss.name.lower()}" for loss in HeadLoss)]
    return (*names, *(f"active.{name}" for name in substances))


def _figures(state: State, config: MeadowConfig) -> Iterator[int | float]:
    for table, kinds in (("plants", len(config.flora)), ("swarms", len(config.herbivores))):
        species = state[f"{table}.species"]
        count, energy = _counts_and_sums(state[f"{table}.id"], species, state[f"{table}.energy"], kinds)
        figures = [count.tolist(), map(to_number, energy.tolist())]
        if table == "swarms":
            figures.append(_sums(state["swarms.population"], species, kinds).tolist())
        for of_species in zip(*figures, strict=True):
            yield from of_species
    plants = (state[name].tolist() for name in ("births", "deaths", "defence_cost"))
    for births, deaths, cost in zip(*plants, strict=True):
        yield from (births, *deaths, to_number(cost))
    for born, lost in zip(state["heads_born"].tolist(), state["heads_lost"].tolist(), strict=True):
        yield from (born, *lost)
    if config.substances:
        active = np.flatnonzero(state["substances.active"])
        yield from np.bincount(state["substances.substance"][active], minlength=len(config.substances)).tolist()


def _counts_and_sums(ids: Column, species: Column, energy: Column, kinds: int) -> tuple[Column, Column]:
    """Count the rows in use, and add up their energies, by species: (kinds,) int64 each."""
    compiled = compiled_for(len(ids), PLANTS_MIN, sum_by_species)
    if compiled is not None:
        counts, sums = np.zeros((2, kinds), np.int64)
        compiled(ids, species, energy, counts, sums)
        return counts, sums
    count = np.bincount(species, minlength=kinds)
    count[:1] -= np.count_nonzero(ids == 0)  # A free row is all zeros, so it was counted as species 0.
    return count, _sums(energy, species, kinds)


def _sums(values: Column, species: Column, count: int) -> Column:
    """Return exact sums by species; weights of bincount would be floats."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, species, values)
    return sums
