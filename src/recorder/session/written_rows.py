"""The rows that a simulation marks as written, collected from keyframe to keyframe for WRITES blocks."""

from __future__ import annotations

from recorder.format.blocks.written.writes_block import encode_writes
from recorder.session.change_source import ChangeSources
from sim.kernel.state import State


class WrittenRows:
    """Collects marks with masks of its own: those of the keyframes are cleared at full keyframes only.

    Attributes:
        tick: after which the next block begins.

    Invariant: a block names every row that the steps after the last block have marked.
    """

    def __init__(self, state: State, tick: int) -> None:
        """Begin after tick, whose state this is."""
        self._state, self._marks = state, state.attach_marks()
        self.tick, self._layout = tick, state.layout.hash_seed

    @classmethod
    def of(cls, sources: ChangeSources, state: State, tick: int, *, wanted: bool) -> WrittenRows | None:
        """The rows of a session that begins at tick, if they are wanted.

        Raises ValueError for a simulation that does not mark its writes.
        """
        if not wanted:
            return None
        if not sources.marks:
            raise ValueError(
                "writes=True: the simulation does not mark what it writes; record it without, and let "
                "replay index find the rows afterwards"
            )
        return cls(state, tick)

    def take(self, state: State, tick: int) -> tuple[int, bytes]:
        """The first step and the payload of a block for the steps up to tick, and begin again after it."""
        is_same = state is self._state and state.layout.hash_seed == self._layout
        first = self.tick + 1
        payload = encode_writes(first, tick, state.layout, self._marks.rows() if is_same else None)
        if state is not self._state:
            self.close()
            self._state, self._marks = state, state.attach_marks()
        self.tick, self._layout = tick, state.layout.hash_seed
        self._marks.clear()
        return first, payload

    def forget(self) -> None:
        """Take the marks that a load of the present state has set as none."""
        self._marks.clear()

    def close(self) -> None:
        """Stop collecting."""
        self._state.detach(self._marks)
