"""Field models: they move a role's registers while it exchanges messages, in Q32.32.

A model is called once for each message that a role sends or receives. Registers from 2 on are the role's state.
Register 1 holds the first number of the last message received; before any message, the first number of the role's own
state. A model also reads the count of the role's calls, which is in the state of the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Whole
from sim.worlds.choreography.protocol.payload import STATE_REGISTER
from sim.worlds.choreography.q32 import ONE, add, divide, multiply, read_decimal, saturate, subtract, tanh

MODELS: dict[str, tuple[str, ...]] = {
    "mean_field": ("beta", "species", "initial_state", "step"),
    "hamiltonian": ("k", "mass", "positions", "momenta", "step"),
    "continuum": ("coupling", "fields", "step"),
}
HAMILTONIAN_CALLS = 4  # Two roles exchange positions, then acknowledgements.
CONTINUUM_CALLS = 2  # Two roles exchange values.
SPECIES_MAX = 64
_POSITIVE = ("step", "mass")
_HEARD, _FIRST, _SECOND = 1, STATE_REGISTER, STATE_REGISTER + 1


@attrs.frozen
class FieldModel:
    """A field model and its parameters; decimals are numbers or text.

    Attributes:
        kind: one of MODELS, which lists the keys of each model; all of them are required.
        beta, step, k, mass, coupling: decimals; step and mass are above 0.
        species: the number of species.
        initial_state: the shares of the species, equal for all roles, not negative, with sum 1.
        positions, momenta, fields: one decimal for each role.
    """

    kind: str
    beta: Any = None
    species: Annotated[int, Whole(2, SPECIES_MAX)] | None = None
    initial_state: tuple[Any, ...] | None = None
    k: Any = None
    mass: Any = None
    positions: tuple[Any, ...] | None = None
    momenta: tuple[Any, ...] | None = None
    coupling: Any = None
    fields: tuple[Any, ...] | None = None
    step: Any = None

    def __attrs_post_init__(self) -> None:
        if self.kind not in MODELS:
            raise ConfigError("kind", f"expected one of {', '.join(MODELS)}, got {self.kind!r}")
        for key in sorted({key for keys in MODELS.values() for key in keys}):
            value = getattr(self, key)
            if (value is not None) != (key in MODELS[self.kind]):
                raise ConfigError(key, "this key is missing" if value is None else f"not with kind = {self.kind!r}")
            if key == "species" or value is None:
                continue
            for index, decimal in enumerate(value if isinstance(value, tuple) else [value]):
                self._check_decimal(decimal, f"{key}[{index}]" if isinstance(value, tuple) else key)
        if self.kind == "mean_field":
            self._check_shares()

    def _check_decimal(self, value: Any, key: str) -> None:
        try:
            number = read_decimal(value)
        except ValueError as error:
            raise ConfigError(key, str(error)) from None
        if key in _POSITIVE and number <= 0:
            raise ConfigError(key, f"expected a decimal above 0, got {value!r}")

    def _check_shares(self) -> None:
        shares = [read_decimal(share) for share in self.initial_state or ()]
        if len(shares) != self.species:
            raise ConfigError("initial_state", f"expected {self.species} shares, got {len(shares)}")
        # Each share may be off by half a unit: thirds can be written with ten places.
        if min(shares) < 0 or abs(sum(shares) - ONE) > len(shares):
            raise ConfigError(
                "initial_state",
                f"expected shares of at least 0 with sum 1, got {', '.join(map(str, self.initial_state or ()))}",
            )

    def check_roles(self, roles: Sequence[str]) -> None:
        """Raise ConfigError for a list that does not have one value for each role."""
        for key in ("positions", "momenta", "fields"):
            values = getattr(self, key)
            if values is not None and len(values) != len(roles):
                raise ConfigError(key, f"expected one for each of {len(roles)} roles, got {len(values)}")

    @property
    def width(self) -> int:
        """The number of registers from 2 on that the model moves."""
        return {"mean_field": self.species or 0, "hamiltonian": 2, "continuum": 1}[self.kind]

    def initial_registers(self, role: int) -> list[int]:
        """The values of the registers from 2 on at tick 0."""
        if self.kind == "mean_field":
            return normalise([read_decimal(share) for share in self.initial_state or ()])
        keys = ("positions", "momenta") if self.kind == "hamiltonian" else ("fields",)
        return [read_decimal(getattr(self, key)[role]) for key in keys]

    def act(self, registers: list[int], calls: int) -> bool:
        """Move the registers of a role in place. calls: of this role, this one included. Return True if the model acted."""
        if self.kind == "mean_field":
            self._mean_field(registers)
            return True
        if self.kind == "hamiltonian":
            if calls % HAMILTONIAN_CALLS == 0:
                self._hamiltonian(registers, first=calls == HAMILTONIAN_CALLS)
            return calls % HAMILTONIAN_CALLS == 0
        if calls % CONTINUUM_CALLS == 0:
            pull = multiply(read_decimal(self.coupling), subtract(registers[_HEARD], registers[_FIRST]))
            registers[_FIRST] = add(registers[_FIRST], multiply(pull, read_decimal(self.step)))
        return calls % CONTINUUM_CALLS == 0

    def _mean_field(self, registers: list[int]) -> None:
        end = STATE_REGISTER + self.width
        difference = subtract(registers[_FIRST], registers[_SECOND])
        drift = subtract(tanh(multiply(read_decimal(self.beta), difference)), difference)
        moved = multiply(drift, read_decimal(self.step))
        registers[_FIRST] = add(registers[_FIRST], moved)
        registers[_SECOND] = subtract(registers[_SECOND], moved)
        registers[STATE_REGISTER:end] = normalise(registers[STATE_REGISTER:end])

    def _hamiltonian(self, registers: list[int], *, first: bool) -> None:
        """Leapfrog: momenta lie between positions in time, so the first kick is half a kick."""
        step = read_decimal(self.step)
        force = multiply(read_decimal(self.k), subtract(registers[_HEARD], registers[_FIRST]))
        registers[_SECOND] = add(registers[_SECOND], multiply(force, step // 2 if first else step))
        speed = divide(registers[_SECOND], read_decimal(self.mass))
        registers[_FIRST] = add(registers[_FIRST], multiply(speed, step))


def normalise(shares: Sequence[int]) -> list[int]:
    """Clamp shares to 0 … 1 and scale them to a sum of exactly 1. The rounding error goes to the largest."""
    clamped = [max(0, min(ONE, share)) for share in shares]
    total = saturate(sum(clamped))
    if total == 0:
        return clamped
    scaled = [divide(share, total) for share in clamped]
    scaled[scaled.index(max(scaled))] += ONE - sum(scaled)
    return scaled
