"""Pair the records of two traces of one step: by their lines, and by the calls that they are part of.

A line that one of the two runs in a call which the other one did not make is not paired with the same line of another call, such
as a function that a loop calls in one of them, and that the line after the loop calls in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from replayer.diagnose.explain.step_trace import RETURN, Record

WINDOW = 4000  # Records ahead in which two traces are searched for where they meet again.

Key = tuple[str, str, int]
_Place = tuple[int, int]  # A call that is paired, by its number in the second trace (-1: none), and how deep below it.


@attrs.frozen
class Item:
    """A pair of records, or one record without a counterpart.

    Attributes:
        first, second: indices of records; None in the trace that did not run this line.
    """

    first: int | None
    second: int | None


class RecordPairing:
    """Pairs the records of two traces."""

    def __init__(
        self,
        first: Sequence[Record],
        second: Sequence[Record],
        keys: tuple[list[Key], list[Key]],
        *,
        is_one_version: bool,
    ) -> None:
        """keys: the lines of the records, with those of the second as the first has them.

        is_one_version: True if a call must be as deep as its counterpart; of two versions of the code, one may have a function more.
        """
        self._records = (first, second)
        self._keys = keys
        self._deepest = max(len(first), len(second)) if is_one_version else 1
        self._resumed = (_resumed(first), _resumed(second))
        self._known: tuple[dict[int, int], dict[int, int]] = ({}, {})  # Frames that are paired, by those of the second.

    def items(self) -> list[Item]:
        """All records, in order."""
        (first, second), items = self._keys, list[Item]()
        i = j = 0
        while i < len(first) and j < len(second):
            if first[i] == second[j] and self._place(0, i) == self._place(1, j):
                items.append(self._paired(i, j))
                i, j = i + 1, j + 1
                continue
            skipped = self._meeting(i, j)
            items += [Item(number, None) for number in range(i, i + skipped[0])]
            items += [Item(None, number) for number in range(j, j + skipped[1])]
            i, j = i + skipped[0], j + skipped[1]
        items += [Item(number, None) for number in range(i, len(first))]
        items += [Item(None, number) for number in range(j, len(second))]
        return items

    def _paired(self, i: int, j: int) -> Item:
        first, second = self._records[0][i].frame, self._records[1][j].frame
        self._known[0][first] = self._known[1][second] = second
        return Item(i, j)

    def _place(self, variant: int, number: int) -> _Place:
        """The nearest call that is paired, of those that a record is part of, and how many calls there are below it."""
        records, known, resumed = self._records[variant], self._known[variant], self._resumed[variant]
        depth = 0
        while number >= 0:
            frame = records[number].frame
            # Which of several generators is resumed may differ: it counts who resumes it.
            if frame in known and frame not in resumed:
                return known[frame], min(depth, self._deepest)
            number, depth = records[number].parent, depth + 1
        return -1, min(depth, self._deepest)

    def _meeting(self, i: int, j: int) -> tuple[int, int]:
        """The numbers of records to skip in each trace: then both continue with the same line, and the same one after."""
        first, second = self._keys
        end = len(first) - i, len(second) - j
        near = self._nearest(i, j, range(min(end[0], WINDOW)), range(min(end[1], WINDOW)), end)
        if near != end:
            return near
        return self._later_in_paired(i, j, end)

    def _nearest(self, i: int, j: int, ahead: range, other: range, end: tuple[int, int]) -> tuple[int, int]:
        first, second = self._keys
        positions: dict[tuple[Key, _Place], list[int]] = {}
        for right in other:
            positions.setdefault((second[j + right], self._place(1, j + right)), []).append(right)
        best, best_sum = end, sum(end)
        for left in ahead:
            if left >= best_sum:
                break
            for right in positions.get((first[i + left], self._place(0, i + left)), ()):
                if left + right >= best_sum:
                    break
                if first[i + left + 1 : i + left + 2] == second[j + right + 1 : j + right + 2]:
                    best, best_sum = (left, right), left + right
                    break
        return best

    def _later_in_paired(self, i: int, j: int, end: tuple[int, int]) -> tuple[int, int]:
        """As _meeting, beyond the window: the first lines that both run in calls which are paired already."""
        positions = [
            {key: number for number, key in reversed(list(self._in_paired(variant, begin)))}
            for variant, begin in enumerate((i, j))
        ]
        common = [(left, positions[1][key]) for key, left in positions[0].items() if key in positions[1]]
        return min(common, key=sum, default=end)

    def _in_paired(self, variant: int, begin: int) -> Iterator[tuple[int, tuple[Key, int]]]:
        records, known, resumed = self._records[variant], self._known[variant], self._resumed[variant]
        for number in range(begin, len(records)):
            frame = records[number].frame
            if frame in known and frame not in resumed:
                yield number - begin, (self._keys[variant][number], known[frame])


def _resumed(records: Sequence[Record]) -> set[int]:
    """The calls of generators and coroutines, which go on after they gave a value."""
    returned, found = set[int](), set[int]()
    for record in records:
        if record.frame in returned:
            found.add(record.frame)
        if record.kind == RETURN:
            returned.add(record.frame)
    return found
