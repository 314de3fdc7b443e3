"""Sets: with the layout of their tables where their elements hash alike in every process, else by their members."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.graph.sets.equal_hashes import hashes_alike
from sim.adapters.capture.graph.sets.set_layout import SetTable, fingerprint, rebuild, table_of
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.kernel.class_names import module_of

_SIMPLE = (type(None), bool, int, float, complex, str, bytes, np.generic)
_DEPTH = 4  # Of what is compared to order objects that are new in this step.


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


def canonical_order(elements: Iterable[Any], node_at: Callable[[int], tuple[int, Any] | None]) -> list[Any]:
    """Elements in an order that does not depend on their hashes: nodes by number, others by what they hold."""

    def key(value: Any) -> tuple[int, int, str]:
        node = node_at(id(value))
        return (0, node[0], "") if node is not None else (1, 0, _content_of(value, _DEPTH))

    return sorted(elements, key=key)


def _content_of(value: Any, depth: int) -> str:
    """What a value holds, as a text that is equal in every process."""
    kind = type(value)
    name = f"{module_of(kind)}.{kind.__qualname__}"
    if depth and isinstance(value, np.ndarray):
        return f"{name}{value.dtype}{value.shape}{value.tobytes().hex()}"
    if depth and isinstance(value, list | tuple | deque):
        return f"{name}[{', '.join(_content_of(one, depth - 1) for one in value)}]"
    if depth and isinstance(value, dict):
        items = (f"{_content_of(key, depth - 1)}: {_content_of(one, depth - 1)}" for key, one in value.items())
        return f"{name}{{{', '.join(items)}}}"
    if depth and not callable(value) and hasattr(value, "__dict__"):
        listed = sorted(vars(value).items())
        return f"{name}({', '.join(f'{key}={_content_of(one, depth - 1)}' for key, one in listed)})"
    return f"{name} {value!r}" if isinstance(value, _SIMPLE) else name
