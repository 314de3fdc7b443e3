"""Which array stands for a base that nothing names, such as the one under an array that NumPy made by reshape.

An array with a field that holds all of such memory is written as if it owned it. A run that was loaded has no such base:
there it does own it, and other arrays are views of it. So they are written as its views here, too, also when it has lost
its field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sim.adapters.capture.graph.kinds.array_kind import has_memory, layout_of, owner_layout, owns_memory, view_layout

Array = np.ndarray[Any, Any]
Arrays = Mapping[int, Array]


class HiddenBases:
    """The hidden bases of one simulation. All arrays that stand for one are given by the identity of the base.

    Attributes:
        find_written: returns the arrays with a field that stand for a base, or did when fields were written last.
        replaced: what find_written returned before the fields were laid out again.
    """

    def __init__(self, find_fields: Callable[[], Arrays] = dict) -> None:
        """find_fields: returns the arrays with a field, as they are now."""
        self._find_fields = find_fields
        self.find_written: Callable[[], Arrays] = dict
        self.replaced: Arrays = {}
        self._fields: Arrays | None = None  # In a capture that is under way, and all others.
        self._others: Arrays = {}
        self._faces: dict[int, Array] = {}  # Those with views in the graph.
        self._met: dict[int, Array] = {}  # Of these, in a capture that is under way.

    def faces(self) -> dict[int, Array]:
        """The arrays that stand for a base, or did at the last capture."""
        return {**self.replaced, **self.find_written(), **self._faces}

    def begin(self) -> None:
        """A capture begins: until its end, no field gets another array."""
        self._fields = None

    def end(self) -> None:
        """A capture is done: forget the faces of which it has met no view."""
        self._faces, self._met, self._fields, self._others = self._met, {}, None, {}

    def layout_of(self, array: Array, is_node: Callable[[int], bool]) -> tuple[list[Any], tuple[Any, ...]]:
        """As layout_of of arrays, with the array that stands for a base in place of it.

        is_node: whether the array of an identity is in the graph or known to it by a name. Raises UnsavableError.
        """
        plain, parts = layout_of(array)
        base = array if owns_memory(plain) else parts[0]
        face = self._face_of(base, is_known=base is not array and is_node(id(base)))
        if face is None:
            return plain, parts
        return (owner_layout(array), ()) if face is array else (view_layout(array, base), (face,))

    def has_memory(self, array: Array) -> bool:
        """Return True if the memory of an array is written as its own."""
        is_face = self._faces.get(id(array.base)) is array
        return is_face or (has_memory(array) and id(array) not in self._faces)

    def _face_of(self, base: Array, *, is_known: bool) -> Array | None:
        """The array that stands for a base; None without one. is_known: the base itself is written."""
        key = id(base)
        if self._fields is None:
            self._fields, self._others = self._find_fields(), self.faces()
        face = self._fields.get(key)
        if face is None and not is_known:
            face = self._others.get(key)
        if face is not None:
            self._met[key] = self._faces[key] = face
        return face
