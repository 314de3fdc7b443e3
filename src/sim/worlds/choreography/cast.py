"""The roles of all sessions of all choreographies in one machine, as numbers: endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sim.kernel.registry import ConfigError
from sim.worlds.choreography.config import ChoreographyConfig
from sim.worlds.choreography.key_path import at
from sim.worlds.choreography.protocol.projection import Choose, Program, Send, project

Channel = tuple[int, int]  # Sender and receiver, as numbers of endpoints.


@attrs.frozen
class Cast:
    """The endpoints, in the order of the choreographies and of their sessions; each list has an item for each endpoint.

    Attributes:
        names: unique, for events, messages and samples.
        programs: the program that it runs.
        parts: the number of its choreography.
        sessions: the number of its session, counted over all choreographies.
        firsts: the first endpoint of its session.
        roles: its number among the roles of its protocol.
        part_programs: the programs of each choreography, by role.
        channels: sender and receiver, with the number of the queue of each.
    """

    names: tuple[str, ...]
    programs: tuple[Program, ...]
    parts: tuple[int, ...]
    sessions: tuple[int, ...]
    firsts: tuple[int, ...]
    roles: tuple[int, ...]
    part_programs: tuple[tuple[Program, ...], ...]
    channels: dict[Channel, int]

    @classmethod
    def of(cls, config: ChoreographyConfig) -> Cast:
        """Compute the cast. Raises ConfigError if a role cannot follow its protocol."""
        columns: dict[str, list[Any]] = {name: [] for name in ("programs", "parts", "sessions", "firsts", "roles")}
        part_programs: list[tuple[Program, ...]] = []
        channels: dict[Channel, int] = {}
        for number, part in enumerate(config.parts):
            with at(config.key_of(number, "protocol")):
                programs = project(part.protocol, config.register_count)
            part_programs.append(programs)
            pairs = _pairs(programs)
            for _ in range(part.sessions):
                first = len(columns["roles"])
                session = columns["sessions"][-1] + 1 if first else 0
                for role, program in enumerate(programs):
                    for name, value in zip(columns, (program, number, session, first, role), strict=True):
                        columns[name].append(value)
                for sender, receiver in pairs:
                    channels[first + sender, first + receiver] = len(channels)
        return cls(
            names=config.endpoints,
            part_programs=tuple(part_programs),
            channels=channels,
            **{name: tuple(column) for name, column in columns.items()},
        )

    @property
    def session_count(self) -> int:
        """The number of sessions of all choreographies."""
        return self.sessions[-1] + 1

    def endpoints_of(self, part: int) -> list[int]:
        """The endpoints of a choreography."""
        return [endpoint for endpoint, own in enumerate(self.parts) if own == part]

    def number_of(self, name: str) -> int:
        """The endpoint of a name. Raises ConfigError for an unknown one."""
        if name not in self.names:
            raise ConfigError("", f"expected one of the roles {', '.join(self.names)}, got {name!r}")
        return self.names.index(name)


def _pairs(programs: Sequence[Program]) -> list[tuple[int, int]]:
    """Sender and receiver of each queue of a session."""
    return sorted(
        {
            (role, node.to)
            for role, program in enumerate(programs)
            for node in program
            if isinstance(node, Send | Choose)
        }
    )
