"""The state of a simulation that cannot be saved: its inputs since the last reset, which a load repeats.

A load restores the values from before the reset (see before_reset.py), resets, and repeats the inputs. Then the last
result must equal the recorded result, bit for bit. A value that could not be saved and that the reset does not make
again comes back wrong. It shows in a digest of all values, which a recorder keeps and ``verify`` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sim.adapters.capture.digest.value_digest import ValueSubject
from sim.adapters.capture.pickle_protocol import Pickler
from sim.adapters.capture.repeated.before_reset import ValuesBeforeReset
from sim.adapters.capture.repeated.outliving import outlived
from sim.adapters.capture.survey import Classify, Structure
from sim.adapters.capture.values import encode_value
from sim.kernel.plain_data import encode_plain, make_unpacker
from sim.kernel.schema import Blob, Field, Schema, Table
from sim.kernel.state import State

INPUTS, BEFORE, RESULT = "inputs", "before_reset", "result"


class NotRepeatableError(ValueError):
    """The inputs since the last reset gave a different result than in the recorded run."""


class InputsSinceReset:
    """The inputs since the last reset, as a state.

    Attributes:
        state: the arena.
        outliving: the names of objects of C code that the reset of the last load did not make again: no load restores
            what an episode leaves in them.
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, Any]],
        classify: Classify,
        *,
        ignored: Iterable[str] = (),
        pickler: Pickler | None = None,
        home: str = "",
    ) -> None:
        """Capture what can be captured. The options: see ValuesBeforeReset."""
        self._values = ValuesBeforeReset(layers, classify, ignored=ignored, pickler=pickler, home=home)
        self.state = State(
            Schema(
                Field("steps", "i8", hot=True),
                Table(INPUTS, Field("bytes", "u1"), capacity=1024),
                Blob(BEFORE),
                Blob(RESULT),
            )
        )
        self._is_as_loaded = False  # Nothing was done since a load: the values are as they were saved.
        self.outliving: tuple[str, ...] = ()
        self.begin()

    @property
    def structure(self) -> Structure:
        """The attributes before the last reset, by what a restore does with them."""
        return self._values.structure

    def ensure_names_match(self, ignored: Iterable[str]) -> None:
        """Raise ValueError for a name to leave out that no attribute has."""
        self._values.ensure_names_match(ignored)

    def left_alone(self) -> dict[str, Any]:
        """The present values of the attributes that no load restores, by their full names."""
        return self._values.left_alone()

    @property
    def has_inputs(self) -> bool:
        """True if there was a reset or a step. Before it, nothing is restored but the values before a reset."""
        return len(self.state[f"{INPUTS}.bytes"]) > 0

    def subject(self) -> ValueSubject:
        """The objects for a digest of their values."""
        return self._values.subject()

    def begin(self) -> None:
        """Clear the inputs before a reset, and capture what can be captured. Raises NotCapturedError."""
        if not self._is_as_loaded or self.has_inputs:
            self.state.set_blob(BEFORE, self._values.take())
        self.state.truncate_rows(INPUTS, 0)
        self._is_as_loaded = False

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
        content = self.state[f"{INPUTS}.bytes"].tobytes()
        waiting = list(make_unpacker(content)) if content else []
        made_before = self._values.compiled_objects()
        self._values.put(self.state.blob(BEFORE), partial(repeat, waiting[0]) if waiting else None)
        self._is_as_loaded = True
        result: Any = None
        for number, inputs in enumerate(waiting):
            result = repeat(inputs)
            if number == 0:
                self.outliving = tuple(outlived(made_before, self._values.compiled_objects()))
        if waiting and encode_value(result) != self.state.blob(RESULT):
            raise NotRepeatableError(
                f"the {len(waiting)} inputs since the last reset give a different result than in the recorded run: the "
                "simulation cannot be replayed by its inputs, or something outlives a reset, such as a physics world "
                "that the reset does not build again"
            )
