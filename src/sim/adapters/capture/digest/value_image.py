"""What a walk over values has seen, as plain data: kept to find the first difference from another walk, by its path."""

from __future__ import annotations

from collections.abc import Sequence

import attrs


@attrs.frozen
class ValueRecord:
    """One object: its kind, the labels of the values inside it, and their tokens."""

    head: bytes
    labels: Sequence[str]
    tokens: list[bytes]


@attrs.frozen
class WalkImage:
    """One walk.

    Attributes:
        records: of the objects by their numbers.
        parents: for each object the number of the one in which it was first met, and the label there.
        identities: of the objects, in the order of their numbers: those of one process alone can be compared.
    """

    records: dict[int, ValueRecord]
    parents: dict[int, tuple[int, str]]
    identities: Sequence[int] = ()

    def difference(self, other: WalkImage) -> str | None:
        """The path of the first value that differs, or the list whose order does; None if there is none."""
        for number, ours in self.records.items():
            theirs = other.records.get(number)
            if ours == theirs:
                continue
            reordered = self._reordered(number, other)
            if reordered is not None:
                return f"order of {self._path(reordered)}"
            path = self._path(number)
            if theirs is None or ours.head != theirs.head:
                return path
            pairs = zip(ours.tokens, theirs.tokens, strict=False)
            if ours.head.startswith(b"set ") and sorted(ours.tokens) == sorted(theirs.tokens):
                return f"{path} (the order of its elements)"
            index = next((n for n, (one, two) in enumerate(pairs) if one != two), None)
            if index is None:  # One has more elements than the other.
                return path
            return path + (ours.labels[index] if ours.labels else f"[{index}]")
        return None

    def _reordered(self, number: int, other: WalkImage) -> int | None:
        """The first list that holds the same values in another order; None if there is none up to a number.

        All records before that number are equal, so that their numbers mean the same places.
        """
        for one in self.records:
            ours, theirs = self._items(one), other._items(one)
            if ours != theirs and sorted(ours) == sorted(theirs):
                return one
            if one == number:
                break
        return None

    def _items(self, number: int) -> list[bytes]:
        """The items of a list: its objects as they are told from others, its other values. Nothing of anything else."""
        record = self.records.get(number)
        if record is None or not (record.head == b"list" or record.head.startswith(b"deque ")):
            return []
        return [self._identity(token) if token.startswith(b"#") else token for token in record.tokens]

    def _identity(self, token: bytes) -> bytes:
        """The token of an object by what it is in this process, in place of its number in this walk."""
        number = int(token[1:-1])
        return b"#%d" % (self.identities[number] if number < len(self.identities) else -1 - number)

    def _path(self, number: int) -> str:
        labels: list[str] = []
        while number >= 0:
            number, label = self.parents[number]
            labels.append(label)
        return "".join(reversed(labels)) or "the objects"


@attrs.frozen
class ValueImage:
    """All values of a simulation.

    Attributes:
        walks: over the objects, and over those that hold copies.
    """

    walks: tuple[WalkImage, ...]

    def difference(self, other: ValueImage) -> str | None:
        """The path of the first value that differs, such as "game.units[14].hp"; None if all values are equal."""
        found = (ours.difference(theirs) for ours, theirs in zip(self.walks, other.walks, strict=True))
        return next((path for path in found if path is not None), None)
