"""The configuration of a choreography, checked: protocol, sessions, buffers, scheduler, field model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Whole, structure
from sim.worlds.choreography.field_models import FieldModel
from sim.worlds.choreography.key_path import at
from sim.worlds.choreography.protocol.global_type import Protocol
from sim.worlds.choreography.protocol.payload import STATE_REGISTER
from sim.worlds.choreography.q32 import read_decimal

POLICIES = ("cooperative", "round_robin", "priority_aging", "priority_token_weighted", "progress_aware")
SESSIONS_MAX = 1000
ENDPOINTS_MAX = 4096  # Roles of all sessions.
REGISTERS_MAX = 256
BUFFER_MESSAGES_MAX = 1 << 16
PRIORITY_MAX = 1 << 16
TICKS_MAX = 1 << 40
PARTS_MAX = 64
_PART_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@attrs.frozen
class Scheduler:
    """The scheduler's configuration: it picks the roles that advance in a round; see scheduler.py.

    Attributes:
        policy: one of POLICIES; without this key, a scenario around the world may choose it, see choose_policy.
        concurrency: the number of roles that advance in a round; with fewer roles, all of them.
        priorities: one for each role, in the protocol's order, one choreography after the other; 1 by default.
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
class MachinePart:
    """One of several choreographies in a machine.

    Attributes:
        name: the first part of the names of its roles: ``vote.Alice``, ``vote.Alice.0``.
        sessions: the number of parallel runs of its protocol.
        initial, field: as in ChoreographyConfig.
    """

    name: str
    protocol: Protocol
    sessions: Annotated[int, Whole(1, SESSIONS_MAX)] = 1
    initial: tuple[InitialRegisters, ...] = ()
    field: FieldModel | None = None

    def __attrs_post_init__(self) -> None:
        if not _PART_NAME.fullmatch(self.name):
            raise ConfigError("name", f"expected a name of letters, digits, '_' and '-', got {self.name!r}")
        self.check()

    def check(self) -> None:
        """Raise ConfigError for the first table that does not fit to the roles."""
        roles = self.protocol.roles
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

    @property
    def width(self) -> int:
        """The number of registers from 2 on that the roles need."""
        widths = [len(initial.values) for initial in self.initial]
        return max(widths + ([self.field.width] if self.field is not None else []), default=0)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The roles of all sessions."""
        roles = [f"{self.name}.{role}" if self.name else role for role in self.protocol.roles]
        if self.sessions == 1:
            return tuple(roles)
        return tuple(f"{role}.{session}" for session in range(self.sessions) for role in roles)

    @property
    def numbers(self) -> range:
        """The numbers of the roles of the protocol."""
        return range(len(self.protocol.roles))

    def initial_state(self, role: int) -> list[int]:
        """The values of the registers from 2 on of a role of the protocol, at tick 0."""
        if self.field is not None:
            return self.field.initial_registers(role)
        for initial in self.initial:
            if initial.role == self.protocol.roles[role]:
                return [read_decimal(value) for value in initial.values]
        return []


@attrs.frozen
class _OnlyMachinePart(MachinePart):
    """The choreography of a machine that has one."""

    def __attrs_post_init__(self) -> None:
        self.check()


@attrs.frozen
class ChoreographyConfig:
    """A complete choreography, or several in one machine.

    Attributes:
        protocol, sessions, initial, field: of the only choreography.
        sessions: the number of parallel runs of the protocol.
        choreographies: several, in place of the four keys above; one scheduler advances the roles of all.
        buffer_capacity: the most messages that wait from one role to another.
        registers: of each role; by default the number needed, at least 4.
        ticks: the length of a run by ``record run``.
    """

    protocol: Protocol | None = None
    sessions: Annotated[int, Whole(1, SESSIONS_MAX)] = 1
    choreographies: tuple[MachinePart, ...] = ()
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
        if self.choreographies:
            self._check_several()
        elif self.protocol is None:
            raise ConfigError("protocol", "this key is missing")
        parts = self.parts  # Checks the only one.
        count = sum(len(part.endpoints) for part in parts)
        if count > ENDPOINTS_MAX:
            raise ConfigError("sessions", f"expected at most {ENDPOINTS_MAX} roles in all sessions, got {count}")
        roles = sum(len(part.protocol.roles) for part in parts)
        if self.scheduler.priorities and len(self.scheduler.priorities) != roles:
            given = len(self.scheduler.priorities)
            raise ConfigError("scheduler.priorities", f"expected one for each of {roles} roles, got {given}")
        if self.registers is not None and self.registers < self._needed:
            raise ConfigError("registers", f"expected at least {self._needed}, got {self.registers}")

    def _check_several(self) -> None:
        for key, default in (("protocol", None), ("sessions", 1), ("initial", ()), ("field", None)):
            if getattr(self, key) != default:
                raise ConfigError(key, "not with choreographies, each of which has its own")
        if len(self.choreographies) > PARTS_MAX:
            raise ConfigError("choreographies", f"expected at most {PARTS_MAX}, got {len(self.choreographies)}")
        names = [part.name for part in self.choreographies]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ConfigError(f"choreographies[{index}].name", f"{name} is used twice")

    @property
    def parts(self) -> tuple[MachinePart, ...]:
        """The choreographies of the machine; the name of an only one is empty."""
        if self.choreographies:
            return self.choreographies
        assert self.protocol is not None
        return (_OnlyMachinePart("", self.protocol, self.sessions, self.initial, self.field),)

    def key_of(self, part: int, key: str) -> str:
        """The path of a key of a choreography."""
        return f"choreographies[{part}].{key}" if self.choreographies else key

    @property
    def _needed(self) -> int:
        return STATE_REGISTER + max(part.width for part in self.parts)

    @property
    def register_count(self) -> int:
        """The number of registers of each role."""
        return self.registers if self.registers is not None else max(self._needed, 4)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The roles of all sessions: ``Alice`` in one session, ``Alice.0``, ``Alice.1`` … in several; see MachinePart, too."""
        return tuple(name for part in self.parts for name in part.endpoints)

    @property
    def priorities(self) -> tuple[int, ...]:
        """The priority of each endpoint; empty if none is given."""
        found: list[int] = []
        start = 0
        for part in self.parts if self.scheduler.priorities else ():
            own = self.scheduler.priorities[start : start + len(part.protocol.roles)]
            found += own * part.sessions
            start += len(own)
        return tuple(found)


def read_config(plain: Mapping[str, Any]) -> ChoreographyConfig:
    """Read a configuration from plain data, as parsed from TOML. Raises ConfigError for the first mistake."""
    return structure(plain, ChoreographyConfig)
