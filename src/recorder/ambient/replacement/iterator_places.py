"""Put iterators back where they stood: under each of their names, as one object where they were one."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from recorder.ambient.iterators import IteratorParts, position_of
from recorder.ambient.replacement.named_values import Path
from recorder.ambient.replacement.replaced import Replacements


class IteratorPlaces:
    """The iterators of one ambient.

    An iterator cannot be set back, only replaced. The one that was captured is put back if it stands where it stood.
    """

    def __init__(
        self,
        iterators: Mapping[Path, IteratorParts],
        objects: Mapping[Path, Any],
        aliases: Mapping[Path, Path],
        leaves: Mapping[Path, Any],
    ) -> None:
        """All by path. leaves: of iterators their positions."""
        self._iterators = iterators
        self._objects = objects
        self._aliases = aliases
        self._leaves = leaves
        self._values: dict[Path, Any] = {}

    def put_back(self, paths: Iterable[Path], replacements: Replacements) -> None:
        """Put those at these paths back. What holds them has to be what was captured."""
        for path in paths:
            self._value(path)
        for path, value in self._values.items():
            replacements.put(path, value)

    def _value(self, path: Path) -> Any:
        """The iterator at a path, as it stood, over those that it holds, as they stood."""
        if path not in self._values:
            original, parts = self._objects[path], self._iterators[path]
            held = [self._held((*path, ("held", index)), one) for index, one in enumerate(parts.held)]
            is_same = position_of(original) == self._leaves.get(path) and all(map(operator.is_, held, parts.held))
            self._values[path] = original if is_same else parts.built(held)
        return self._values[path]

    def _held(self, path: Path, value: Any) -> Any:
        """What an iterator goes through, as it stood: an iterator, or a tuple in which there may be some."""
        real = self._aliases.get(path, path)
        if real in self._iterators:
            return self._value(real)
        if type(value) is not tuple:
            return value
        items = [self._held((*path, ("item", index)), one) for index, one in enumerate(value)]
        return value if all(map(operator.is_, items, value)) else tuple(items)
