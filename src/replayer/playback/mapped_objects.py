"""An object of newer code under the attribute names of an older tape: renamed or added attributes of recorded objects.

Between two steps all objects have the names of the tape, so that they are loaded, captured and compared as they were. For
each step they get the names of the code. A class of the same name, made for the object, does this around its methods, so
no class of the user is changed.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from replayer.playback.field_map import NEW, FieldMap, FieldMapError
from sim.adapters.plain_object.adapter import AFTER_LOAD, fields_from_plain
from sim.adapters.plain_object.adapter import NAME as PLAIN_OBJECT

_NOT_FOLLOWED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, str, bytes, int, float)


class AttributeMap:
    """What attributes are called, by the names of their classes.

    Attributes:
        to_code: names in the code by names on the tape.
        to_tape: the other way round.
        added: values of attributes that the tape does not have, when a state was loaded.
    """

    def __init__(self, field_map: FieldMap) -> None:
        """Raises FieldMapError for a line that is none of an attribute."""
        self.path = field_map.path
        self.to_code: dict[str, dict[str, str]] = {}
        self.added: dict[str, dict[str, Any]] = {}
        for old, new in field_map.renamed.items():
            kind, name = self._split(old, "renamed")
            other, _, new_name = new.rpartition(".")
            if other not in ("", kind):
                self._refuse(f"[renamed] {old} = {new!r}: an attribute cannot move to another class")
            names = self.to_code.setdefault(kind, {})
            if new_name in names.values():
                self._refuse(f"two attributes of {kind} are called {new_name}")
            names[name] = new_name
        for text, value in field_map.added.items():
            kind, name = self._split(text, "added")
            if value == NEW:
                self._refuse(f'[added] {text}: expected a number, true or false: "{NEW}" is for fields of a State')
            self.added.setdefault(kind, {})[name] = value
        self.to_tape = {kind: {new: old for old, new in names.items()} for kind, names in self.to_code.items()}

    def _split(self, text: str, table: str) -> tuple[str, str]:
        kind, dot, name = text.rpartition(".")
        if not dot or "." in kind or not kind.isidentifier() or not name.isidentifier():
            self._refuse(f"[{table}] {text}: expected the name of a class and of its attribute, such as Unit.hp")
        return kind, name

    def _refuse(self, why: str) -> None:
        raise FieldMapError(f"{self.path}: {why}")

    @property
    def kinds(self) -> frozenset[str]:
        """The names of the classes."""
        return frozenset({*self.to_code, *self.added})


class _Naming:
    """Gives objects the names of the tape, or those of the code."""

    def __init__(self, names: AttributeMap) -> None:
        self._map = names
        self._kept: dict[int, tuple[Any, dict[str, Any]]] = {}  # Added attributes, by the ids of their objects.

    def to_code(self, root: Any) -> list[Any]:
        """Use the names of the code; return the objects, of which a step may drop some."""
        named = list(self._mapped(root))
        for one in named:
            kind = type(one).__name__
            self._rename(one, self._map.to_code.get(kind, {}))
            kept = self._kept.get(id(one))
            known = kept[1] if kept is not None and kept[0] is one else {}
            for name, value in {**self._map.added.get(kind, {}), **known}.items():
                vars(one)[name] = value
        self._kept = {}
        return named

    def to_tape(self, root: Any, dropped: Iterable[Any] = ()) -> None:
        """Use the names of the tape. dropped: further objects: what is captured may still have them."""
        named = list(self._mapped(root))
        for one in {id(one): one for one in (*named, *dropped)}.values():
            kind = type(one).__name__
            held = vars(one)
            values = {name: held.pop(name) for name in self._map.added.get(kind, {}) if name in held}
            self._rename(one, self._map.to_tape.get(kind, {}))
            if values:
                self._kept[id(one)] = one, values

    def forget(self) -> None:
        """Take the values of the map for added attributes again: a state was loaded, and the kept ones are of another tick."""
        self._kept = {}

    def _mapped(self, root: Any) -> Iterator[Any]:
        """The objects that can be reached and whose class is in the map. Raises FieldMapError for one without __dict__."""
        for one in _reachable(root):
            if type(one).__name__ in self._map.kinds:
                if not isinstance(getattr(one, "__dict__", None), dict):
                    kind = type(one).__name__
                    raise FieldMapError(f"{self._map.path}: {kind} has no __dict__: its attributes cannot be renamed")
                yield one

    def _rename(self, one: Any, names: Mapping[str, str]) -> None:
        """Give attributes other names, and leave them in their order. Raises FieldMapError if two get one name."""
        held = vars(one)
        if names.keys().isdisjoint(held):
            return
        renamed = {names.get(name, name): value for name, value in held.items()}
        if len(renamed) < len(held):
            both = next(name for name in names if name in held and names[name] in held.keys() - names.keys())
            kind = type(one).__name__
            raise FieldMapError(f"{self._map.path}: {kind} has both {both} and {names[both]}, which are one attribute")
        held.clear()
        held.update(renamed)


def _reachable(root: Any) -> Iterator[Any]:
    seen, todo = {id(root)}, [root]
    while todo:
        one = todo.pop()
        yield one
        for inner in gc.get_referents(one):
            if not isinstance(inner, _NOT_FOLLOWED) and id(inner) not in seen:
                seen.add(id(inner))
                todo.append(inner)


def mapped_object(made: Any, meta: Mapping[str, Any], field_map: FieldMap) -> Any:
    """Return an object of newer code under the names of a tape. It is changed, and belongs to the replay from now on.

    meta: of the tape. Raises FieldMapError for a map that does not fit.
    """
    description = meta.get("adapter")
    if not isinstance(description, dict) or description.get("name") != PLAIN_OBJECT:
        raise FieldMapError(
            f"{field_map.path}: a field map is for simulations with a State or save and load, and for plain objects, not "
            "for tapes of environments, models or scenarios"
        )
    try:
        what = fields_from_plain(description.get("fields"))
    except ValueError as error:
        raise FieldMapError(f"{field_map.path}: {error}") from None
    naming = _Naming(AttributeMap(field_map))
    kind = type(made)
    is_running = False

    def around(name: str) -> Any:
        function = getattr(kind, name)

        @functools.wraps(function)
        def run(self: Any, *arguments: Any, **keywords: Any) -> Any:
            nonlocal is_running
            if is_running:  # One method calls another.
                return function(self, *arguments, **keywords)
            is_running = True
            try:
                dropped = naming.to_code(self)
                try:
                    return function(self, *arguments, **keywords)
                finally:
                    naming.to_tape(self, dropped)
            finally:
                is_running = False

        return run

    methods = [name for name in dict.fromkeys((what.step, *(what.calls or ()))) if callable(getattr(kind, name, None))]
    members: dict[str, Any] = {name: around(name) for name in methods}
    members[AFTER_LOAD] = lambda _: naming.forget()
    own = type(kind.__name__, (kind,), {**members, "__module__": kind.__module__, "__qualname__": kind.__qualname__})
    naming.to_tape(made)
    try:
        made.__class__ = own
    except TypeError as error:
        raise FieldMapError(f"{field_map.path}: the names of {kind.__name__} cannot be mapped: {error}") from None
    return made
