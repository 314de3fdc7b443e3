"""Cells that stand in rows, one row after another: in which row a cell is, and how it is reached from its object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np

from sim.adapters.capture.graph.rows import DICTS
from sim.adapters.capture.graph.storage import Integers, Tags
from sim.kernel.memory.object_memory import Values

_KEY_TYPES = (str, int, float, bytes, tuple)


class RowCells(ABC):
    """The cells of some rows of one group.

    Attributes:
        key: the description of the group, see groups.py.
        flat: the values, kept alive so that their identities stay theirs.
        lengths: the number of cells of each row.
    """

    def __init__(self, key: list[Any]) -> None:
        self.key = key
        self.flat: Values = ()
        self.lengths: list[int] = []
        self._ends: list[int] | None = None

    def set_flat(self, lengths: list[int], flat: Values) -> None:
        """Replace what the objects hold."""
        if lengths is not self.lengths:
            self.lengths, self._ends = lengths, None
        self.flat = flat

    @abstractmethod
    def node_of(self, place: int) -> int:
        """The node whose cell this is."""

    @property
    def ends(self) -> list[int]:
        """The end of each row's cells."""
        if self._ends is None:
            self._ends = list(accumulate(self.lengths))
        return self._ends

    def row_of(self, place: int) -> int:
        """The row of a cell."""
        return bisect_right(self.ends, place)

    def is_key(self, place: int) -> bool:
        """Return True for the key of a dict."""
        if not self.holds_items:
            return False
        index, length = self._index_in_row(place)
        return 0 <= index < length // 2

    def _index_in_row(self, place: int) -> tuple[int, int]:
        """The index of a cell among those that its object holds, and the number of these; -1 for a content's owner."""
        row, before = self.row_of(place), int(self.key[0] == "content")
        return place - (self.ends[row] - self.lengths[row]) - before, self.lengths[row] - before

    def path_in(self, place: int) -> str:
        """How a cell is reached from its object: ``.hp``, ``[3]`` or ``['wolf']``."""
        index, length = self._index_in_row(place)
        if self.key[0] == "object":
            return f".{self.key[2][index]}"
        if not self.holds_items:
            return f"[{index}]"
        half = length // 2
        key = self.flat[place - half] if index >= half else self.flat[place]
        text = repr(key) if isinstance(key, _KEY_TYPES) else f"<{type(key).__qualname__}>"
        return f"[{text}]" if index >= half else f" (its key {text})"

    @property
    def holds_items(self) -> bool:
        """True for dicts, of which each row is keys, then values."""
        return self.key[0] == "dict" or (self.key[0] == "content" and self.key[1] in DICTS)


class LooseCells:
    """Cells that are in no arena yet.

    Attributes:
        tag_memory, int_memory, float_memory: the kinds and the payloads, for single writes; see GroupColumns.
    """

    def __init__(self, count: int) -> None:
        """Cells of None."""
        words = memoryview(bytearray(8 * count))
        self.tag_memory = memoryview(bytearray(count))
        self.int_memory, self.float_memory = words.cast("q"), words.cast("d")

    @property
    def tags(self) -> Tags:
        """The kinds, as an array."""
        found: Tags = np.frombuffer(self.tag_memory, np.uint8)
        return found

    @property
    def values(self) -> Integers:
        """The payloads, as an array."""
        found: Integers = np.frombuffer(self.int_memory, np.int64)
        return found
