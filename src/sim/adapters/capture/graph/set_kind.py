"""Sets: with the layout of their tables where their elements hash alike in every process, else by their members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.adapters.capture.graph.equal_hashes import hashes_alike
from sim.adapters.capture.graph.set_layout import SetTable, fingerprint, rebuild, table_of


class SetKind:
    """Sets iterate after a restore as they did live, now and after further changes, if their elements allow it."""

    name = "set"

    def seal(self, value: set[Any]) -> Any:
        """What is the same as long as nothing in the set has changed; it keeps the elements alive."""
        return (fingerprint(value), _Identities(list(value)))

    def take(self, value: set[Any]) -> tuple[Any, tuple[Any, ...]]:
        """The layout of the table, or None, and the elements."""
        if all(map(hashes_alike, value)):
            return table_of(value).to_plain(), tuple(value)
        return None, tuple(_sorted(value))

    def make(self, plain: Any, parts: Sequence[Any]) -> set[Any]:
        """An empty set."""
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


def _sorted(value: set[Any]) -> list[Any]:
    """Members in an order that does not depend on their hashes: texts by themselves, objects by what they hold."""
    return sorted(value, key=_sort_key)


def _sort_key(value: Any) -> tuple[str, str]:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if hasattr(value, "__dict__") and not callable(value):
        simple = sorted(
            (key, repr(one)) for key, one in vars(value).items() if isinstance(one, str | int | float | tuple | bytes)
        )
        return name, repr(simple)
    return name, repr(value)
