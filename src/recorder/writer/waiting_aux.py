"""Sections of ticks that wait for a block; used by the writer's thread only."""

from __future__ import annotations

from recorder.format.blocks.aux_block import AuxChange, Encoded, difference, encode_aux
from recorder.format.segments.segment_encoder import Piece, aux_pieces


class WaitingAux:
    """The sections of the ticks that will form the next block.

    Attributes:
        is_known: True if the sections of the last tick are known.
        size_bytes: about the size of the block.
    """

    def __init__(self) -> None:
        self.is_known = False
        self.size_bytes = 0
        self._before: Encoded = {}  # Before the first waiting change.
        self._present: Encoded = {}  # Of the last tick.
        self._is_whole = False  # The block begins with all sections: those before are unknown.
        self._changes: list[AuxChange] = []

    def take(self, tick: int, sections: Encoded | None) -> None:
        """Take the sections of the next tick; None if they are not known."""
        if sections is None:
            self.is_known = False
            return
        if not self.is_known:
            self.is_known = self._is_whole = True
            self._before, self._changes = {}, [AuxChange(tick, sections, [])]
        elif sections is not self._present:
            self._changes.append(difference(tick, self._present, sections))
        else:
            return
        self._present = sections
        self.size_bytes += self._changes[-1].size_bytes

    def cut(self, first_tick: int, tick_count: int) -> list[list[Piece]]:
        """Encode what waits of these ticks, and clear it; all of them are known, or none is."""
        if not self.is_known:
            return []
        payload = encode_aux(first_tick, tick_count, self._changes, self._before, whole=self._is_whole)
        self._changes, self._before, self._is_whole, self.size_bytes = [], self._present, False, 0
        return [aux_pieces(first_tick, payload)]

    def whole(self, tick: int) -> list[list[Piece]]:
        """Encode all sections of the last tick that was taken, in a block that needs no other one."""
        if not self.is_known:
            return []
        return [aux_pieces(tick, encode_aux(tick, 1, [AuxChange(tick, self._present, [])], {}, whole=True))]
