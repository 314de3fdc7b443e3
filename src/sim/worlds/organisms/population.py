"""The barrier of a tick: food, births, deaths, the reaper and repopulation, all in the order of ids."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.counter_rng import KeyedRandom
from sim.kernel.state import State
from sim.worlds.organisms.config import OrganismsConfig
from sim.worlds.organisms.execution import Bodies, Requests, genome_rows
from sim.worlds.organisms.layout import COLUMNS, Statistic
from sim.worlds.organisms.seed_bank import SeedBank
from sim.worlds.organisms.table_rows import replace_rows
from sim.worlds.organisms.taxonomy import RANKS, classify


@attrs.frozen
class Newborn:
    """An organism that begins to live. mother: its id; 0 is none."""

    genome: bytes
    energy: int
    mother: int = 0
    generation: int = 0


def share_food(state: State, requests: Requests, config: OrganismsConfig) -> None:
    """Give each living organism its share for each ``eat``; what it cannot hold stays in the pool."""
    energy = state["organisms.energy"]
    asked = np.where(energy > 0, requests.asked, 0)
    total, pool = int(asked.sum()), int(state["pool"])
    if not total:
        return
    share = min(config.bite, pool // total)
    taken = np.minimum(asked * share, np.maximum(config.energy_max - energy, 0))
    energy += taken
    state["pool"][...] -= taken.sum()
    np.maximum(state["organisms.max_energy"], energy, out=state["organisms.max_energy"])


def newborns_of(state: State, requests: Requests) -> list[Newborn]:
    """The organisms that divisions made, in the order of mothers."""
    rows = np.searchsorted(state["organisms.id"], requests.mothers)
    generations = (state["organisms.generation"][rows] + 1).tolist()
    genomes = [row[:size].tobytes() for row, size in zip(requests.genomes, requests.sizes.tolist(), strict=True)]
    births = zip(genomes, requests.energies.tolist(), requests.mothers.tolist(), generations, strict=True)
    return [Newborn(*birth) for birth in births]


def replace_population(state: State, born: Sequence[Newborn], config: OrganismsConfig) -> None:
    """Add the newborns, remove the starved and those that the reaper takes, and fill up from the seed bank."""
    tick, statistics = int(state["tick"]), state["statistics"]
    alive = np.flatnonzero(state["organisms.energy"] > 0)
    statistics[Statistic.STARVED] += state.count("organisms") - len(alive)
    bank = SeedBank(state)
    for newborn in born:
        bank.note_birth(newborn.genome, tick)
    bodies = _joined({column.name: state[f"organisms.{column.name}"][alive] for column in COLUMNS}, state, born)
    excess = len(bodies["id"]) - config.organisms_max
    if excess > 0:
        bodies = _reap(bodies, excess)
        statistics[Statistic.REAPED] += excess
    lacking = config.organisms_min - len(bodies["id"])
    if lacking > 0 and bank.seeds:
        keyed, next_id = KeyedRandom(int(state["seed"])), int(state["next_id"])
        genomes = []
        for number in range(lacking):
            genomes.append(bank.draw(keyed, tick, next_id + number))
            bank.note_birth(genomes[-1], tick)
        bodies = _joined(bodies, state, [Newborn(genome, config.start_energy) for genome in genomes])
        statistics[Statistic.RESEEDED] += lacking
    bank.keep(config.seed_bank_max)
    bank.write(state)
    replace_rows(state, "organisms", bodies)


def _joined(bodies: Bodies, state: State, born: Sequence[Newborn]) -> Bodies:
    """The bodies, and those of newborns, which get the next ids."""
    if not born:
        return bodies
    first, tick = int(state["next_id"]), int(state["tick"])
    state["next_id"][...] = first + len(born)
    genomes = [newborn.genome for newborn in born]
    energy = np.array([newborn.energy for newborn in born], np.int64)
    given: dict[str, npt.ArrayLike] = {
        "energy": energy,
        "max_energy": energy,
        "id": np.arange(first, first + len(born)),
        "size": np.array([len(genome) for genome in genomes]),
        "genome": genome_rows(genomes),
        "created_at": np.full(len(born), tick),
        "mother": np.array([newborn.mother for newborn in born]),
        "generation": np.array([newborn.generation for newborn in born]),
        "taxonomy": np.array([classify(genome) for genome in genomes]).reshape(len(born), len(RANKS)),
    }
    added: Bodies = {}
    for column in COLUMNS:
        blank = np.zeros((len(born), *column.shape), column.dtype)
        blank[...] = given.get(column.name, 0)
        added[column.name] = blank
    return {name: np.concatenate([bodies[name], added[name]]) for name in bodies}


def _reap(bodies: Bodies, excess: int) -> Bodies:
    """Take away the organisms with the most errors; of equal ones the oldest in instructions, then the lowest id."""
    order = np.lexsort((bodies["id"], -bodies["age_in_instructions"], -bodies["error_count"]))
    kept = np.sort(order[excess:])  # Rows are in the order of ids.
    return {name: values[kept] for name, values in bodies.items()}
