"""What the process of a variant does to see whether a step depends on a random generator of the process that the state does not hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np

from recorder.processes.fork_call import in_a_copy
from recorder.processes.seeds.process_generators import NUMBAS, all_states, is_same_state, put_states, seed_one
from replayer.tape.plain_state import snapshot_from_plain
from replayer.tape.tape import Tape
from sim.kernel.simulation import Simulation, restore
from sim.kernel.state import Snapshot

SEEDS = 7, 8
RUNS = 3  # With each seed: a step that has one of two states by chance would pass once in 32 times.
FORWARD_MAX, FORWARD_S = 5000, 4.0  # Further runs of the step, each of which draws what the last one left.


def draws(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    """Run the step with two seeds of each of these generators, and let it draw further and further.

    job: "generators", by their names in all_states(). For each of which two seeds give two states, in "found": its name, and
    after how many further runs of the step it gives the recorded state; None if it was not seen to.

    Raises RuntimeError if a copy of this process died.
    """
    return in_a_copy(partial(_search, tape, job, make))


def _search(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    simulation, tick = make(), job["tick"]
    before = snapshot_from_plain(job["before"])
    restore(simulation, before)
    bench = _Bench(simulation, before, tape.frame(tick).inputs, tape.state_hash(tick))
    decisive = [name for name in job["generators"] if name in all_states() and bench.depends_on(name)]
    further = bench.further_runs(decisive) if decisive else None
    return {"found": [[name, further] for name in decisive]}


@attrs.frozen(eq=False)
class _Bench:
    """A simulation in the state before the step, of which each run is a copy."""

    simulation: Simulation
    before: Snapshot
    inputs: Any
    recorded_hash: int

    def depends_on(self, name: str) -> bool:
        """Return True if the step gives one state with each of two seeds, and another one with the other."""
        try:
            first, second = ({self._hash(name, seed) for _ in range(RUNS)} for seed in SEEDS)
        except RuntimeError:
            return False
        return len(first) == len(second) == 1 and first != second and None not in first | second

    def _hash(self, name: str, seed: int) -> int | None:
        result = in_a_copy(partial(self._seeded, name, seed))["hash"]
        return int(result) if result is not None else None

    def _seeded(self, name: str, seed: int) -> dict[str, Any]:
        """Run the step with a seed. No hash, if the state holds the generator: then that of the recording is known."""
        seed_one(name, seed)
        seeded = all_states([name])[name]
        restore(self.simulation, self.before)
        if not is_same_state(seeded, all_states([name])[name]):
            return {"hash": None}
        self.simulation.step(self.inputs)
        return {"hash": self.simulation.state.hash()}

    def further_runs(self, names: list[str]) -> int | None:
        """After how many runs the generators alone have states with which the step gives the recorded state; None if not seen."""
        try:
            found = in_a_copy(partial(self._forward, names))
            if found["runs"] is None or not in_a_copy(partial(self._confirm, found["states"]))["is_recorded"]:
                return None
        except RuntimeError:
            return None
        return int(found["runs"])

    def _confirm(self, states: dict[str, Any]) -> dict[str, Any]:
        """Run the step with these states, without what the further runs may have left besides."""
        put_states({name: _state_of(name, state) for name, state in states.items()})
        restore(self.simulation, self.before)
        self.simulation.step(self.inputs)
        return {"is_recorded": self.simulation.state.hash() == self.recorded_hash}

    def _forward(self, names: list[str]) -> dict[str, Any]:
        """Run the step from the same state again and again: what it draws goes on."""
        end_s = time.monotonic() + FORWARD_S
        try:
            for runs in range(FORWARD_MAX):
                states = all_states(names)
                restore(self.simulation, self.before)
                self.simulation.step(self.inputs)
                if self.simulation.state.hash() == self.recorded_hash:
                    return {"runs": runs, "states": {name: _plain(state) for name, state in states.items()}}
                if time.monotonic() > end_s:
                    break
        except Exception:  # noqa: BLE001, S110 - a step that runs again may fail by what it keeps outside the state
            pass
        return {"runs": None}


def _plain(state: Any) -> Any:
    """The state of a generator as lists, numbers and bytes."""
    if isinstance(state, tuple | list):
        return [_plain(one) for one in state]
    return state.tolist() if isinstance(state, np.ndarray) else state


def _state_of(name: str, plain: Any) -> Any:
    """The state of a generator that _plain() gave."""
    return tuple(plain) if name in NUMBAS else _tuples(plain)


def _tuples(plain: Any) -> Any:
    return tuple(map(_tuples, plain)) if isinstance(plain, list) else plain
