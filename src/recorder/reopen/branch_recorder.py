"""Record a branch: a tape that begins at a tick of another one, its parent, and goes its own way from there."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Self

from recorder.recording_options import RecordingOptions
from recorder.reopen.resume import record_calls, resume_as
from recorder.session.recorder import Recorder
from recorder.session.run_end import end_outcome
from recorder.storage.file_names import segment_numbers, segment_path
from sim.adapters.as_recorded import adapter_of_tape
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.simulation import Simulation, inner_of
from sim.kernel.state import State

Inputs = Mapping[int, Any] | Callable[[int, State], Any]  # By tick; or from a tick and the state before its step.


class BranchRecorder(Recorder):
    """Records a branch, as a Recorder does, from the tick of the fork on.

    Attributes:
        parent_tape: the path of the parent's tape.
        parent_inputs: the recorded inputs of a tick of the parent. Raises MissingTickError, CorruptError, TornError.
        parent_last: the last tick of the parent.
    """

    parent_tape: str = ""
    parent_inputs: Callable[[int], Any]
    parent_last: int = 0

    @classmethod
    def from_state(
        cls,
        path: str | os.PathLike[str],
        simulation: Simulation,
        tick: int,
        options: RecordingOptions,
        facts: Mapping[str, Any],
    ) -> Self:
        """Begin a branch with the present state of a simulation. facts: further keys of META. Raises as Recorder does."""
        branch = cls.beginning_at(path, simulation, tick, options, facts)
        record_calls(branch)
        return branch

    @classmethod
    def from_copy(cls, path: str | os.PathLike[str], simulation: Simulation) -> Self:
        """Begin a branch in a tape that holds the parent's ticks up to the fork. Raises as resume does."""
        return resume_as(cls, path, simulation)

    @property
    def fork_tick(self) -> int:
        """The tick at which the branch leaves its parent."""
        return int(self.meta["parent"]["tick"])

    @functools.cached_property
    def object(self) -> Any:
        """The object to use in place of the recorded one, as ``record`` would have returned it: its steps are recorded.

        Without an adapter, the recorder itself.
        """
        inner = inner_of(self.simulation)
        if hook(inner, HasAdapter) is None:
            return self
        return adapter_of_tape(self.meta)[0].door(inner, self)

    def run(
        self, until: int | None = None, inputs: Inputs | None = None, *, instead: Mapping[int, Any] | None = None
    ) -> Self:
        """Step up to a tick, or until the simulation ends; return the recorder.

        until: the last tick, by default the parent's last one. inputs: all inputs, by tick or from a function of the tick
        and the state before it; None makes the parent's own ones. A mapping gives ticks that it does not name no inputs:
        an empty list to a registered world, None to any other simulation. instead: inputs by tick that replace those.

        Raises MissingTickError where the parent has no inputs, and what step raises.
        """
        last = self.parent_last if until is None else until
        source = self._source(inputs)
        for tick in range(self.tick + 1, last + 1):
            if end_outcome(self.simulation, self.tick) is not None:
                break
            own = instead is not None and tick in instead
            self.step(instead[tick] if own and instead is not None else source(tick))
        return self

    def discard(self) -> None:
        """Close the tape and remove its files: the branch did not become what it was to be."""
        try:
            self.close({"reason": "discarded"})
        finally:
            for number in segment_numbers(self.path):
                segment_path(self.path, number).unlink(missing_ok=True)

    def _source(self, inputs: Inputs | None) -> Callable[[int], Any]:
        if inputs is None:
            return self.parent_inputs
        if callable(inputs):
            return lambda tick: inputs(tick, self.simulation.state)
        return lambda tick: inputs[tick] if tick in inputs else self._no_inputs()

    def _no_inputs(self) -> Any:
        return [] if self.meta.get("world") else None
