"""Sets in arguments whose elements are objects, or which iterate otherwise than a set made of their sorted elements.

Forms, besides those of object_values.py:

    ["H", table, element, ...]         a set; table: as set_layout.py describes it, or None if elements hash otherwise elsewhere
    ["F", table, element, ...]         a frozenset
"""

from __future__ import annotations

from operator import is_
from typing import Any

from sim.adapters.capture.graph.values.canonical_order import canonical_order
from sim.adapters.capture.values import ValueDecoder, ValueEncoder, encode_value, is_immutable
from sim.kernel.sets.equal_hashes import hashes_alike
from sim.kernel.sets.set_layout import SetTable, frozen, rebuild, table_of


def set_form(value: Any, path: str, encoder: ValueEncoder, depth: int) -> list[Any] | None:
    """The form of a set or frozenset; None if the sorted elements are enough. Raises NotPlainError."""
    are_plain, are_alike = all(map(is_immutable, value)), all(map(hashes_alike, value))
    table = _table(value) if are_alike else None
    if are_plain and (table is None or _is_made_of_sorted(value, table)):
        return None
    elements = list(value) if table is not None else canonical_order(value, lambda _: None)
    trees = [encoder.tree(one, f"an element of {path}", depth + 1) for one in elements]
    return ["H" if type(value) is set else "F", None if table is None else table.to_plain(), *trees]


def set_value(letter: str, plain: Any, trees: list[Any], decoder: ValueDecoder) -> Any:
    """The set or frozenset of a form. Raises ValueError, TypeError, LookupError."""
    table = None if plain is None else SetTable.from_plain(plain)
    if letter == "F":
        elements = [decoder.value(tree) for tree in trees]
        return frozenset(elements) if table is None else frozen(elements, table)
    made = decoder.enter(set())
    members = [decoder.value(tree) for tree in trees]
    decoder.later(lambda: made.update(members) if table is None else rebuild(made, table, members))
    return made


def _is_made_of_sorted(value: Any, table: SetTable) -> bool:
    """Return True if a set of the sorted elements has the same table, with the same elements at its places."""
    made = type(value)(sorted(value, key=encode_value))
    return _table(made) == table and all(map(is_, made, value))


def _table(value: Any) -> SetTable | None:
    try:
        return table_of(value)
    except ValueError:  # It cannot be made again.
        return None
