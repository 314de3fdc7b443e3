"""Whether a simulation that follows a tape is in the recorded states.

Where the tape has the hash of each state, that is a comparison. Where it has links, the changes that the simulation marks
are linked as the recorder linked them. Marks are no part of the state, another version of the simulation may set more
of them; so a link that differs settles nothing where the tape's own changes lead to the state to compare with.
"""

from __future__ import annotations

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.hash_chain import HashChain, identity_of
from recorder.format.recording.recording import Recording
from sim.kernel.changes.tick_changes import MarkedTicks
from sim.kernel.simulation import Simulation


class StateCheck:
    """Follows a simulation tick by tick: ``begin`` where it was put, ``stepped`` behind each step.

    Attributes:
        is_right: whether it is known to be in the recorded state; only on tapes with links.
    """

    def __init__(self, recording: Recording, simulation: Simulation) -> None:
        self._recording = recording
        self._simulation = simulation
        self._source: MarkedTicks | None = None
        self._identity = b""
        self.is_right = True

    def begin(self, tick: int) -> None:
        """The simulation is in the state of this tick, which is known to be right. Raises as Recording.identity does."""
        if not self._recording.recorded_hashes.has_hash_chain:
            return
        state = self._simulation.state
        if self._source is None:
            self._source = MarkedTicks(state)
        self._source.reset(state)
        self._hash_chain = HashChain(state.layout)
        self._identity, self.is_right = self._recording.recorded_hashes.identity(tick), True

    def stepped(self, frame: Frame) -> None:
        """The simulation has made the step that this frame is of."""
        if self._source is None:
            return
        state = self._simulation.state
        changes = self._source.take(state)
        if changes is None:  # It has another state, or layout.
            self._source.reset(state)
            self._hash_chain = HashChain(state.layout)
        if changes is None or not frame.link:
            self._identity = identity_of(state.hash())
        else:
            self._identity = self._hash_chain.extend(self._identity, changes.by_field(state.layout))
        self.is_right = self._identity == frame.identity

    def difference(self, frame: Frame) -> tuple[int, int] | None:
        """The recorded and the actual hash of the state, if they differ; frame: of the tick that was stepped to last.

        Where nothing but a link is recorded, that stands for the recorded hash, as a number.
        """
        if frame.state_hash is not None:
            actual = self._simulation.state.hash()
            return None if actual == frame.state_hash else (frame.state_hash, actual)
        if self.is_right:
            return None
        try:
            expected = self._recording.state_hash(frame.tick)
        except (MissingTickError, CorruptError, TornError):
            return int.from_bytes(frame.link), self._simulation.state.hash()
        actual = self._simulation.state.hash()
        if actual != expected:
            return expected, actual
        self._identity, self.is_right = frame.link, True
        return None

    def close(self) -> None:
        """Follow no more."""
        if self._source is not None:
            self._source.close()
            self._source = None
