"""Properties of plant species, herbivore species and substances; checked, in fixed point."""

from __future__ import annotations

from typing import Annotated

import attrs

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole

ENERGY_MAX = 1_000_000  # Times 65,536 and a million heads this stays far below 2**63.
POPULATION_MAX = 1_000_000
TICKS_MAX = 1 << 40  # The limit of the keys of random numbers.
SUBSTANCE_KINDS = ("signal", "toxin")

Energy = Annotated[int, Decimal(0, ENERGY_MAX)]
Share = Annotated[int, Decimal(0, 1)]
Ticks = Annotated[int, Whole(0, TICKS_MAX)]


@attrs.frozen
class Flora:
    """A plant species.

    Attributes:
        name: used in summaries and placements.
        base_energy: energy of a seedling; growth is a percentage of it.
        max_energy: growth stops here.
        growth_percent: energy gained per tick, as a percentage of base_energy.
        survival_threshold: a plant with less energy dies.
        reproduction_interval: ticks from a birth, or from a success, to the next attempt.
        seed_distance_min, seed_distance_max: in cells, both included.
        seed_cost: energy that a successful reproduction takes from the parent.
        camouflage: factor on the flow field in the cells of its plants; 1 hides nothing.
    """

    name: str
    base_energy: Energy
    max_energy: Energy
    growth_percent: Annotated[int, Decimal(0, 1000)]
    survival_threshold: Energy
    reproduction_interval: Annotated[int, Whole(1, TICKS_MAX)]
    seed_cost: Energy
    seed_distance_min: Annotated[int, Whole(1, 64)] = 1
    seed_distance_max: Annotated[int, Whole(1, 64)] = 3
    camouflage: Share = ONE

    def __attrs_post_init__(self) -> None:
        if self.seed_distance_min > self.seed_distance_max:
            raise ConfigError("seed_distance_min", "expected at most seed_distance_max")
        if not self.survival_threshold <= self.base_energy <= self.max_energy:
            raise ConfigError("base_energy", "expected a value from survival_threshold to max_energy")


@attrs.frozen
class Herbivore:
    """A herbivore species.

    Attributes:
        name: used in summaries and placements.
        consumption_rate: energy that one head eats per tick at velocity 1.
        upkeep: energy that one head uses per tick.
        energy_min: least energy of one head; a swarm's surplus can become offspring.
        velocity: ticks from one move to the next.
        reproduction_divisor: a new head costs energy_min times this.
        split_population: a swarm with this many heads divides.
    """

    name: str
    consumption_rate: Energy
    upkeep: Energy
    energy_min: Annotated[int, Decimal(1, ENERGY_MAX)]
    velocity: Annotated[int, Whole(1, 1000)] = 1
    reproduction_divisor: Annotated[int, Decimal(1, 1000)] = ONE
    split_population: Annotated[int, Whole(2, POPULATION_MAX)] = 100


@attrs.frozen
class Substance:
    """A signal, which spreads with wind and roots, or a toxin, which acts where its plant stands.

    Attributes:
        name: used in triggers and pictures.
        kind: signal or toxin.
        strength: factor on the meadow's emission.
        synthesis_ticks: triggered ticks from the beginning to the first emission.
        aftereffect_ticks: ticks that it stays active after the last trigger.
        irreversible: it never stops once it is active.
        energy_cost: energy that its plant pays per tick while it is active.
        lethality: toxins only: share of the heads that it kills per tick at concentration 1.
        repellence: toxins only: ticks of random walk that it causes.
    """

    name: str
    kind: str
    strength: Annotated[int, Decimal(0, 1000)] = ONE
    synthesis_ticks: Ticks = 1
    aftereffect_ticks: Ticks = 0
    irreversible: bool = False
    energy_cost: Energy = 0
    lethality: Share = 0
    repellence: Annotated[int, Whole(0, 1000)] = 0

    def __attrs_post_init__(self) -> None:
        if self.kind not in SUBSTANCE_KINDS:
            raise ConfigError("kind", f"expected one of {', '.join(SUBSTANCE_KINDS)}, got {self.kind!r}")
        if self.kind == "signal" and (self.lethality or self.repellence):
            raise ConfigError("lethality" if self.lethality else "repellence", "only a toxin has this key")
