"""The configuration of a choreography, checked: protocol, sessions, buffers, scheduler, field model."""

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
    """The scheduler's configuration: it picks the roles that advance in a round; see scheduler.py.

    Attributes:
        policy: one of POLICIES; without this key, a scenario around the world may choose it, see choose_policy.
        concurrency: the number of roles that advance in a round; with fewer roles, all of them.
        priorities: one for each role, in the protocol's order; 1 by default.
    """

    policy: str = "cooperative"
    concurrency: Annotated[int, Whole(1, ENDPOINTS_MAX)] = 1
    priorities: tuple[Annotated[int, Whole(1, PRIORITY_MAX)], ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ConfigError("policy", f"expected one of {', '.join(POLICIES)}, got {self.policy!r}")


@attrs.frozen
class InitialRegisters:
    """The values of a role's registers from 2 on at tick 0, in each session; decimals."""

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
    """A complete choreography.

    Attributes:
        sessions: the number of parallel runs of the protocol.
        buffer_capacity: the most messages that wait from one role to another.
        registers: of each role; by default the number needed, at least 4.
        ticks: the length of a run by ``record run``.
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
            raise ConfigError(
                "sessions", f"expected at most {ENDPOINTS_MAX} roles in all sessions, got {len(roles) * self.sessions}"
            )
        if self.scheduler.priorities and len(self.scheduler.priorities) != len(roles):
            count = len(self.scheduler.priorities)
            raise ConfigError("scheduler.priorities", f"expected one for each of {len(roles)} roles, got {count}")
        if self.field is not None:
            with at("field"):
                self.field.check_roles(roles)
        for index, initial in enumerate(self.initial):
            key = f"initial[{index}]"
            if initial.role not in roles:
                raise ConfigError(f"{key}.role", f"expected one of the roles {', '.join(roles)}, got {initial.role!r}")
            if initial.role in [earlier.role for earlier in self.initial[:index]]:
                raise ConfigError(f"{key}.role", f"{initial.role} has two tables of registers: remove one")
            if self.field is not None:
                raise ConfigError(key, "not with field, which sets the registers itself")
        if self.registers is not None and self.registers < self._needed:
            raise ConfigError("registers", f"expected at least {self._needed}, got {self.registers}")

    @property
    def _needed(self) -> int:
        widths = [len(initial.values) for initial in self.initial]
        return STATE_REGISTER + max(widths + ([self.field.width] if self.field is not None else []), default=0)

    @property
    def register_count(self) -> int:
        """The number of registers of each role."""
        return self.registers if self.registers is not None else max(self._needed, 4)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The roles of all sessions: ``Alice`` in one session, ``Alice.0``, ``Alice.1`` … in several."""
        if self.sessions == 1:
            return self.protocol.roles
        return tuple(f"{role}.{session}" for session in range(self.sessions) for role in self.protocol.roles)

    def make_programs(self) -> tuple[Program, ...]:
        """The program of each role of the protocol. Raises ConfigError if a role cannot follow the protocol."""
        with at("protocol"):
            return project(self.protocol, self.register_count)

    def initial_state(self, role: int) -> list[int]:
        """The values of the registers from 2 on of a role of the protocol, at tick 0."""
        if self.field is not None:
            return self.field.initial_registers(role)
        for initial in self.initial:
            if initial.role == self.protocol.roles[role]:
                return [read_decimal(value) for value in initial.values]
        return []


def read_config(plain: Mapping[str, Any]) -> ChoreographyConfig:
    """Read a configuration from plain data, as parsed from TOML. Raises ConfigError for the first mistake."""
    return structure(plain, ChoreographyConfig)
