"""The state of a simulation that cannot be saved: its inputs since the last reset, which a load repeats.

Nothing is approximated. A load restores the values that were captured before the reset (the random generator, the
wrappers' counters), resets, and repeats the inputs. Then the last result must equal the recorded result, bit for bit.
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
    """The inputs since the last reset gave a different result than in the recorded run."""


class InputsSinceReset:
    """The inputs since the last reset, as a state.

    Attributes:
        state: the arena.
        captured: the values that can be captured, as they were before the last reset.
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
        """Clear the inputs before a reset, and capture what can be captured."""
        self.captured.survey_and_pack()
        state = self.captured.state
        before = [schema_to_plain(state.layout.schema), dict(state.layout.capacities), state.arena.tobytes()]
        self.state.truncate_rows(INPUTS, 0)
        self.state.set_blob(BEFORE, encode_value(before))

    def add(self, inputs: Any, result: Any) -> None:
        """Keep the inputs and the result of a step."""
        encoded = encode_plain(inputs)
        rows = self.state.add_rows(INPUTS, len(encoded))
        self.state[f"{INPUTS}.bytes"][rows] = np.frombuffer(encoded, np.uint8)
        self.state.set_blob(RESULT, encode_value(result))
        self.state["steps"][()] += 1

    def load(self, repeat: Callable[[Any], Any]) -> None:
        """Bring the simulation to the state. repeat: makes a step with inputs and returns its result.

        Raises NotRepeatableError if the last result differs from the recorded one; ValueError for a state of another
        kind.
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
                f"the {count} inputs since the last reset give a different result than in the recorded run: the "
                "simulation cannot be replayed by its inputs, or something outlives a reset, such as a physics world "
                "that the reset does not build again"
            )
