"""What a frame says of its state: a link of what the tick has changed, where the hash of the whole takes too long."""

from __future__ import annotations

from recorder.format.blocks.hash_chain import HashChain, identity_of
from recorder.writer.jobs import TickOutput
from sim.kernel.state import State


class TickHashChain:
    """Links the ticks of one session, which begins with the hash of a whole state."""

    def __init__(self) -> None:
        self._linker: HashChain | None = None
        self._identity = b""

    def prove(self, state: State, output: TickOutput | None, *, whole: bool) -> int | bytes:
        """What the frame of the tick says: the hash of the state if whole, or if there is nothing to link, else a link."""
        changes = None if output is None else output.changes
        if whole or changes is None or self._linker is None:
            state_hash = state.hash()
            self._linker, self._identity = HashChain(state.layout), identity_of(state_hash)
            return state_hash
        self._identity = self._linker.link(self._identity, changes.by_field(state.layout))
        return self._identity


def as_hash(proof: int | bytes, state: State) -> int:
    """The hash of the state that was proved just now."""
    return proof if isinstance(proof, int) else state.hash()
