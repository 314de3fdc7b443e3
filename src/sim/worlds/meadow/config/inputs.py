"""The kinds of inputs of a meadow, and the inputs that a scenario schedules."""

from __future__ import annotations

from typing import Annotated

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole
from sim.worlds.meadow.config.species import POPULATION_MAX, TICKS_MAX

INPUT_KEYS = {  # The keys of each kind of input, in the order that sorts inputs canonically.
    "plant": ("species", "x", "y"),
    "release": ("species", "x", "y", "population"),
    "wind": ("east", "south"),
    "gust": ("x", "y", "radius", "east", "south"),
    "drought": ("ticks", "percent"),
    "cull": ("species", "x", "y", "radius", "percent"),
    "set": ("parameter", "value"),
    "steer": ("swarm", "direction"),
    "split": ("swarm",),
    "spawn": ("species", "x", "y", "population"),
}
PLAYER_KINDS = ("steer", "split", "spawn")  # Never scheduled: a player decides on them after seeing the state.

# The parameters that inputs can change while a meadow runs, with the bounds of their values: percentages, energies and
# concentrations are in fixed point, ticks and heads are whole numbers.
PARAMETERS: dict[str, Whole | Decimal] = {
    "growth": Decimal(0, 1000),
    "link_interval": Whole(1, TICKS_MAX),
    "link_cost": Decimal(0, 1_000_000),
    "carrying_capacity": Whole(1, POPULATION_MAX),
    "emission": Decimal(0, 1000),
    "signal_decay": Decimal(0, 1),
}

_Cells = Annotated[int, Whole(0, 4095)]
_Ticks = Annotated[int, Whole(1, TICKS_MAX)]
_WindPart = Annotated[int, Decimal(-64, 64)]


@attrs.frozen
class ScheduledInput:
    """An input that the scenario sends at a tick and, with ``every``, repeats until a tick.

    Attributes:
        kind: a kind of INPUT_KEYS that is not in PLAYER_KINDS; it decides which other keys are required.
        tick: the first tick at which it is sent.
        every, until: ticks between repetitions, and the last tick at which one may be sent.
        parameter, value: the name of the parameter to set, and its new value in the unit of the parameter's key.
    """

    kind: str
    tick: _Ticks
    every: _Ticks | None = None
    until: _Ticks | None = None
    species: str | None = None
    x: _Cells | None = None
    y: _Cells | None = None
    radius: _Cells | None = None
    population: Annotated[int, Whole(1, POPULATION_MAX)] | None = None
    east: _WindPart | None = None
    south: _WindPart | None = None
    ticks: Annotated[int, Whole(0, TICKS_MAX)] | None = None
    percent: Annotated[int, Whole(0, 200)] | None = None
    parameter: str | None = None
    value: Annotated[int, Decimal(0, TICKS_MAX)] | None = None

    def __attrs_post_init__(self) -> None:
        kinds = [kind for kind in INPUT_KEYS if kind not in PLAYER_KINDS]
        if self.kind not in kinds:
            raise ConfigError("kind", f"expected one of {', '.join(kinds)}, got {self.kind!r}")
        required = set(INPUT_KEYS[self.kind])
        for field in attrs.fields(ScheduledInput)[4:]:
            is_set = getattr(self, field.name) is not None
            if is_set != (field.name in required):
                problem = "there is no such key for" if is_set else "this key is missing for"
                raise ConfigError(field.name, f"{problem} an input of kind {self.kind}")
        if self.parameter is not None:
            self._check_parameter()

    def _check_parameter(self) -> None:
        if self.parameter not in PARAMETERS:
            names = ", ".join(PARAMETERS)
            raise ConfigError("parameter", f"expected one of {names}, got {self.parameter!r}")
        bounds = PARAMETERS[self.parameter]
        low, high = fixed_bounds(bounds)
        sent = self.sent_value
        if isinstance(bounds, Whole) and self.value != sent << 16:
            raise ConfigError("value", f"expected a whole number from {bounds.low} to {bounds.high}")
        if not low <= sent <= high:
            number_type = "whole" if isinstance(bounds, Whole) else "decimal"
            raise ConfigError("value", f"expected a {number_type} number from {bounds.low} to {bounds.high}")

    @property
    def sent_value(self) -> int:
        """The value in the form of an input: a whole number, or fixed point."""
        assert self.value is not None
        assert self.parameter is not None
        return self.value >> 16 if isinstance(PARAMETERS[self.parameter], Whole) else self.value


def fixed_bounds(bounds: Whole | Decimal) -> tuple[int, int]:
    """Return the bounds of a parameter in the form of an input's value: whole numbers, or fixed point."""
    return (bounds.low, bounds.high) if isinstance(bounds, Whole) else (bounds.low << 16, bounds.high << 16)
