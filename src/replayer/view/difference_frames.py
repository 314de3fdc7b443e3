"""Differences of two tapes at a tick, each made once from exact values and kept for all pages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from replayer.view.states.frame_encoding import EncodedTick, encode_difference
from replayer.view.worker.page_jobs import ViewSelection

KEPT_BYTES_MAX = 64 << 20


class DifferenceFrames:
    """The encoded differences, second tape minus first. numbers: of the layers, as the first tape numbers them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._kept: OrderedDict[tuple[int, str], bytes] = OrderedDict()
        self._size_bytes = 0

    def layers(self, tick: int, look: ViewSelection, encoded: Sequence[EncodedTick]) -> list[bytes]:
        """The differences of the layers that both tapes have in the same size. encoded: both ticks, with exact values."""
        one, other = (side.exact for side in encoded)
        return [
            self._layer(tick, name, encoded)
            for name in look.layers
            if name in self.numbers
            and name in one
            and name in other
            and one[name].shape == other[name].shape
            and one[name].size
        ]

    def _layer(self, tick: int, name: str, encoded: Sequence[EncodedTick]) -> bytes:
        key = (tick, name)
        if key not in self._kept:
            one, other = (side.exact[name] for side in encoded)
            made = self._kept[key] = encode_difference(self.numbers[name], one, other)
            self._size_bytes += len(made)
            while self._size_bytes > KEPT_BYTES_MAX:
                self._size_bytes -= len(self._kept.popitem(last=False)[1])
            return made
        self._kept.move_to_end(key)
        return self._kept[key]
