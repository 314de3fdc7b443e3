"""The state of a simulation that cannot be saved: what it was given since its last reset, to be given again at a load.

Nothing is approximated: a load puts back what could be captured from before the reset (the random generator, the
wrappers' counters), resets, and repeats the inputs; then the last result must be, bit for bit, the recorded one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sim.adapters.capture.captured_state import CapturedState
from sim.adapters.capture.values import decode_value, encode_value
from sim.kernel.plain_data import encode_plain, make_unpacker
from sim.kernel.schema import Blob, Field, Schema, Table, schema_from_plain, schema_to_plain
from sim.kernel.state import State

INPUTS, BEFORE, RESULT = "inputs", "before_reset", "result"


class NotRepeatableError(ValueError):
    """The same inputs since the last reset have given another result than they gave in the recorded run."""


class InputsSinceReset:
    """Inputs since the last reset, as a state.

    Attributes:
        state: the arena.
        captured: what could be captured, as it was before the last reset.
    """

    def __init__(self, captured: CapturedState) -> None:
        self.captured = captured
        self.state = State(
            Schema(
                Field("steps", "i8", hot=True),
                Table(INPUTS, Field("bytes", "u1"), capacity=1024),
                Blob(BEFORE),
                Blob(RESULT),
            )
        )
        self.begin()

    def begin(self) -> None:
        """Before a reset: forget the inputs until now, and take down what can be captured."""
        self.captured.pack_anew()
        state = self.captured.state
        before = [schema_to_plain(state.layout.schema), dict(state.layout.capacities), state.arena.tobytes()]
        self.state.truncate_rows(INPUTS, 0)
        self.state.set_blob(BEFORE, encode_value(before))

    def add(self, inputs: Any, result: Any) -> None:
        """After a step: keep its inputs and its result."""
        encoded = encode_plain(inputs)
        rows = self.state.add_rows(INPUTS, len(encoded))
        self.state[f"{INPUTS}.bytes"][rows] = np.frombuffer(encoded, np.uint8)
        self.state.set_blob(RESULT, encode_value(result))
        self.state["steps"][()] += 1

    def load(self, repeat: Callable[[Any], Any]) -> None:
        """Bring the simulation to where the state is. repeat: from inputs, taken in a step, to its result.

        Raises NotRepeatableError if the last result is another one than the recorded; ValueError for another state.
        """
        encoded = self.state.blob(BEFORE)
        plain, capacities, arena = decode_value(encoded)
        before = State(schema_from_plain(plain), capacities)
        before.arena[:] = np.frombuffer(arena, np.uint8)
        self.captured.state = before
        self.captured.unpack()
        result: Any = None
        content = self.state[f"{INPUTS}.bytes"].tobytes()
        count = 0
        for inputs in make_unpacker(content) if content else ():
            result = repeat(inputs)
            count += 1
        if count and encode_value(result) != self.state.blob(RESULT):
            raise NotRepeatableError(
                f"the {count} inputs since the last reset give another result now than they gave in the recorded run: "
                "the simulation cannot be replayed by its inputs, or something outlives a reset, such as a physics world "
                "that is not made anew"
            )
