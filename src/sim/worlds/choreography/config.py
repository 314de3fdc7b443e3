"""What a choreography is made of: a protocol, sessions, buffers, a scheduler, a field model; checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Whole, structure
from sim.worlds.choreography.field_models import FieldModel
from sim.worlds.choreography.key_path import at
from sim.worlds.choreography.protocol.global_type import Protocol
from sim.worlds.choreography.protocol.payload import STATE_REGISTER
from sim.worlds.choreography.protocol.projection import Program, project
from sim.worlds.choreography.q32 import read_decimal

POLICIES = ("cooperative", "round_robin", "priority_aging", "priority_token_weighted", "progress_aware")
SESSIONS_MAX = 1000
ENDPOINTS_MAX = 4096  # Roles of all sessions.
REGISTERS_MAX = 256
BUFFER_MESSAGES_MAX = 1 << 16
PRIORITY_MAX = 1 << 16
TICKS_MAX = 1 << 40


@attrs.frozen
class Scheduler:
    """Which roles are advanced in a round; see scheduler.py.

    Attributes:
        policy: one of POLICIES; what is not said here, a scenario around the world may say, see choose_policy.
        concurrency: how many roles are advanced in a round; as many as there are, or more, is all.
        priorities: for each role, in the protocol's order; 1 by default.
    """

    policy: str = "cooperative"
    concurrency: Annotated[int, Whole(1, ENDPOINTS_MAX)] = 1
    priorities: tuple[Annotated[int, Whole(1, PRIORITY_MAX)], ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ConfigError("policy", f"one of {', '.join(POLICIES)} was expected, found {self.policy!r}")


@attrs.frozen
class InitialRegisters:
    """What a role's registers from 2 on hold at tick 0, in each session; decimals."""

    role: str
    values: tuple[Any, ...]

    def __attrs_post_init__(self) -> None:
        for index, value in enumerate(self.values):
            try:
                read_decimal(value)
            except ValueError as error:
                raise ConfigError(f"values[{index}]", str(error)) from None


@attrs.frozen
class ChoreographyConfig:
    """A whole choreography.

    Attributes:
        sessions: how many times the protocol is run, side by side.
        buffer_capacity: messages from one role to another that can wait.
        registers: of each role; as many as are needed, and at least 4, by default.
        ticks: how far ``record run`` goes.
    """

    protocol: Protocol
    sessions: Annotated[int, Whole(1, SESSIONS_MAX)] = 1
    buffer_capacity: Annotated[int, Whole(1, BUFFER_MESSAGES_MAX)] = 4
    registers: Annotated[int, Whole(STATE_REGISTER, REGISTERS_MAX)] | None = None
    initial: tuple[InitialRegisters, ...] = ()
    scheduler: Scheduler = Scheduler()
    field: FieldModel | None = None
    world: str = "choreography"
    name: str = ""
    seed: Annotated[int, Whole(0, (1 << 63) - 1)] = 0  # TOML and JSON readers agree on integers up to here.
    ticks: Annotated[int, Whole(1, TICKS_MAX)] = 1000

    def __attrs_post_init__(self) -> None:
        roles = self.protocol.roles
        if len(roles) * self.sessions > ENDPOINTS_MAX:
            raise ConfigError("sessions", f"at most {ENDPOINTS_MAX} roles of all sessions were expected")
        if self.scheduler.priorities and len(self.scheduler.priorities) != len(roles):
            found = len(self.scheduler.priorities)
            raise ConfigError("scheduler.priorities", f"one for each of {len(roles)} roles was expected, found {found}")
        if self.field is not None:
            with at("field"):
                self.field.check_roles(roles)
        for index, initial in enumerate(self.initial):
            place = f"initial[{index}]"
            if initial.role not in roles:
                raise ConfigError(
                    f"{place}.role", f"one of the roles {', '.join(roles)} was expected, found {initial.role!r}"
                )
            if initial.role in [other.role for other in self.initial[:index]]:
                raise ConfigError(f"{place}.role", f"{initial.role} has its registers already")
            if self.field is not None:
                raise ConfigError(place, "with a field, its own keys say what registers hold at first")
        if self.registers is not None and self.registers < self._needed:
            raise ConfigError("registers", f"at least {self._needed} were expected, found {self.registers}")

    @property
    def _needed(self) -> int:
        widths = [len(initial.values) for initial in self.initial]
        return STATE_REGISTER + max(widths + ([self.field.width] if self.field is not None else []), default=0)

    @property
    def register_count(self) -> int:
        """Registers of each role."""
        return self.registers if self.registers is not None else max(self._needed, 4)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The roles of all sessions: ``Alice`` in one session, ``Alice.0``, ``Alice.1`` … in several."""
        if self.sessions == 1:
            return self.protocol.roles
        return tuple(f"{role}.{session}" for session in range(self.sessions) for role in self.protocol.roles)

    def make_programs(self) -> tuple[Program, ...]:
        """The program of each role of the protocol. Raises ConfigError if a role could not follow the protocol."""
        with at("protocol"):
            return project(self.protocol, self.register_count)

    def initial_state(self, role: int) -> list[int]:
        """What the registers of a role of the protocol hold from 2 on at tick 0."""
        if self.field is not None:
            return self.field.initial_registers(role)
        for initial in self.initial:
            if initial.role == self.protocol.roles[role]:
                return [read_decimal(value) for value in initial.values]
        return []


def read_config(plain: Mapping[str, Any]) -> ChoreographyConfig:
    """The configuration in plain data, as TOML gives it. Raises ConfigError for the first mistake."""
    return structure(plain, ChoreographyConfig)
