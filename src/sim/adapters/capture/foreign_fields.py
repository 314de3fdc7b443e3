"""Attributes that are arrays of other libraries, or named tuples of them: each array is a field of the arena.

The detail of such an attribute, in the structure, is ``{"array": kind}`` or ``{"tuple": name, "leaves": [[name, detail],
...]}``. A named tuple is made by the class of the present value, or by the class of that name in the modules of the
object that holds it: no tape can name any other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.graph.kinds.array_kind import is_array
from sim.adapters.capture.graph.values.foreign_values import Memory, memories_of_array, overlap, shared_memory
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.class_names import module_of
from sim.kernel.foreign_arrays import (
    ForeignArrayError,
    array_kind_from_plain,
    is_foreign_array,
    is_immutable_array,
    kind_of,
    like,
    to_numpy,
)
from sim.kernel.schema import Field
from sim.kernel.state import State


def is_foreign_value(value: Any) -> bool:
    """Return True for an array of another library, or a named tuple with nothing but such arrays in it."""
    if isinstance(value, tuple):
        return bool(value) and hasattr(type(value), "_fields") and all(map(is_foreign_value, value))
    return is_foreign_array(value)


def foreign_detail(value: Any) -> dict[str, Any]:
    """The description of a foreign value for the structure. Raises ForeignArrayError for one that cannot be saved."""
    if isinstance(value, tuple):
        leaves = [[name, foreign_detail(one)] for name, one in zip(_names(value), value, strict=True)]
        return {"tuple": type(value).__qualname__, "leaves": leaves}
    return {"array": kind_of(value).to_plain()}


def foreign_arrays_in(value: Any) -> Iterator[Any]:
    """The arrays of a foreign value, in order."""
    if isinstance(value, tuple):
        for one in value:
            yield from foreign_arrays_in(one)
    else:
        yield value


def foreign_fields(name: str, value: Any) -> list[Field]:
    """The fields for the arrays of a foreign value."""
    return [
        Field(full, array.dtype, array.shape)
        for full, array in ((full, to_numpy(one)) for full, one in named_arrays(name, value))
    ]


def ensure_apart(foreign: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raise UnsavableError if one of the foreign values sees what is written to another of the values."""
    if not any(True for value in foreign.values() for _ in memories_of(value)):
        return
    memories = {name: memories_of(value) for name, value in values.items()}
    for own, value in foreign.items():
        for name, others in memories.items():
            if name != own and overlap(memories[own], others):
                raise shared_memory(value, name, own)


@attrs.define(eq=False)
class ForeignEntry:
    """One foreign attribute with the memory of its fields."""

    attributes: dict[str, Any]
    name: str
    detail: dict[str, Any]
    views: list[Any]
    before: Any = None

    def write(self) -> bool:
        """Copy the present value into the fields. Return False for a value of a different kind."""
        value = self.attributes[self.name]
        is_other = value is not self.before
        if not is_other and all(map(is_immutable_array, foreign_arrays_in(value))):
            return True
        try:
            if not is_foreign_value(value) or (is_other and foreign_detail(value) != self.detail):
                return False
            for view, array in zip(self.views, foreign_arrays_in(value), strict=True):
                bits = to_numpy(array)
                if bits.shape != view.shape or bits.dtype != view.dtype:
                    return False  # PyTorch resizes tensors in place.
                view[...] = bits
        except ForeignArrayError:
            return False  # The survey that follows refuses it by its name.
        self.before = value
        return True


def foreign_entry(
    field: str, attributes: dict[str, Any], name: str, detail: dict[str, Any], state: State
) -> ForeignEntry:
    """The entry of an attribute whose first field, or whose fields' prefix, is ``field``."""
    views = [state[full] for full, _ in named_arrays(field, attributes[name])]
    return ForeignEntry(attributes, name, detail, views)


def have_shared_memory(entries: list[ForeignEntry]) -> bool:
    """Return True if two of the attributes see what is written to the other one."""
    taken: list[Memory] = []
    for entry in entries:
        own = memories_of(entry.attributes[entry.name])
        if overlap(own, taken):
            return True
        taken += own
    return False


def restore_foreign(
    full: str, detail: Mapping[str, Any], present: Any, holder: Any, saved: Callable[[str], np.ndarray[Any, Any]]
) -> Any:
    """The value that was saved. full: its name for messages. saved: the field of a name's suffix.

    Raises NotCapturedError for a value that cannot be made again here.
    """
    try:
        return _restored("", detail, present, holder, saved)
    except ForeignArrayError as error:
        raise NotCapturedError(f"{full}: {error}") from None


def _restored(
    suffix: str, detail: Mapping[str, Any], present: Any, holder: Any, saved: Callable[[str], np.ndarray[Any, Any]]
) -> Any:
    match detail:
        case {"array": plain}:
            return like(present, saved(suffix), array_kind_from_plain(plain))
        case {"tuple": str(name), "leaves": list(leaves)}:
            kind = _tuple_class(name, [leaf for leaf, _ in leaves], present, holder)
            parts = present if type(present) is kind else [None] * len(leaves)
            values = [
                _restored(f"{suffix}.{leaf}", inner, part, holder, saved)
                for (leaf, inner), part in zip(leaves, parts, strict=True)
            ]
            return kind._make(values)
    raise ValueError("expected the description of an array of another library")


def _tuple_class(name: str, leaves: list[str], present: Any, holder: Any) -> Any:
    """The class of a named tuple: the present value's, or one of this name in a module of the holder's classes."""
    candidates = [type(present)]
    for kind in type(holder).__mro__:
        module = sys.modules.get(module_of(kind))
        candidates += [one for one in vars(module).values() if isinstance(one, type)] if module is not None else []
    for kind in candidates:
        if issubclass(kind, tuple) and kind.__qualname__ == name and list(getattr(kind, "_fields", ())) == leaves:
            return kind
    raise ForeignArrayError(
        f"expected the named tuple {name}({', '.join(leaves)}) in the module of {type(holder).__qualname__}, got none: "
        "define it there, or give the attribute such a value when the simulation is made"
    )


def _names(value: Any) -> tuple[str, ...]:
    return tuple(type(value)._fields)


def named_arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a foreign value with the names of their fields."""
    if isinstance(value, tuple):
        for leaf, one in zip(_names(value), value, strict=True):
            yield from named_arrays(f"{name}.{leaf}", one)
    else:
        yield name, value


def holders_of_bases(held: Iterable[tuple[str, dict[str, Any], str]]) -> dict[int, Any]:
    """The arrays with a field that alone hold their base, such as one made by reshape, by its identity."""
    arrays = (attributes[name] for _, attributes, name in held)
    return {id(one.base): one for one in arrays if is_array(one) and is_array(one.base)}


def memories_of(value: Any) -> list[Memory]:
    """The memory that an array of any library, or a foreign value, can be written to by others; none if unknown."""
    if isinstance(value, tuple):
        return (
            [memory for one in foreign_arrays_in(value) for memory in memories_of_array(one)]
            if is_foreign_value(value)
            else []
        )
    return memories_of_array(value)
