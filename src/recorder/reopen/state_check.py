"""Check that a re-simulated run is in the recorded states.

Where the tape has the hash of each state, the hashes are compared. Where it has chained hashes, the changes that the
simulation marks are chained as the recorder did. Marks are not part of the state: a different version of the simulation
may set more of them. A chained hash that differs is therefore no proof of a desync. The state is then compared with the
one that the tape's changes give, if it is available.
"""

from __future__ import annotations

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.hash_chain import HashChain, identity_of
from recorder.format.recording.recording import Recording
from sim.kernel.changes.tick_changes import MarkedTicks
from sim.kernel.simulation import Simulation


class StateCheck:
    """Follows a simulation tick by tick: call ``begin`` at the first tick and ``stepped`` after each step.

    Attributes:
        is_matching: True if it is known to be in the recorded state; only on tapes with chained hashes.
    """

    def __init__(self, recording: Recording, simulation: Simulation) -> None:
        self._recording = recording
        self._simulation = simulation
        self._source: MarkedTicks | None = None
        self._identity = b""
        self.is_matching = True

    def begin(self, tick: int) -> None:
        """Begin at this tick. The simulation must be in its recorded state. Raises as Recording.identity does."""
        if not self._recording.recorded_hashes.has_hash_chain:
            return
        state = self._simulation.state
        if self._source is None:
            self._source = MarkedTicks(state)
        self._source.reset(state)
        self._hash_chain = HashChain(state.layout)
        self._identity, self.is_matching = self._recording.recorded_hashes.identity(tick), True

    def stepped(self, frame: Frame) -> None:
        """Note that the simulation has made the step of this frame."""
        if self._source is None:
            return
        state = self._simulation.state
        changes = self._source.take(state)
        if changes is None:  # It has a different State object, or layout.
            self._source.reset(state)
            self._hash_chain = HashChain(state.layout)
        if changes is None or not frame.link:
            self._identity = identity_of(state.hash())
        else:
            self._identity = self._hash_chain.extend_by(self._identity, changes)
        self.is_matching = self._identity == frame.identity

    def difference(self, frame: Frame) -> tuple[int, int] | None:
        """Return the recorded and the actual hash of the state if they differ. frame: of the last tick stepped to.

        If only a chained hash is recorded, it takes the place of the recorded hash, as a number.
        """
        if frame.state_hash is not None:
            actual = self._simulation.state.hash()
            return None if actual == frame.state_hash else (frame.state_hash, actual)
        if self.is_matching:
            return None
        try:
            expected = self._recording.state_hash(frame.tick)
        except (MissingTickError, CorruptError, TornError):
            return int.from_bytes(frame.link), self._simulation.state.hash()
        actual = self._simulation.state.hash()
        if actual != expected:
            return expected, actual
        self._identity, self.is_matching = frame.link, True
        return None

    def close(self) -> None:
        """Stop following the simulation."""
        if self._source is not None:
            self._source.close()
            self._source = None
