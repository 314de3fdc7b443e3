"""Messages that have arrived and are not received yet: one bounded queue for each sender and receiver.

The blob ``buffers`` is MessagePack: for each channel, in the order of find_channels, a list of [number, label,
payload], the next one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from sim.kernel.registry import Readable
from sim.kernel.state import State
from sim.worlds.choreography.protocol.projection import Choose, Program, Send

Channel = tuple[int, int]  # Sender and receiver, as numbers of endpoints.
Waiting = list[Any]  # [number, label, payload]

FIELD = "buffers"


def find_channels(programs: Sequence[Program], sessions: int) -> dict[Channel, int]:
    """The channels of all sessions, sender and receiver, with the number of the queue of each."""
    pairs = sorted(
        {
            (role, node.to)
            for role, program in enumerate(programs)
            for node in program
            if isinstance(node, Send | Choose)
        }
    )
    size = len(programs)
    channels = [
        (session * size + sender, session * size + receiver)
        for session in range(sessions)
        for sender, receiver in pairs
    ]
    return {channel: number for number, channel in enumerate(channels)}


def read_buffers(state: Readable) -> list[list[Waiting]]:
    """Unpack the queues from a state."""
    queues: list[list[Waiting]] = msgpack.unpackb(state.blob(FIELD), strict_map_key=False)
    return queues


def write_buffers(state: State, queues: Sequence[Sequence[Waiting]]) -> None:
    """Pack the queues into the state. Raises TypeError, ValueError or OverflowError if a payload is not plain data."""
    state.set_blob(FIELD, msgpack.packb(queues))
