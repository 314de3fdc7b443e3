"""Names ``Class.attribute`` of attributes to leave out: which of them are a class's own, and which match nothing.

A mistyped name would be left in without a word, so it is refused.
"""

from __future__ import annotations

import difflib
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sim.kernel.class_names import module_of

Node = tuple[type, Collection[str]]

NEAR = 0.5  # The similarity from which a name is offered in place of an unknown one.


def ignored_of(cls: type, ignored: Iterable[str]) -> frozenset[str]:
    """The attributes of a class that are left out."""
    names = {kind.__name__ for kind in cls.__mro__}
    listed = (one.rpartition(".") for one in ignored)
    return frozenset(attribute for of, _, attribute in listed if of.rpartition(".")[2] in names)


def ensure_names_match(ignored: Iterable[str], layers: Mapping[str, Any], nodes: Collection[Node]) -> None:
    """Raise ValueError, with the nearest names, for a name that no attribute has.

    An attribute that does not exist yet is known if the code of its class mentions it.
    layers: objects by their full names. nodes: the classes of other objects, each with names of attributes.
    """
    known = {f"{full}.{name}" for full, holder in layers.items() for name in vars(holder)}
    known |= {f"{base.__name__}.{name}" for kind, names in nodes for base in _bases(kind) for name in names}
    for name in ignored:
        holder, _, attribute = name.rpartition(".")
        if name in known or any(attribute in _mentioned(kind) for kind in _classes(holder, layers, nodes)):
            continue
        near = difflib.get_close_matches(name, sorted(known), 3, NEAR)
        hint = f"did you mean {' or '.join(near)}?" if near else "the names are Class.attribute."
        hint += " An attribute that is first assigned from outside later needs a value before record()"
        raise ValueError(f"ignore: expected the name of an attribute, got {name!r}, which matches nothing: {hint}")


def _classes(holder: str, layers: Mapping[str, Any], nodes: Collection[Node]) -> Iterator[type]:
    """The classes whose objects a name may mean, also those that have no object yet."""
    if holder in layers:
        yield type(layers[holder])
    simple = holder.rpartition(".")[2]
    kinds = [kind for kind, _ in nodes]
    yield from (kind for kind in kinds if simple in {base.__name__ for base in _bases(kind)})
    packages = {module_of(kind).partition(".")[0] for kind in (*map(type, layers.values()), *kinds)}
    modules: list[tuple[str, Any]] = list(sys.modules.items())  # A program may put anything there.
    for name, module in modules:
        if name.partition(".")[0] in packages and isinstance(module, types.ModuleType):
            found = vars(module).get(simple)
            if isinstance(found, type):
                yield found


def _bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base is not object]


def _mentioned(kind: type) -> set[str]:
    """The names of attributes in the code of a class, and those that it declares."""
    names: set[str] = set()
    for base in _bases(kind):
        names |= {*vars(base), *vars(base).get("__annotations__", ())}
        members = (getattr(one, "fget", None) or getattr(one, "__func__", one) for one in vars(base).values())
        waiting: list[Any] = [one.__code__ for one in members if isinstance(one, types.FunctionType)]
        while waiting:
            code = waiting.pop()
            names |= {*code.co_names}
            waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return names
