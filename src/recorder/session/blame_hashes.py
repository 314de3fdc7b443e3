"""Short hashes in each frame that locate a desync: 16 bits per field, and of the state's hash after each phase.

With them the tick, the phase and the fields of a desync are known without the other run's states.
"""

from __future__ import annotations

from typing import Any

from recorder.settings import Blame
from sim.kernel.hashing import FIELD_HASH_BYTES, short_hash
from sim.kernel.simulation import watched_phases
from sim.kernel.state import State

AUTO_BYTES_MAX = 1 << 20  # For a larger state a second pass per tick is not worth its cost; keyframes have the fields.


def records_field_hashes(blame: Blame, state: State) -> bool:
    """Return True if frames of a state of this size record the hashes of its fields."""
    return blame in ("fields", "phases") or (blame == "auto" and state.layout.size_bytes <= AUTO_BYTES_MAX)


class PhaseBlame:
    """Steps a simulation and captures the lowest 16 bits of its state's hash after each phase."""

    def __init__(self, simulation: Any) -> None:
        """Raises TypeError if the simulation has no phases that can be watched."""
        self._simulation = simulation
        self.hashes = b""  # Of the last step, 2 bytes per phase.
        with watched_phases(simulation, self._phase_is_over):
            self.names = [phase.name for phase in simulation.phases]

    def step(self, inputs: Any) -> Any:
        """Step. Returns and raises what the simulation's step does; TypeError if it does not run each phase once."""
        self.hashes = b""
        with watched_phases(self._simulation, self._phase_is_over):
            result = self._simulation.step(inputs)
        if len(self.hashes) != FIELD_HASH_BYTES * len(self.names):
            raise TypeError(f"the step of {type(self._simulation).__name__} does not run each of its phases once")
        return result

    def _phase_is_over(self, _: str) -> None:
        self.hashes += short_hash(self._simulation.state.hash())
