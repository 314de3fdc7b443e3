"""Whether an array has memory of its own: it gets a field then, and is a view in the graph otherwise.

An array such as one made by reshape is a view of all of a base that mostly nothing else holds. Who holds it is a question
to the captured objects: garbage that is not collected yet, or a variable of the caller, may hold it in a recording and
not in a replay, and the state is the same. How often a base is referred to only answers quickly that nothing holds it.
"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.graph.names.attribute_names import object_dict

Array = np.ndarray[Any, Any]
LeftAlone = Callable[[Any, str, Any], bool]

HOLDERS_OF_A_LONE_BASE = 3  # The view, the variable here, and the call that counts.
TEXT_KINDS = "SU"  # Texts of fixed length: their fields are bytes, with one more axis.
_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))
_NO_WAY = (types.ModuleType, type, types.FrameType, types.TracebackType, types.CodeType)  # These lead to everything.


def is_quick_array(value: Any, is_own: Callable[[Array], bool], *, is_copy: bool = False) -> bool:
    """Return True for an array that is copied into a field as it is: numbers, C order, its own memory.

    is_own: whether the memory is the array's own. is_copy: memory of a compiled library, such as that of a returned
    picture, counts as the array's own.
    """
    if type(value) is not np.ndarray or not value.flags.c_contiguous or value.ndim > 8:
        return False
    if not value.flags.writeable:
        return False  # That is a part of its state.
    dtype = value.dtype
    if dtype.kind in TEXT_KINDS:
        is_plain = dtype.isnative and dtype.itemsize > 0 and value.ndim < 8
    else:
        is_plain = dtype.kind in "biufc" and dtype.isnative and dtype.itemsize <= (16 if dtype.kind == "c" else 8)
    return is_plain and ((is_copy and type(value.base) is not np.ndarray) or is_own(value))


def holds_whole_base(array: Array) -> bool:
    """Return True if the array owns its memory, or is a view of all of the array that does."""
    base = array.base
    # Of a part of the base a restore could not make a view that reaches beyond that part, such as one made later.
    return base is None or (type(base) is np.ndarray and base.base is None and base.nbytes == array.nbytes)


def is_only_holder(array: Array) -> bool:
    """Return True if nothing in this process but the array holds its memory, in whole. False says little: see above."""
    base = array.base
    return base is None or (holds_whole_base(array) and sys.getrefcount(base) <= HOLDERS_OF_A_LONE_BASE)


def is_over(one: Any, base: Any) -> bool:
    """Return True for a base, and for each view of it."""
    return one is base or (isinstance(one, np.ndarray) and one.base is base)


def is_shared(
    array: Array,
    roots: Iterable[Any],
    is_left_alone: LeftAlone,
    named: Callable[[type], Iterable[int]],
    *,
    but_by_views_of: Any = None,
) -> bool:
    """Return True if objects lead to the base of an array, or to another view of it, but by this array.

    but_by_views_of: an array that stands for the base; then views do not count, but the base and this array do, where
    something else than a view leads to them. is_left_alone: True for an attribute of an object that is not saved, which
    leads to nothing here. named: the identities of the objects to which the module of a class refers by names that its
    code uses.
    """
    base, face = array.base, but_by_views_of
    waiting, seen, classes = [one for one in roots if one is not array], {id(array)}, set[type]()
    while waiting:
        if any(is_over(one, base) if face is None else one is base or one is face for one in waiting):
            return True
        seen.update(map(id, waiting))
        classes.update(map(type, waiting))
        others = [one for one in waiting if _is_looked_into(type(one))]
        found = gc.get_referents(*[one for one in waiting if not _is_looked_into(type(one))])
        for one in others:
            found += _parts(one, is_left_alone) if face is None or not is_over(one, base) else ()
        held = {id(one): one for one in found if type(one) not in _ATOMS}
        waiting = [one for key, one in held.items() if key not in seen and not isinstance(one, _NO_WAY)]
    return any(id(base) in named(one) for one in classes)


@attrs.define
class OwnMemory:
    """Tells which arrays have memory of their own, among the objects of a simulation.

    Attributes:
        is_left_alone, named: see is_shared.
        holders: the outermost objects.
        find_earlier: returns what the last capture still holds.
        find_faces: returns the arrays that stand for a hidden base, or did then, by the identity of the base.
    """

    is_left_alone: LeftAlone
    named: Callable[[type], Iterable[int]]
    holders: Sequence[Any] = ()
    find_earlier: Callable[[], Iterable[Any]] = tuple
    find_faces: Callable[[], Mapping[int, Any]] = dict

    def is_own(self, array: Array) -> bool:
        """Return True if nothing in the objects shares the memory, as they are now and as far as they were captured last."""
        if array.base is None:
            return id(array) not in self.find_faces()  # Otherwise another array stands for its memory.
        return self._has_base(array, beside_views=False)

    def is_kept(self, array: Array) -> bool:
        """Return True for an array with a field as long as nothing else holds all of its memory: it stands for a hidden base.

        A run that was loaded has no such base: there the array owns the memory, and other arrays are views of it.
        """
        return self._has_base(array, beside_views=True)

    def _has_base(self, array: Array, *, beside_views: bool) -> bool:
        if is_only_holder(array):
            return True
        if not holds_whole_base(array):
            return False
        face = self.find_faces().get(id(array.base))
        if face is array:
            return True  # As in a run that was loaded, where it owns the memory.
        roots = self.holders if beside_views else [*self.holders, *self.find_earlier()]
        by_views_of = None if not beside_views else array if face is None else face
        return not is_shared(array, roots, self.is_left_alone, self.named, but_by_views_of=by_views_of)


def _is_looked_into(kind: type) -> bool:
    """Return True for objects of which the collector tells too little or too much."""
    return bool(kind.__dictoffset__) or kind is types.FunctionType or issubclass(kind, np.ndarray)


def _parts(one: Any, is_left_alone: LeftAlone) -> list[Any]:
    """What such an object holds: the base and the objects of an array, not the variables of a function's module."""
    if isinstance(one, np.ndarray):
        return [one.base, *(one.flat if one.dtype.hasobject else ())]
    if isinstance(one, types.FunctionType):
        return [one.__closure__, one.__defaults__, one.__kwdefaults__]
    attributes = object_dict(one)
    left = {name for name, value in attributes.items() if is_left_alone(one, name, value)}
    others = {id(attributes), *(id(attributes[name]) for name in left)}
    held = [part for part in gc.get_referents(one) if id(part) not in others]
    return held + [attributes[name] for name in attributes.keys() - left]
