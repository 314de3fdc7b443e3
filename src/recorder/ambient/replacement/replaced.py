"""Put a value in place of an object that cannot be changed, under each of its names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MethodType
from typing import Any

from recorder.ambient.replacement.named_values import Path, child_of, set_child
from recorder.ambient.value_kinds import bound_to, kind_of

REMADE = {"method", "builtin method", "partial", "tuple"}  # The kinds of holders that are not changed, but made again.


class Replacements:
    """What was put in place of objects of one ambient. What holds them and cannot be changed is made again, and put in too."""

    def __init__(
        self,
        objects: Mapping[Path, Any],
        aliases: Mapping[Path, Path],
        is_meant: Callable[[Path], bool] = lambda _: True,
    ) -> None:
        """objects, aliases: of the ambient. is_meant: False for names that keep what they have."""
        self._objects = objects
        self._aliases = aliases
        self._is_meant = is_meant
        self._put_in: dict[Path, Any] = {}

    def put(self, path: Path, value: Any) -> None:
        """Put a value in place of the object at path.

        What holds it under a name that cannot be set, such as one of a C object, keeps what it has.
        """
        self._put_in[path] = value
        for name in (path, *(other for other, first in self._aliases.items() if first == path)):
            place, step = name[:-1], name[-1]
            real = self._aliases.get(place, place)
            holder = self._present(real)
            if holder is None or not self._is_meant(name) or child_of(holder, step) is value:
                continue
            if kind_of(type(holder)) in REMADE:
                if (remade := _remade_with(holder, step[1], value)) is not None:
                    self.put(real, remade)
                continue
            with suppress(AttributeError, TypeError):
                set_child(holder, step, value)

    def _present(self, path: Path) -> Any:
        """What holds a value at present: another one may have been made since in place of what cannot be changed."""
        holder = self._put_in.get(path, self._objects.get(path))
        if path in self._put_in or kind_of(type(holder)) not in REMADE or len(path) < 2:
            return holder
        place = self._aliases.get(path[:-1], path[:-1])
        outer = self._present(place)
        now = holder if outer is None else child_of(outer, path[-1])
        return now if type(now) is type(holder) else holder


def _remade_with(holder: Any, name: Any, value: Any) -> Any:
    """A method, a partial or a tuple like another one, with another value under one of its names; None if not known how."""
    kind = type(holder)
    if kind is MethodType:
        return MethodType(value, holder.__self__) if name == "__func__" else MethodType(holder.__func__, value)
    if kind_of(kind) == "builtin method":
        return bound_to(holder, value)
    if kind is functools.partial:
        parts = {"func": holder.func, "args": holder.args, "keywords": holder.keywords, name: value}
        return functools.partial(parts["func"], *parts["args"], **parts["keywords"])
    if kind_of(kind) != "tuple":
        return None
    items = list(tuple.__iter__(holder))
    items[name] = value
    try:
        return tuple.__new__(kind, items)
    except TypeError:  # One of C code, such as the times of a file.
        return None
