"""Sets of objects in the bytes of a Mesa model: in an order that does not depend on memory addresses.

Pickle writes a set in the order of its table. The table of a set of agents hangs on their memory addresses, which differ
in each process and after each load, so that equal models had different bytes. Here the members are written in an order of
their own: those with a position in the model by it, others by what they hold.

A set whose members all have a position is one of the values of the bytes. Any other is written last: by then most of its
members were written elsewhere, and the order of that is theirs. It is filled last, when the agents have their attributes.
Where the members hash alike in every process, the layout of the table is a part of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sim.kernel.sets.equal_hashes import hashes_alike
from sim.kernel.sets.set_layout import SetTable, rebuild, table_of

# The first elements of tuples that stand for sets.
SET = "a set of parts of the model"
FROZENSET = "a frozenset of parts of the model"
LATE_SET = "a set that is filled last"

_ATOMS = (type(None), bool, int, float, complex, str, bytes, np.generic)
Position = Callable[[Any], int | None]


class SetOrder:
    """The order in which the members of the sets of one dump are written.

    Attributes:
        late: the sets that are written last, by number.
    """

    def __init__(self, position: Position, content: Callable[[Any], bytes]) -> None:
        """position: the number of a part of the model, None for others. content: what an object holds, as bytes."""
        self.late: list[set[Any]] = []
        self._position, self._content = position, content
        self._ranks: dict[int, int] = {}  # Of objects without a position, by their ids, in the order of writing.

    def ordered(self, members: Iterable[Any]) -> list[Any]:
        """The members in an order that is equal in every process."""
        return sorted(members, key=self._key)

    def keys(self, members: Iterable[Any]) -> list[Any]:
        """What the order of the members is decided by."""
        return sorted(map(self._key, members))

    def has_positions(self, members: Iterable[Any]) -> bool:
        """Return True if all members are parts of the model, or plain values, that can be in a set at any time."""
        return all(
            isinstance(one, _ATOMS)
            or (_hashes_by_address(one) and self._position(one) is not None)
            or (type(one) is frozenset and self.has_positions(one))
            for one in members
        )

    def known_before(self, memory: dict[int, tuple[int, Any]]) -> None:
        """Take over the order in which a pickler wrote other objects: its memory."""
        self._ranks.update((address, place) for address, (place, _) in memory.items())

    def note(self, members: Iterable[Any]) -> None:
        """Give numbers to members that are written now, in this order."""
        for member in members:
            self._ranks.setdefault(id(member), len(self._ranks) + (1 << 40))

    def _key(self, member: Any) -> tuple[Any, ...]:
        kind = type(member)
        if isinstance(member, _ATOMS):
            return 0, kind.__name__, repr(member)
        position = self._position(member)
        if position is not None:
            return 1, "", position
        if kind is tuple:
            return 2, "", tuple(map(self._key, member))
        if kind is frozenset:
            return 3, "", tuple(self.keys(member))
        rank = self._ranks.get(id(member))
        return (4, "", rank) if rank is not None else (5, "", self._content(member))


def _hashes_by_address(value: Any) -> bool:
    method: Any = type(value).__hash__
    return method is object.__hash__


def layout_of(value: set[Any] | frozenset[Any]) -> list[Any] | None:
    """The layout of a set's table if it is the same in every process, else None."""
    return table_of(value).to_plain() if all(map(hashes_alike, value)) else None


def fill(value: set[Any], layout: list[Any] | None, members: Sequence[Any]) -> None:
    """Put the members into an empty set. Raises ValueError for a layout that these members cannot have."""
    if layout is None:
        value.update(members)
    else:
        rebuild(value, SetTable.from_plain(layout), list(members))


def reduced_subclass(value: Any, order: SetOrder) -> Any:
    """How pickle writes an instance of a subclass of set or frozenset, with its members in order; None for others."""
    kind: Any = type(value)
    known: tuple[Any, ...] = (set.__reduce__, frozenset.__reduce__)
    if kind.__reduce__ not in known or kind.__reduce_ex__ is not object.__reduce_ex__ or all(map(hashes_alike, value)):
        return None
    made, _, state = value.__reduce__()
    return made, (order.ordered(value),), state
