"""Weak references, and the containers of weakref: what they refer to is not kept alive by them, also in a restored run."""

from __future__ import annotations

import types
import weakref
from collections.abc import Sequence
from typing import Any

from sim.adapters.capture.graph.kinds.kind_protocol import Part, Plain, SpecialKind, wrong_data
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.kernel.sets.equal_hashes import hashes_alike
from sim.kernel.sets.set_layout import SetTable, rebuild, table_of


class _Mortal:
    """Referred to by references that are dead from the start."""

    def method(self) -> None:
        """Referred to by dead references to methods."""


class WeakKind:
    """The attributes that weak kinds have in common."""

    is_weak = True

    def strong_parts(self, plain: Plain, parts: Sequence[Part]) -> Sequence[Part]:
        """None of the parts."""
        del plain
        return parts[:0]

    def finish(self, value: Any, plain: Plain, parts: Sequence[Any]) -> None:
        """Do nothing: the object was complete when it was made."""


class WeakReference(WeakKind):
    """weakref.ref without a callback, alive or dead."""

    name = "weakref.ref"

    def take(self, value: weakref.ref[Any]) -> tuple[Plain, tuple[Any, ...]]:
        """The object that is referred to, if it is alive."""
        if value.__callback__ is not None:
            raise UnsavableError("a weak reference with a callback", "make it without one, and ask it when you need it")
        referent = value()
        return [], () if referent is None else (referent,)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A reference to the same object, or a dead one."""
        match plain, parts:
            case [], []:
                return weakref.ref(_Mortal())
            case [], [referent]:
                try:
                    return weakref.ref(referent)
                except TypeError:
                    pass
        raise wrong_data(self.name)


class WeakMethod(WeakKind):
    """weakref.WeakMethod without a callback: an object and the name of its method."""

    name = "weakref.WeakMethod"

    def take(self, value: weakref.WeakMethod[Any]) -> tuple[Plain, tuple[Any, ...]]:
        """The name of the method and the object, if it is alive."""
        if _own_callback(value) is not None:
            raise UnsavableError("a WeakMethod with a callback", "make it without one, and ask it when you need it")
        method = value()
        if method is None:
            return [], ()
        name = method.__func__.__name__
        if _function_of(method.__self__, name) is not method.__func__:
            raise UnsavableError(f"a WeakMethod of a function {name!r} that its class does not have by this name",
                                 "refer to the object, and call the method by its name")  # fmt: skip
        return [name], (method.__self__,)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A reference to the method of the same object, or a dead one."""
        match plain, parts:
            case [], []:
                return weakref.WeakMethod(_Mortal().method)
            case [str(name)], [owner]:
                function = _function_of(owner, name)
                if function is not None:
                    try:
                        return weakref.WeakMethod(types.MethodType(function, owner))
                    except TypeError:
                        pass
        raise wrong_data(self.name)


def _own_callback(value: weakref.WeakMethod[Any]) -> Any:
    """The callback that the user gave: the reference's own one is a function of weakref that holds it."""
    inner: Any = value.__callback__
    if inner is None:  # The object has gone.
        return None
    names = dict(zip(inner.__code__.co_freevars, inner.__closure__, strict=True))
    return names["callback"].cell_contents


def _function_of(owner: Any, name: str) -> types.FunctionType | None:
    """The function that the class of owner has by this name; no descriptor is asked."""
    for kind in type(owner).__mro__:
        if name in vars(kind):
            found = vars(kind)[name]
            return found if isinstance(found, types.FunctionType) else None
    return None


