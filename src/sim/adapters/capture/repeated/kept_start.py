"""Return objects to the same start again and again: their values are kept as one pickle, which is read in C.

A restore from an arena can begin in any process. Here the objects, the large constant containers and all else that is left
alone are those that are there already, and only the values are made again. What pickle does not surely give back as it
was is refused: then the start is not kept, and a restore does the work. The pickle stays in this object: nothing of a tape
or a file is ever unpickled.
"""

from __future__ import annotations

import collections
import enum
import io
import pickle  # noqa: TID251 - reads only what this object has written, see above
import pickletools
import random
import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.adapters.capture.survey import Structure
from sim.kernel.memory.weak_counts import is_referred_weakly

_SAVED = frozenset(("cell", "array", "generator", "rest", "object", "same"))  # Categories whose values are made again.
_SETS = frozenset(("EMPTY_SET", "FROZENSET"))  # Their tables, and so their order, are not what they were.
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, np.dtype, np.generic, enum.Enum)
_AS_THEY_ARE = frozenset(
    (
        random.Random,
        collections.deque,
        collections.OrderedDict,
        collections.defaultdict,
        collections.Counter,
        bytearray,
        range,
        complex,
        np.random.Generator,
        np.random.RandomState,
        np.random.SeedSequence,
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.MT19937,
        np.random.Philox,
        np.random.SFC64,
    )
)
_HOLDERS = 3  # Of an object: an array, a variable, and the argument of getrefcount.
_PROTOCOL = 4  # By protocol 5 an array would not own its memory.
_PICKLES = ("__reduce__", "__reduce_ex__", "__getstate__", "__new__")


class NotKeptError(Exception):
    """These values cannot be kept; the message names the class."""


class KeptStart:
    """The values of objects at one moment.

    Attributes:
        size_bytes: of the pickle.
    """

    def __init__(self, structure: Structure, objects: Mapping[str, Any], named: Mapping[int, Any]) -> None:
        """Keep the values of the surveyed objects as they are now. named: by identity, what modules have names for.

        Raises NotKeptError.
        """
        known: dict[int, tuple[str, ...]] = {id(one): ("object", name) for name, one in objects.items()}
        self._left: dict[tuple[str, ...], Any] = {("object", name): one for name, one in objects.items()}
        self._places: list[tuple[Any, tuple[str, ...]]] = []
        values = []
        for layer in structure.layers:
            attributes = vars(objects[layer.name])
            saved = {one.name for one in layer.attributes if one.category in _SAVED}
            for name, value in attributes.items():
                if name not in saved:
                    known.setdefault(id(value), ("left", layer.name, name))
                    self._left[known[id(value)]] = value
            self._places.append((objects[layer.name], tuple(attributes)))
            values.append(list(attributes.values()))
        self._pickle = _pickled(values, known, named, self._left)
        self.size_bytes = len(self._pickle)

    def restore(self) -> None:
        """Make the values again, and give them to the objects."""
        made = _Unpickler(io.BytesIO(self._pickle), self._left).load()
        for (one, names), values in zip(self._places, made, strict=True):
            attributes = vars(one)  # A step may have given the object another __dict__.
            attributes.clear()
            attributes.update(zip(names, values, strict=True))


def _pickled(
    values: Any, known: Mapping[int, tuple[str, ...]], named: Mapping[int, Any], left: dict[tuple[str, ...], Any]
) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, known, named, left).dump(values)
    except NotKeptError:
        raise
    except Exception as error:  # noqa: BLE001 - the user's objects may raise anything
        raise NotKeptError(str(error)) from None
    content = file.getvalue()
    if any(operation.name in _SETS for operation, _, _ in pickletools.genops(content)):
        raise NotKeptError("a set")
    return content


class _Pickler(pickle.Pickler):
    def __init__(
        self,
        file: io.BytesIO,
        known: Mapping[int, tuple[str, ...]],
        named: Mapping[int, Any],
        left: dict[tuple[str, ...], Any],
    ) -> None:
        super().__init__(file, _PROTOCOL)
        self._known, self._named, self._left = known, named, left

    def persistent_id(self, one: Any) -> tuple[str, ...] | None:
        if type(one) is object and id(one) in self._named:  # A mark that steps compare by identity.
            key = ("named", str(self._named[id(one)]))
            self._left[key] = one
            return key
        return self._known.get(id(one))

    def reducer_override(self, one: Any) -> Any:
        kind = type(one)
        if kind in _AS_THEY_ARE or isinstance(one, _BY_NAME) or _is_function_of_numpy(one):
            return NotImplemented
        if kind is np.ndarray:
            if _has_memory_alone(one) and not one.dtype.hasobject:
                return NotImplemented
        elif _is_plain(kind) and not is_referred_weakly(one):
            return NotImplemented
        raise NotKeptError(f"{kind.__module__}.{kind.__qualname__}")


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, left: Mapping[tuple[str, ...], Any]) -> None:
        super().__init__(file)
        self._left = left

    def persistent_load(self, key: Any) -> Any:
        return self._left[key]


def _has_memory_alone(array: np.ndarray[Any, Any]) -> bool:
    """Return True if nothing but this array holds its memory, in whole and in order."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        return False
    base = array.base
    if base is None:
        return True
    is_whole = type(base) is np.ndarray and base.base is None and base.nbytes == array.nbytes
    return is_whole and sys.getrefcount(base) <= _HOLDERS  # As after a reshape.


def _is_function_of_numpy(one: Any) -> bool:
    """Return True for the functions by which NumPy's generators are made again; pickle finds them by name."""
    return type(one).__name__ == "cython_function_or_method" and str(one.__module__).startswith("numpy.")


def _is_plain(kind: type) -> bool:
    """Return True for a class of Python code that leaves pickling to object, and does not notice the end of an object."""
    if hasattr(kind, "__setstate__") or hasattr(kind, "__getnewargs__") or hasattr(kind, "__getnewargs_ex__"):
        return False
    return not hasattr(kind, "__del__") and all(
        getattr(kind, name, None) is getattr(object, name, None) for name in _PICKLES
    )
