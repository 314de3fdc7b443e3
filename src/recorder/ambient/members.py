"""What sets and weak references hold: by the paths of the members, so that two processes can compare them.

A set of objects iterates by their addresses, and two objects have no order of their own. So a member is named by the
path under which it is found elsewhere, or else by its content.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from sim.kernel.sets.set_layout import UNKNOWN, SetTable, begin_again, layout_is_known, rebuild, table_of

WEAK_KINDS: dict[type, str] = {
    weakref.ref: "weak reference",
    weakref.WeakSet: "weak set",
    weakref.WeakValueDictionary: "weak dict",
    weakref.WeakKeyDictionary: "weak key dict",
}


@attrs.frozen
class At:
    """Stands for a member that is found at a path. path: of any kind that can be compared."""

    path: Any


@attrs.frozen(eq=False)
class SetContent:
    """A set's elements in the order of iteration, with its table; UNKNOWN if that cannot be read."""

    elements: list[Any]
    table: SetTable

    @classmethod
    def of(cls, value: set[Any] | frozenset[Any]) -> SetContent:
        """The content of a set, or the elements of a frozenset."""
        if isinstance(value, frozenset):
            return cls(list(frozenset.__iter__(value)), UNKNOWN)
        try:
            table = table_of(value)
        except ValueError:  # It cannot be rebuilt.
            table = UNKNOWN
        return cls(list(set.__iter__(value)), table)

    def put(self, value: set[Any]) -> None:
        """Give a set this content, in place. It iterates in this order, if its elements hash as those did."""
        if _are_same(value, self.elements) and SetContent.of(value).table == self.table:
            return
        fingers = (self.table.finger, 1) if layout_is_known() and self.table.mask else ()
        for finger in fingers:  # That of a set that was emptied by pop cannot be 0 again.
            set.clear(value)
            begin_again(value)
            try:
                rebuild(value, attrs.evolve(self.table, finger=finger), self.elements)
            except ValueError:
                continue
            return
        set.clear(value)
        set.update(value, self.elements)


def _are_same(value: Iterable[Any], elements: list[Any]) -> bool:
    present = list(value)
    return len(present) == len(elements) and all(a is b for a, b in zip(present, elements, strict=True))


def weak_content(kind: str, value: Any) -> list[Any]:
    """The members of a weak collection that are alive, by weak references: what is kept must not keep them alive."""
    if kind == "weak reference":
        return [value]
    if kind == "weak dict":
        return [(key, weakref.ref(one)) for key, one in value.items()]
    if kind == "weak key dict":
        return [(weakref.ref(key), one) for key, one in value.items()]
    return [weakref.ref(one) for one in value]


def put_weak(kind: str, value: Any, content: list[Any]) -> None:
    """Restore what weak_content returned, or a list with members in place of references, in place."""
    value.clear()
    for entry in content:
        if kind == "weak key dict":
            place, held = entry
            key = place() if type(place) is weakref.ref else place
            if key is not None:
                value[key] = held
            continue
        key, one = entry if kind == "weak dict" else (None, entry)
        member = one() if type(one) is weakref.ref else one
        if member is not None and kind == "weak dict":
            value[key] = member
        elif member is not None:
            value.add(member)


def keyed_values(content: list[Any]) -> list[tuple[str, Any]]:
    """The values of a weak dict with objects as its keys, each with a name. content: what weak_content returned."""
    return [(f"of {type(key()).__qualname__} no. {number}", one) for number, (key, one) in enumerate(content)]


@attrs.frozen(eq=False)
class Members:
    """The members of a set or of a weak collection.

    Attributes:
        leaf: the members in their order, for comparison: values, At a path, At a name.
        paths: where each is found; None for values.
        unnamed: the members that are found nowhere else, each with a name.
    """

    leaf: tuple[Any, ...]
    paths: list[Any]
    unnamed: list[tuple[str, Any]]

    @classmethod
    def of(
        cls, kind: str, path: Any, content: Any, path_of: Callable[[Any], Any], is_plain: Callable[[Any], bool]
    ) -> Members:
        """The members by the content of the collection at a path.

        path_of: where a member is found elsewhere, or None. is_plain: True for a member that is compared by its value.
        """
        keys: list[Any] = []
        match kind:
            case "set":
                elements = content.elements
            case "weak dict":
                keys, elements = [key for key, _ in content], [one() for _, one in content]
            case "weak key dict":
                elements = [key() for key, _ in content]
            case _:
                elements = [one() for one in content]
        shown: list[Any] = list(elements)
        paths: list[Any] = [None] * len(elements)
        others: list[tuple[int, Any]] = []
        for place, one in enumerate(elements):
            if not is_plain(one):
                paths[place] = path_of(one)
                shown[place] = At(paths[place])
                if paths[place] is None:
                    others.append((place, one))
        unnamed = []
        for number, (place, one) in enumerate(sorted(others, key=lambda entry: _content_text(entry[1], is_plain))):
            name = f"{type(one).__qualname__} no. {number}"
            shown[place] = At(name)
            if kind == "set":  # Others need not keep it alive.
                paths[place] = (*path, ("item", name))
                unnamed.append((name, one))
        leaf = [At((key, one)) for key, one in zip(keys, shown, strict=True)] if kind == "weak dict" else shown
        if kind == "weak key dict":  # What is no plain value is compared below its own path.
            held = [one if is_plain(one) else type(one).__qualname__ for _, one in content]
            leaf = [At((key, one)) for key, one in zip(shown, held, strict=True)]
        return cls((kind, leaf) if kind != "set" else (kind, leaf, content.table), paths, unnamed)


def _content_text(value: Any, is_plain: Callable[[Any], bool]) -> tuple[str, str]:
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = {}
    plain = {name: repr(one) for name, one in attributes.items() if is_plain(one)}
    return type(value).__qualname__, repr(sorted(plain.items()))