class WeakSet(WeakKind):
    """weakref.WeakSet, with the table of the set of references in it, if its members hash alike in every process.

    Others iterate in the order of their addresses: then the plain data is [None], and the parts may be put in any order.
    """

    name = "weakref.WeakSet"

    def take(self, value: weakref.WeakSet[Any]) -> tuple[Plain, tuple[Any, ...]]:
        """The table and the members in the order of iteration."""
        references = value.data  # type: ignore[attr-defined]
        members = tuple(reference() for reference in references)
        if None in map(type_or_none, members):
            raise UnsavableError(
                "a WeakSet that is being iterated over while members die", "iterate over list(...) of it"
            )
        # Of an empty one, free places may hang on the addresses of members that have gone.
        is_alike = bool(members) and all(map(hashes_alike, members))
        table = table_of(references).to_plain() if is_alike else None
        return [table], members

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An empty set: the hashes of members may need their attributes."""
        del parts
        match plain:
            case [table]:
                if table is not None:
                    SetTable.from_plain(table)
                return weakref.WeakSet()
        raise wrong_data(self.name)

    def finish(self, value: Any, plain: Plain, parts: Sequence[Any]) -> None:
        """Add the members, in the same table where it is known."""
        try:
            references = [weakref.ref(member, value._remove) for member in parts]  # noqa: SLF001 - as WeakSet.add does
            if plain[0] is not None:
                rebuild(value.data, SetTable.from_plain(plain[0]), references)
                return
            value.data.update(references)
        except TypeError:
            raise wrong_data(self.name) from None
        if len(value.data) != len(parts):
            raise wrong_data(self.name)


def type_or_none(value: Any) -> Any:
    """None for None, else a type: members may be compared by methods of users."""
    return None if value is None else type(value)


class _WeakDict(WeakKind):
    """Keys and values of one of weakref's dicts, in order. The parts that are kept alive come first."""

    name: str
    _owner: type[Any]

    def strong_parts(self, plain: Plain, parts: Sequence[Part]) -> Sequence[Part]:
        """The first half of the parts."""
        return parts[: plain[0]]

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The number of entries and both halves of them."""
        pairs = self._pairs(value)
        return [len(pairs)], (*(one for one, _ in pairs), *(other for _, other in pairs))

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An empty dict: the hashes of keys may need their attributes."""
        match plain:
            case [int(count)] if type(count) is int and len(parts) == 2 * count:
                return self._owner()
        raise wrong_data(self.name)

    def finish(self, value: Any, plain: Plain, parts: Sequence[Any]) -> None:
        """Add the entries in order."""
        count = plain[0]
        try:
            for strong, weak in zip(parts[:count], parts[count:], strict=True):
                self._add(value, strong, weak)
        except TypeError:
            raise wrong_data(self.name) from None
        if len(value.data) != count:
            raise wrong_data(self.name)

    def _pairs(self, value: Any) -> list[tuple[Any, Any]]:
        raise NotImplementedError

    def _add(self, value: Any, strong: Any, weak: Any) -> None:
        raise NotImplementedError


class WeakValueDictionary(_WeakDict):
    """weakref.WeakValueDictionary: keys are kept alive."""

    name = "weakref.WeakValueDictionary"
    _owner = weakref.WeakValueDictionary

    def _pairs(self, value: Any) -> list[tuple[Any, Any]]:
        found = [(key, reference()) for key, reference in list(value.data.items())]
        return [(key, weak) for key, weak in found if weak is not None]

    def _add(self, value: Any, strong: Any, weak: Any) -> None:
        value[strong] = weak


class WeakKeyDictionary(_WeakDict):
    """weakref.WeakKeyDictionary: values are kept alive."""

    name = "weakref.WeakKeyDictionary"
    _owner = weakref.WeakKeyDictionary

    def _pairs(self, value: Any) -> list[tuple[Any, Any]]:
        found = [(item, reference()) for reference, item in list(value.data.items())]
        return [(item, weak) for item, weak in found if weak is not None]

    def _add(self, value: Any, strong: Any, weak: Any) -> None:
        value[weak] = strong


WEAK_KINDS: dict[type, SpecialKind] = {
    weakref.ref: WeakReference(),
    weakref.WeakMethod: WeakMethod(),
    weakref.WeakSet: WeakSet(),
    weakref.WeakValueDictionary: WeakValueDictionary(),
    weakref.WeakKeyDictionary: WeakKeyDictionary(),
}
