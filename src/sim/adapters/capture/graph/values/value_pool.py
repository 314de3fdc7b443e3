"""The immutable values of a graph, each once, as bytes: texts, tuples, large integers, members of enumerations, names.

A cell refers to a value by its number. New values are appended. When there are more than a limit, those that no cell
refers to are removed and the rest are numbered again, in order. The limit is in the arena, so that a run that was
restored does the same at the same step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.adapters.capture.graph.storage import Storage
from sim.kernel.schema import Field, Table

VALUES, VALUE_BYTES, LIMIT = "graph.values", "graph.value_bytes", "graph.value_limit"
_NODE_MARK, _KNOWN_MARK = b"\xa1r", b"\xa1k"  # The letters of trees.py, as MessagePack writes them.
LIMIT_MIN = 1024  # So that small graphs are cleaned rarely.

VALUE_ENTRIES = (
    Table(VALUES, Field("size", "i8"), capacity=64),
    Table(VALUE_BYTES, Field("byte", "u1"), capacity=1024),
    Field(LIMIT, "i8"),
)

Numbers = npt.NDArray[np.int64]


class ValuePool:
    """Immutable values by number.

    Attributes:
        edges: the nodes inside a value, by its number; only values that have some.
        known: the numbers of values that hold an object that is saved elsewhere.
        texts: the numbers of texts that were met.
        identities: the numbers of tuples of numbers and texts that were met, by identity.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._numbers: dict[bytes, int] = {}
        self.known: set[int] = set()
        self.texts: dict[str, int] = {}
        self._contents: list[bytes] = []
        self._held: list[Any] = []  # By number: a tuple with this value, kept so that its identity stays its; or None.
        self.identities: dict[int, int] = {}
        self._written = 0
        self.edges: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._contents)

    def content(self, number: int) -> bytes:
        """The bytes of a value. Raises IndexError."""
        return self._contents[number]

    def number_of(self, content: bytes, edges: tuple[int, ...] = ()) -> int:
        """The number of these bytes, a new one if they are new. edges: the nodes inside the value."""
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self._contents)
            self._contents.append(content)
            self._held.append(None)
            if edges:
                self.edges[number] = edges
            if _KNOWN_MARK in content:
                self.known.add(number)
        return number

    def number_of_text(self, value: str, encode: Callable[[Any], bytes]) -> int:
        """As number_of, for a text: equal ones have the same bytes."""
        number = self.texts.get(value)
        if number is None:
            number = self.texts[value] = self.number_of(encode(value))
        return number

    def numbers_of_plain(self, values: list[Any], contents: list[bytes]) -> list[int]:
        """The numbers of number_of_plain, for several values."""
        numbers, held, identities = self._numbers, self._held, self.identities
        if len(set(contents)) == len(contents) and numbers.keys().isdisjoint(contents):  # All of them are new.
            found = list(range(len(held), len(held) + len(values)))
            numbers.update(zip(contents, found, strict=True))
            identities.update(zip(map(id, values), found, strict=True))
            self._contents += contents
            held += values
            return found
        return [self.number_of_plain(value, content) for value, content in zip(values, contents, strict=True)]

    def number_of_plain(self, value: Any, content: bytes) -> int:
        """As number_of, for a value that holds no other objects than numbers and texts: it is known again."""
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self._held)
            self._contents.append(content)
            self._held.append(value)
        elif self._held[number] is None:  # One object for each value: they are no more than the values.
            self._held[number] = value
        else:
            return number
        self.identities[id(value)] = number
        return number

    def forget_identities(self) -> None:
        """Encode each value again from now on."""
        self._held = [None] * len(self._contents)
        self.identities.clear()
        self.texts.clear()

    def write(self) -> None:
        """Append the new values to the arena."""
        new = self._contents[self._written :]
        if not new:
            return
        storage, start = self._storage, self._written
        self._written = len(self._contents)
        storage.resize(VALUES, self._written)
        storage.state[f"{VALUES}.size"][start:] = list(map(len, new))
        content = b"".join(new)
        size = storage.state.count(VALUE_BYTES)
        storage.resize(VALUE_BYTES, size + len(content))
        storage.state[f"{VALUE_BYTES}.byte"][size:] = np.frombuffer(content, np.uint8)

    @property
    def is_full(self) -> bool:
        """True if values that no cell refers to should be removed."""
        return len(self._contents) > max(LIMIT_MIN, int(self._storage.state[LIMIT]))

    def keep(self, live: Numbers) -> Numbers:
        """Remove all values but these (sorted numbers), and return the new number of each old one; -1 for removed."""
        renumbered = np.full(len(self._contents), -1, np.int64)
        renumbered[live] = np.arange(len(live))
        old_edges = self.edges
        self._contents = [self._contents[number] for number in live.tolist()]
        self._numbers = {content: number for number, content in enumerate(self._contents)}
        self.known = {int(renumbered[old]) for old in self.known if renumbered[old] >= 0}
        self.texts.clear()
        self._held = [self._held[number] for number in live.tolist()]
        self.identities = {id(held): number for number, held in enumerate(self._held) if held is not None}
        self.edges = {int(renumbered[old]): edges for old, edges in old_edges.items() if renumbered[old] >= 0}
        storage = self._storage
        storage.resize(VALUES, 0)
        storage.resize(VALUE_BYTES, 0)
        storage.state[LIMIT][()] = 2 * len(self._contents)
        self._written = 0
        return renumbered

    def find_edges(self, held_in: Callable[[bytes], tuple[tuple[int, ...], bool]]) -> None:
        """Find the nodes in the values, after they were read.

        held_in: returns the nodes inside a value, and whether it holds an object that is saved elsewhere. Bytes of
        numbers may look like a mark: only a few values need a closer look.
        """
        for number, content in enumerate(self._contents):
            if _NODE_MARK in content or _KNOWN_MARK in content:
                edges, is_known = held_in(content)
                if edges:
                    self.edges[number] = edges
                if is_known:
                    self.known.add(number)

    def read(self) -> None:
        """Take the values from the arena, without what is inside of them. Raises ValueError for sizes that do not fit."""
        state = self._storage.state
        sizes, content = state[f"{VALUES}.size"], state[f"{VALUE_BYTES}.byte"].tobytes()
        if len(sizes) and (sizes.min() < 0 or int(sizes.sum()) != len(content)):
            raise ValueError("expected the values of a graph of objects, got sizes that do not fit")
        ends = np.cumsum(sizes).tolist()
        self._contents = [content[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
        self._numbers = {one: number for number, one in enumerate(self._contents)}
        self.known = set()
        self._held = [None] * len(self._contents)
        self._written = len(self._contents)
