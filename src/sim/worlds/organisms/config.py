"""The configuration of a world of organisms, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Whole, structure
from sim.worlds.organisms.instructions import parse_program

ORGANISMS_MAX = 1 << 16
ENERGY_MAX = 1 << 31
AMOUNT_MAX = 1 << 40
TICKS_MAX = 1 << 40
SLICE_MAX = 1 << 10
ANCESTOR = (
    "eat copy copy copy eat copy copy copy eat divide jback read"  # It copies itself once in some 18 instructions.
)
INPUT_KEYS = {"feed": ("amount",), "inject": ("program", "count")}

_Ticks = Annotated[int, Whole(1, TICKS_MAX)]


@attrs.frozen
class TimedInput:
    """An input that the scenario sends at a tick and, with ``every``, again and again until a tick.

    Attributes:
        kind: "feed" adds energy to the pool, "inject" adds organisms; the other keys depend on it.
        tick, every, until: the first tick, ticks between repetitions, and the last tick at which it may be sent.
        amount: of energy. program, count: of the organisms, see inputs.py.
    """

    kind: str
    tick: _Ticks
    every: _Ticks | None = None
    until: _Ticks | None = None
    amount: Annotated[int, Whole(1, AMOUNT_MAX)] | None = None
    program: str | None = None
    count: Annotated[int, Whole(1, ORGANISMS_MAX)] | None = None

    def __attrs_post_init__(self) -> None:
        if self.kind not in INPUT_KEYS:
            raise ConfigError("kind", f"expected one of {', '.join(INPUT_KEYS)}, got {self.kind!r}")
        for key in ("amount", "program", "count"):
            is_set = getattr(self, key) is not None
            if is_set != (key in INPUT_KEYS[self.kind]):
                problem = "there is no such key for" if is_set else "this key is missing for"
                raise ConfigError(key, f"{problem} an input of kind {self.kind}")
        if self.program is not None:
            _check_program("program", self.program)

    def is_due(self, tick: int) -> bool:
        """Return True if the input is sent at this tick."""
        since = tick - self.tick
        if since < 0 or (self.until is not None and tick > self.until):
            return False
        return since == 0 or (self.every is not None and since % self.every == 0)

    def sent(self) -> dict[str, Any]:
        """The input as a step takes it."""
        return {"kind": self.kind} | {key: getattr(self, key) for key in INPUT_KEYS[self.kind]}


@attrs.frozen
class OrganismsConfig:
    """A world of organisms. Energies are whole numbers.

    Attributes:
        ancestors: the programs of the organisms at tick 0, in turn.
        organisms_min, organisms_max: below the first the seed bank repopulates the world, above the second the reaper acts.
        slice: the instructions of an organism in a tick; each takes 1 of its energy.
        start_energy: of an organism at tick 0, and of those that an input or the seed bank adds.
        energy_max: of an organism. divide_energy: the least at which it can divide.
        inflow: energy that the pool gets in a tick. pool_max: the most that the inflow fills it to.
        bite: the most energy that one ``eat`` gives.
        mutation: one copied operation in so many is replaced by a random one; 0 is none.
        slip: one in so many is left out, and after one in so many a random one is added; 0 is none.
        seed_bank_max: genomes that the seed bank keeps.
        history_interval, history_max: ticks between two entries of the monitoring history, and the entries it keeps.
        inputs: sent by the scenario.
        ticks: the length of a run by ``record run``.
    """

    ancestors: tuple[str, ...] = (ANCESTOR,)
    organisms_min: Annotated[int, Whole(0, ORGANISMS_MAX)] = 12
    organisms_max: Annotated[int, Whole(1, ORGANISMS_MAX)] = 300
    slice: Annotated[int, Whole(1, SLICE_MAX)] = 24
    start_energy: Annotated[int, Whole(1, ENERGY_MAX)] = 120
    energy_max: Annotated[int, Whole(1, ENERGY_MAX)] = 1000
    divide_energy: Annotated[int, Whole(2, ENERGY_MAX)] = 40
    inflow: Annotated[int, Whole(0, AMOUNT_MAX)] = 4000
    pool_max: Annotated[int, Whole(0, AMOUNT_MAX)] = 8000
    bite: Annotated[int, Whole(0, ENERGY_MAX)] = 14
    mutation: Annotated[int, Whole(0, ENERGY_MAX)] = 60
    slip: Annotated[int, Whole(0, ENERGY_MAX)] = 480
    seed_bank_max: Annotated[int, Whole(1, ORGANISMS_MAX)] = 200
    history_interval: _Ticks = 10
    history_max: Annotated[int, Whole(1, ORGANISMS_MAX)] = 100
    inputs: tuple[TimedInput, ...] = ()
    world: str = "organisms"
    name: str = ""
    seed: Annotated[int, Whole(0, (1 << 63) - 1)] = 0  # TOML and JSON readers agree on integers up to here.
    ticks: _Ticks = 1000

    def __attrs_post_init__(self) -> None:
        if not self.ancestors:
            raise ConfigError("ancestors", "expected at least one program, got none")
        for index, program in enumerate(self.ancestors):
            _check_program(f"ancestors[{index}]", program)
        if self.organisms_min > self.organisms_max:
            problem = f"expected at most organisms_max, {self.organisms_max}, got {self.organisms_min}"
            raise ConfigError("organisms_min", problem)
        if self.start_energy > self.energy_max:
            raise ConfigError(
                "start_energy", f"expected at most energy_max, {self.energy_max}, got {self.start_energy}"
            )

    @property
    def founders(self) -> tuple[bytes, ...]:
        """The genomes of the organisms at tick 0, in the order of their ids."""
        genomes = [parse_program(program) for program in self.ancestors]
        count = min(max(self.organisms_min, len(genomes)), self.organisms_max)
        return tuple(genomes[index % len(genomes)] for index in range(count))


def read_config(plain: Mapping[str, Any]) -> OrganismsConfig:
    """Read a configuration from plain data, as parsed from TOML. Raises ConfigError for the first mistake."""
    return structure(plain, OrganismsConfig)


def _check_program(key: str, text: str) -> None:
    try:
        parse_program(text)
    except ValueError as error:
        raise ConfigError(key, str(error)) from None
