"""Attributes of one object that stay the same objects in nearly all steps: watched together, by the memory of its dict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import attrs

from sim.kernel.memory.watched_items import Pair, count_pairs, watch_holder, watch_items

NEVER_EQUAL: Pair = memoryview(b"0"), memoryview(b"")


@attrs.define(eq=False)
class QuietAttribute:
    """An attribute, and the value that it is expected to have.

    Attributes:
        number: of its variable in the plan.
        name: of the attribute.
        value: the object.
        is_number: True for one that is written when it is another object, False for one that should not be another.
        moves: how often it was another object.
    """

    number: int
    name: str
    value: Any
    is_number: bool
    moves: int = 0


class QuietAttributes:
    """The quiet attributes of one object, and further ones that are not captured: they are only expected to stay the same.

    Attributes:
        listed: the attributes; none if the object's dict cannot be watched.
        pair_count: the number of pairs that tell if all are as they were, the object's class and dict, too.
    """

    def __init__(self, holder: Any, listed: Sequence[QuietAttribute], moving: Collection[str]) -> None:
        """moving: the names of all attributes that are expected to be other objects often."""
        self._holder, self._class, self._attributes = holder, type(holder), vars(holder)
        attributes, self._size = self._attributes, len(self._attributes)
        names = {one.name for one in listed}
        self._others = dict.fromkeys((name for name in attributes if name not in names and name not in moving), 0)
        self._other_moves = dict.fromkeys(self._others, 0)
        count = count_pairs(attributes, names | self._others.keys()) if listed and watch_holder(holder) else 0
        self.pair_count = count + 1 if count else 0
        self.listed = listed if count else ()

    def move_to(self, holder: Any) -> None:
        """Watch the same attributes of another object of the same form."""
        self._holder, self._attributes = holder, vars(holder)

    def watch(self) -> list[Pair]:
        """Pairs that are equal as long as the attributes have the values that are noted here; never if they have not."""
        attributes = self._attributes
        # No references to what is not captured: it may end at any time, and its address says enough.
        self._others = {name: id(attributes.get(name)) for name in self._others}
        self._keys = tuple(attributes)  # Their addresses are compared: no other text may get one of these.
        items = watch_items(attributes, {one.name: one.value for one in self.listed}, self._others)
        holder = watch_holder(self._holder)
        is_watched = holder is not None and len(items) + 1 == self.pair_count and self._is_whole()
        return [holder, *items] if holder is not None and is_watched else [NEVER_EQUAL] * self.pair_count

    def _is_whole(self) -> bool:
        return type(self._holder) is self._class and vars(self._holder) is self._attributes

    def look(self, write: Callable[[int, Any], bool]) -> bool:
        """Look at each attribute, and write numbers that are other objects. Return False if anything else has changed.

        Raises KeyError for an attribute that was removed.
        """
        attributes = self._attributes
        if not self._is_whole() or len(attributes) != self._size:
            return False
        for one in self.listed:
            value = attributes[one.name]
            if value is not one.value:
                if not (one.is_number and write(one.number, value)):
                    return False
                one.value = value
                one.moves += 1
        for name, address in self._others.items():
            self._other_moves[name] += id(attributes[name]) != address
        return True

    def moved(self, least: int) -> Iterator[str]:
        """The names of those that were other objects at least so often."""
        yield from (one.name for one in self.listed if one.moves >= least)
        yield from (name for name, count in self._other_moves.items() if count >= least)
