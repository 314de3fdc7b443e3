"""Find the inputs that change a value when they are left out, by leaving out groups of them.

Each of three inputs that matter among hundreds takes a dozen runs. A group that changes nothing is not looked into: were
two inputs in it to cancel each other, that would not be seen. What changes the value only together is found as a set.
"""

from __future__ import annotations

from collections.abc import Callable

from replayer.reduction.chunk_search import ChunkSearch, Parts

Changes = Callable[[Parts], bool]  # Return True if the value is different without these parts.
GROUPS = 16  # To begin with: in fewer, inputs that cancel each other would be together more often.
SETS_MAX = 8  # That are looked for: each of them takes some tens of runs.


class GroupSearch:
    """Searches for influential parts.

    Attributes:
        single: parts that change the value when each alone is left out.
        together: sets of parts that change it when all of a set are left out, and of which no smaller part does.
    """

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self.single: Parts = []
        self.together: list[Parts] = []

    def search(self, parts: Parts, *, each: bool = False) -> None:
        """Search all parts. each: leave out every part alone, instead of groups."""
        size = 1 if each else -(-len(parts) // GROUPS) or 1
        for begin in reversed(range(0, len(parts), size)):
            group = parts[begin : begin + size]
            if self._changes(group):
                self._split(group)

    def rest_changes(self, parts: Parts) -> bool:
        """Leave out all other parts together. As long as that changes the value, find a further set; True if it still does."""
        for _ in range(SETS_MAX):
            found = {*self.single, *(part for group in self.together for part in group)}
            rest = [part for part in parts if part not in found]
            if not rest or not self._changes(rest):
                return False
            self._add_set(rest)
        return True

    def _split(self, group: Parts) -> None:
        """Find the parts of a group without which the value is different."""
        if len(group) == 1:
            self.single += group
            return
        middle = len(group) // 2
        halves = [half for half in (group[middle:], group[:middle]) if self._changes(half)]
        for half in halves:
            self._split(half)
        if not halves:
            self._add_set(group)

    def _add_set(self, group: Parts) -> None:
        """Find the smallest set in a group, all of which has to be left out to change the value."""
        last = max(part.tick for part in group)
        found = ChunkSearch(lambda parts: last if parts and self._changes(parts) else None, last).smallest(group)
        if len(found) == 1:
            self.single += found
        else:
            self.together.append(found)
