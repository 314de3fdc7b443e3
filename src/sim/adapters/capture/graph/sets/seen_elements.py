"""What was seen in each set so far: whether its free places can hang on the hashes of one process."""

from __future__ import annotations

import enum
from typing import Any
from weakref import ReferenceType, ref

SETS_MIN = 64  # Fewer are not looked through for those that have gone.


class Elements(enum.Enum):
    """What was seen in a set: nothing; elements that hash alike in every process; or others at any time."""

    NONE = 0
    ALIKE = 1
    OTHERS = 2


class SeenElements:
    """What was seen in sets, by their identity. It keeps no set alive: the end of an element could be seen."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[ReferenceType[set[Any]], Elements]] = {}
        self._looked_through = SETS_MIN

    def of(self, value: set[Any]) -> Elements:
        """What was seen in this set."""
        found = self._seen.get(id(value))
        return found[1] if found is not None and found[0]() is value else Elements.NONE

    def note(self, value: set[Any], plain: Any) -> None:
        """Note a layout that SetKind.take returned for this set."""
        elements = Elements.OTHERS if plain is None else Elements.ALIKE if plain[2] or plain[4:] else Elements.NONE
        self._seen[id(value)] = (ref(value), elements)
        if len(self._seen) > 2 * self._looked_through:
            self._seen = {key: one for key, one in self._seen.items() if one[0]() is not None}
            self._looked_through = max(SETS_MIN, len(self._seen))
