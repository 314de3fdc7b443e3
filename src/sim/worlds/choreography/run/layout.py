"""The state of a choreography: its schema, and its registers at tick 0."""

from __future__ import annotations

from enum import IntEnum

from sim.kernel.schema import Blob, Field, Schema
from sim.kernel.state import State
from sim.worlds.choreography.config import ChoreographyConfig
from sim.worlds.choreography.protocol.payload import STATE_REGISTER
from sim.worlds.choreography.protocol.projection import HEARD_REGISTER, find_choices


class Status(IntEnum):
    """The status of a role."""

    WAITING = 0  # Not advanced yet.
    RUNNING = 1
    HALTED = 2
    FAULTED = 3


def make_schema(config: ChoreographyConfig) -> Schema:
    """The schema; roles are those of all sessions, in the order of config.endpoints."""
    roles = len(config.endpoints)
    choices = max(len(find_choices(part.protocol)) for part in config.parts)
    # Only where there are several: an only one has them all.
    of_parts = [Field("choreographies.productive_steps", "i8", (len(config.parts),))] if config.choreographies else []
    return Schema(
        Field("tick", "i8"),
        Field("message_count", "i8"),  # Messages sent so far: the next one's number.
        Field("productive_steps", "i8"),
        Field("roles.status", "u1", (roles,), hot=True),
        Field("roles.place", "i4", (roles,), hot=True),  # In the role's program.
        Field("roles.registers", "i8", (roles, config.register_count), row_axes=1, hot=True),
        Field("roles.counted", "i8", (roles,)),  # Numbers sent by the rule "counter".
        Field("roles.choices", "i8", (roles, choices), row_axes=1),  # How often each choice was made.
        Field("scheduler.cursor", "i8"),
        Field("scheduler.waited", "i8", (roles,)),  # Rounds since the role was advanced.
        Field("scheduler.tokens", "i8", (roles,)),
        Field("field.calls", "i8", (roles,)),
        *of_parts,
        Blob("buffers", 1024),  # See message_queues.py.
    )


def fill_registers(state: State, config: ChoreographyConfig) -> None:
    """Set the registers of each role to their values at tick 0."""
    registers = state["roles.registers"]
    initial = (part.initial_state(role) for part in config.parts for _ in range(part.sessions) for role in part.numbers)
    for endpoint, values in enumerate(initial):
        registers[endpoint, STATE_REGISTER : STATE_REGISTER + len(values)] = values
        registers[endpoint, HEARD_REGISTER] = registers[endpoint, STATE_REGISTER] if values else 0
