"""Run a simulation with some of the inputs of a tape, and never simulate the same thing twice.

A state is kept every few ticks under the inputs before it: a later run with the same inputs up to there begins with it.
What follows from a state and the inputs after it is known once one run had both: a later one that comes to the same
state, with the same inputs from there on, ends in the same way.

Invariants:
    1. No state is kept of a run after its failure, or after a step that raised something else.
    2. steps counts every step of the simulation.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Any, Protocol

import attrs
import xxhash

from replayer.reduction.input_parts import Inputs, RecordedInputs
from sim.kernel.hooks import KeepsAttempts, hook
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, restore
from sim.kernel.state import Snapshot

STATES_MAX = 400
STATE_BYTES_MAX = 256 << 20  # Of all kept states.
STATES_OF_A_RUN = 200  # The others are of other beginnings.
FUTURES_MAX = 200_000  # Known ends, some 200 bytes each.
_PLACE = struct.Struct("<QQ")
_Prefix = tuple[int, bytes]  # A tick, and a digest of the inputs up to it.
_Future = tuple[int, int, bytes]  # A tick, the hash of its state, and a digest of the inputs after it.


class Watch(Protocol):
    """What a run is watched for. It judges by the state and the inputs of a step alone."""

    def stops(self, tick: int, simulation: Simulation) -> bool:
        """Return True after the step that ends the run: it has failed."""

    def is_failure(self, tick: int, error: Exception) -> bool:
        """Return True if a step that raised is the failure."""

    def result(self, tick: int, simulation: Simulation) -> Any:
        """What is to be known of the last state of a run that nothing ended."""


@attrs.frozen
class Ending:
    """The end of a run.

    Attributes:
        tick: the last tick that was run, or is known as if it had been.
        failed: True if the watch ended it.
        error: what a step raised that ended the run otherwise; None if none did.
        result: of the watch, at the last tick; None if something ended the run before.
    """

    tick: int
    failed: bool
    error: Exception | None = None
    result: Any = None


class CandidateRuns:
    """Runs of one simulation from one state, with different inputs, watched for one thing.

    Attributes:
        simulation: in any state.
        steps, runs: so far.
        joined: the number of runs that ended early, since the rest of them was known.
    """

    def __init__(
        self, simulation: Simulation, first_tick: int, last_tick: int, start: Snapshot, recorded: RecordedInputs
    ) -> None:
        """first_tick, start: where all runs begin. last_tick: where the longest one ends."""
        self.simulation = simulation
        self.steps = self.runs = self.joined = 0
        self._first = first_tick
        self._start = start
        self._recorded = recorded
        size_bytes = max(1, len(start.arena))
        self._states_max = max(2, min(STATES_MAX, STATE_BYTES_MAX // size_bytes))
        self._spacing = max(1, -(-(last_tick - first_tick) // min(STATES_OF_A_RUN, self._states_max)))
        self._states: OrderedDict[_Prefix, Snapshot] = OrderedDict()
        self._hashes: dict[_Prefix, int] = {}
        self._futures: dict[_Future, tuple[Ending, dict[int, bytes]]] = {}
        self._keeps = hook(simulation, KeepsAttempts)

    def run(self, inputs: Inputs, last_tick: int, watch: Watch) -> Ending:
        """Run up to last_tick with these inputs, or until the watch ends it.

        last_tick must not be greater than in an earlier run.
        """
        self.runs += 1
        prefixes, futures = self._prefixes(inputs, last_tick), self._suffixes(inputs, last_tick)
        tick = self._begin(prefixes)
        ending, joined = None, dict[int, bytes]()
        while tick < last_tick and ending is None:
            tick += 1
            ending = self._step(tick, inputs, watch)
            if ending is None and tick in prefixes:
                ending, joined = self._keep(tick, prefixes, futures, last_tick)
        if ending is None:
            ending = Ending(tick, failed=False, result=watch.result(tick, self.simulation))
        self._know(ending, prefixes, futures, joined)
        return ending

    def run_here(self, inputs: Inputs, last_tick: int, watch: Watch) -> Ending:
        """As run: a copy of this process has the states that are known."""
        return self.run(inputs, last_tick, watch)

    def _begin(self, prefixes: dict[int, bytes]) -> int:
        """Load the last known state of these beginnings; return its tick."""
        for prefix in reversed(prefixes.items()):
            if prefix in self._states:
                self._states.move_to_end(prefix)
                restore(self.simulation, self._states[prefix])
                return prefix[0]
        restore(self.simulation, self._start)
        return self._first

    def _step(self, tick: int, inputs: Inputs, watch: Watch) -> Ending | None:
        """One step; return the end of the run if this is it.

        An exception that the recorded step of this tick raised, too, and that its caller caught, is no end.
        """
        self.steps += 1
        encoded = inputs.get(tick, self._recorded.empty)
        try:
            self.simulation.step(decode_plain(encoded))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the simulation's own; it is judged, and kept in the result
            if watch.is_failure(tick, error):
                return Ending(tick, failed=True)
            is_known = type(error).__qualname__ == self._recorded.attempts.get(tick)
            if not is_known or self._keeps is None or self._keeps.attempted(decode_plain(encoded), error) is None:
                return Ending(tick, failed=False, error=error.with_traceback(None))  # Its frames hold the state.
        return Ending(tick, failed=True) if watch.stops(tick, self.simulation) else None

    # --- what is known

    def _ticks(self, last_tick: int) -> range:
        """The ticks at which states are kept."""
        return range(self._first + self._spacing, last_tick + 1, self._spacing)

    def _prefixes(self, inputs: Inputs, last_tick: int) -> dict[int, bytes]:
        """A digest of the inputs up to each of these ticks."""
        digest, ticks, number, prefixes = xxhash.xxh3_128(), sorted(inputs), 0, {}
        for tick in self._ticks(last_tick):
            while number < len(ticks) and ticks[number] <= tick:
                digest.update(_packed(ticks[number], inputs))
                number += 1
            prefixes[tick] = digest.digest()
        return prefixes

    def _suffixes(self, inputs: Inputs, last_tick: int) -> dict[int, bytes]:
        """A digest of the inputs after each of these ticks."""
        digest, ticks, suffixes = xxhash.xxh3_128(), [tick for tick in sorted(inputs) if tick <= last_tick], {}
        for tick in reversed(self._ticks(last_tick)):
            while ticks and ticks[-1] > tick:
                digest.update(_packed(ticks.pop(), inputs))
            suffixes[tick] = digest.digest()
        return suffixes

    def _keep(
        self, tick: int, prefixes: dict[int, bytes], suffixes: dict[int, bytes], last_tick: int
    ) -> tuple[Ending | None, dict[int, bytes]]:
        """Keep the state; return the end of the run if it is known from here, and the beginnings of the run that had it."""
        prefix = (tick, prefixes[tick])
        state_hash = self._hashes[prefix] = self.simulation.state.hash()
        known = self._futures.get((tick, state_hash, suffixes[tick]))
        if known is not None:
            self.joined += 1
            ending, others = known
            if ending.tick > last_tick:  # It ended later than is of interest now.
                ending = Ending(last_tick, failed=False)
            return ending, {later: others[later] for later in others if later >= tick}
        if prefix not in self._states:
            while len(self._states) >= self._states_max:
                self._states.popitem(last=False)
            self._states[prefix] = self.simulation.state.snapshot()
        return None, {}

    def _know(
        self, ending: Ending, prefixes: dict[int, bytes], suffixes: dict[int, bytes], joined: dict[int, bytes]
    ) -> None:
        """Note what followed from each state of a run. joined: the beginnings of the run that it joined."""
        for tick, prefix in prefixes.items():
            if (tick in joined) and (tick, joined[tick]) in self._hashes:
                self._hashes[tick, prefix] = self._hashes[tick, joined[tick]]
                if (tick, joined[tick]) in self._states:
                    self._states[tick, prefix] = self._states[tick, joined[tick]]
            state_hash = self._hashes.get((tick, prefix))
            if state_hash is not None and tick < ending.tick:
                self._futures[tick, state_hash, suffixes[tick]] = ending, prefixes
        while len(self._states) > self._states_max:
            self._states.popitem(last=False)
        while len(self._futures) > FUTURES_MAX:
            del self._futures[next(iter(self._futures))]


def _packed(tick: int, inputs: Inputs) -> bytes:
    return _PLACE.pack(tick, len(inputs[tick])) + inputs[tick]
