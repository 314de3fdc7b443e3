"""The identity of a tick's state in its frame: the state's hash, or a chained hash of its changes for large states."""

from __future__ import annotations

from recorder.format.blocks.hash_chain import HashChain, identity_of
from recorder.writer.jobs import TickOutput
from sim.kernel.state import State


class TickHashChain:
    """The hash chain of one session, which begins with the hash of a complete state."""

    def __init__(self) -> None:
        self._hash_chain: HashChain | None = None
        self._identity = b""

    def identify(self, state: State, output: TickOutput | None, *, whole: bool) -> int | bytes:
        """Return the state's hash if whole, or if there are no changes to chain; else a chained hash, as bytes."""
        changes = None if output is None else output.changes
        if whole or changes is None or self._hash_chain is None:
            state_hash = state.hash()
            self._hash_chain, self._identity = HashChain(state.layout), identity_of(state_hash)
            return state_hash
        self._identity = self._hash_chain.extend_by(self._identity, changes)
        return self._identity


def as_hash(identity: int | bytes, state: State) -> int:
    """Return the hash of the state that has this identity."""
    return identity if isinstance(identity, int) else state.hash()
