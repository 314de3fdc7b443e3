"""Messages that have arrived and are not received yet: one bounded queue for each sender and receiver.

The blob ``buffers`` is MessagePack: for each channel, in the order of Cast.channels, a list of [number, label,
payload], the next one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from sim.kernel.registry import Readable
from sim.kernel.state import State

Waiting = list[Any]  # [number, label, payload]

FIELD = "buffers"


def read_buffers(state: Readable) -> list[list[Waiting]]:
    """Unpack the queues from a state."""
    queues: list[list[Waiting]] = msgpack.unpackb(state.blob(FIELD), strict_map_key=False)
    return queues


def write_buffers(state: State, queues: Sequence[Sequence[Waiting]]) -> None:
    """Pack the queues into the state. Raises TypeError, ValueError or OverflowError if a payload is not plain data."""
    state.set_blob(FIELD, msgpack.packb(queues))
