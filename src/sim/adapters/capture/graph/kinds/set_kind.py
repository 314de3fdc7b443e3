"""Sets: with the layout of their tables where their elements hash alike in every process, else by their members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.graph.sets.equal_hashes import hashes_alike
from sim.adapters.capture.graph.sets.set_layout import SetTable, fingerprint, rebuild, table_of
from sim.adapters.capture.graph.unsavable import UnsavableError


class SetKind:
    """Sets iterate after a restore as they did live, now and after further changes, if their elements allow it."""

    name = "set"

    def seal(self, value: set[Any]) -> Any:
        """What is the same as long as nothing in the set has changed; it keeps the elements alive."""
        return (fingerprint(value), _Identities(list(value)))

    def take(self, value: set[Any]) -> tuple[Any, tuple[Any, ...]]:
        """The layout of the table, or None where it differs in each process, and the elements."""
        if any(np.isnan(one) for one in value if isinstance(one, float | np.floating)):
            raise UnsavableError("nan in a set is found by its identity alone", "keep None in its place", value)
        return (table_of(value).to_plain() if all(map(hashes_alike, value)) else None), tuple(value)

    def make(self, plain: Any, parts: Sequence[Any]) -> set[Any]:
        """An empty set."""
        del plain, parts
        return set()

    def finish(self, value: set[Any], plain: Any, parts: Sequence[Any]) -> None:
        """Put the elements into their places. Raises ValueError if they hash otherwise here."""
        if plain is None:
            value.update(parts)
        else:
            rebuild(value, SetTable.from_plain(plain), list(parts))


class _Identities:
    """Objects that are compared by identity, and kept alive for that."""

    def __init__(self, objects: list[Any]) -> None:
        self._objects = objects

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identities) and list(map(id, self._objects)) == list(map(id, other._objects))

    __hash__ = None  # type: ignore[assignment]
