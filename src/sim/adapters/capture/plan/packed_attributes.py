"""What is kept of each attribute that is written after each step."""

from __future__ import annotations

from typing import Any
from weakref import getweakrefcount

import attrs
import numpy as np


@attrs.define(eq=False)
class PackedCell:
    """A number: its index in the memory of its letter."""

    letter: str
    memory: Any
    index: int
    kind_index: int
    kind: type


@attrs.frozen(eq=False)
class WatchedAttribute:
    """An attribute that stays the same object in most steps: its number in the plan; is_rest if the graph holds it."""

    number: int
    attributes: dict[str, Any]
    name: str
    is_rest: bool


@attrs.define(eq=False)
class PackedArray:
    """An array: its index among the joined parts, or its present value and the view that it is copied to.

    Attributes:
        based, based_before: the last two arrays that were a view of all of a hidden base; see hidden_bases.py.
    """

    attributes: dict[str, Any]
    name: str
    value: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    part: int | None
    view: Any
    detached: bool
    based: Any = None
    based_before: Any = None

    def noted(self, value: Any) -> PackedArray:
        """Note the array that is written, if it has a hidden base; return self."""
        if value.base is not None and not self.detached:
            before = self.based
            self.based_before = None if before is None or getweakrefcount(before) else before
            self.based = value
        return self

    def faces(self) -> list[Any]:
        """The arrays with a hidden base that are written, or were before the last one came.

        Those whose end a weak reference may see are left out: nothing keeps them alive.
        """
        return [one for one in (self.based_before, self.based) if one is not None and not getweakrefcount(one)]
