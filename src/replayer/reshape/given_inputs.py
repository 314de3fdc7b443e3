"""Inputs of a branch that were given as JSON, where the tape is one of a plain object: its calls are read as they are shown."""

from __future__ import annotations

import functools
import json
from typing import Any

from recorder.errors import RecordingError
from replayer.tape.copied_range import UnfitTapeError
from replayer.tape.tape import Tape
from replayer.value_text import inputs_to_json
from sim.adapters.object_view.given_calls import ADVICE, GivenCallError, GivenCalls
from sim.adapters.plain_object.adapter import PlainObjectSimulation
from sim.adapters.plain_object.calls import SET


class GivenInputs:
    """Reads the inputs of ticks, by the calls that a tape has."""

    def __init__(self, tape: Tape, source: str) -> None:
        """tape: the one that is left. source: where the inputs come from, for messages."""
        self._tape, self._source = tape, source

    def read(self, tick: int, given: Any, simulation: Any) -> Any:
        """The inputs of a tick for the step of a simulation, which is at the tick before. Raises UnfitTapeError."""
        if type(given) is not dict or not isinstance(simulation, PlainObjectSimulation):
            return given
        key = simulation.method_of(given).key
        if key not in given:
            return given
        recorded = self._recorded(tick)
        if _as_text(inputs_to_json(recorded)) == _as_text(given):
            return recorded
        if SET in given:
            why = f"assignments from outside ({SET!r}) can only be those of the recorded tick; {ADVICE}"
            raise UnfitTapeError(f"{self._source}: tick {tick:,}: {why}")
        try:
            own = recorded.get(key) if type(recorded) is dict else None
            calls = self._calls(key, is_step=key == simulation.method.key)
            return {**given, key: calls.read(given[key], own, simulation.finder, simulation.subject)}
        except GivenCallError as error:
            raise UnfitTapeError(f"{self._source}: tick {tick:,}, {key}: {error}") from None

    def _recorded(self, tick: int) -> Any:
        try:
            return self._tape.frame(tick).inputs
        except RecordingError:
            return None

    @functools.lru_cache(maxsize=8)  # noqa: B019 - it lives as long as one branch is made
    def _calls(self, key: str, *, is_step: bool) -> GivenCalls:
        """The recorded calls of a method. An argument that was recorded alone is one of the step."""
        calls = []
        for tick in range(self._tape.first_tick + 1, self._tape.last_tick + 1):
            inputs = self._recorded(tick)
            if type(inputs) is dict and key in inputs:
                calls.append(inputs[key])
            elif is_step and inputs is not None and not (type(inputs) is dict and any(map(_is_call, inputs))):
                calls.append([[inputs], {}])
        return GivenCalls(calls)


def _is_call(key: Any) -> bool:
    return type(key) is str and key.endswith("()")


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
