"""What each frame says about where a state may part from another one: 16 bits of each field's hash, and of each phase.

With them the tick, the phase and the fields of a desync are known without any state of the other side.
"""

from __future__ import annotations

from typing import Any

from recorder.settings import Blame
from sim.kernel.hashing import FIELD_HASH_BYTES, short_hash
from sim.kernel.simulation import watched_phases
from sim.kernel.state import State

AUTO_BYTES_MAX = 1 << 20  # In a larger state a second pass each tick costs more than it tells; keyframes tell the rest.


def wants_fields(blame: Blame, state: State) -> bool:
    """Whether to take down hashes of the fields of a state as large as this one."""
    return blame in ("fields", "phases") or (blame == "auto" and state.layout.size_bytes <= AUTO_BYTES_MAX)


class PhaseBlame:
    """Steps a simulation and takes down the lowest 16 bits of its state's hash after each phase."""

    def __init__(self, simulation: Any) -> None:
        """Raises TypeError if the simulation has no phases that can be watched."""
        self._simulation = simulation
        self.hashes = b""  # Of the last step, 2 bytes a phase.
        with watched_phases(simulation, self._phase_is_over):
            self.names = [phase.name for phase in simulation.phases]

    def step(self, inputs: Any) -> Any:
        """Step; returns and raises what the simulation's step does, and TypeError if it does not run its phases."""
        self.hashes = b""
        with watched_phases(self._simulation, self._phase_is_over):
            result = self._simulation.step(inputs)
        if len(self.hashes) != FIELD_HASH_BYTES * len(self.names):
            raise TypeError(f"the step of {type(self._simulation).__name__} does not run each of its phases once")
        return result

    def _phase_is_over(self, _: str) -> None:
        self.hashes += short_hash(self._simulation.state.hash())
