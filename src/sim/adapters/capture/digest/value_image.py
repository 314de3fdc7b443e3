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
    """

    records: dict[int, ValueRecord]
    parents: dict[int, tuple[int, str]]

    def difference(self, other: WalkImage) -> str | None:
        """The path of the first value that differs; None if there is none."""
        for number, ours in self.records.items():
            theirs = other.records.get(number)
            if ours == theirs:
                continue
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
