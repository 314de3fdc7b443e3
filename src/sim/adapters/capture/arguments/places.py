"""Where a mutable value stands in an object: the steps that lead to it, and back.

A step is an attribute, an item of a list or tuple, a key of a dict, or the base of an array. To take it runs no code of the user's classes but the
comparison of keys. What only a set, an iterator or a function leads to has no place.
"""

from __future__ import annotations

import gc
import itertools
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from sim.adapters.capture.graph.names.attribute_names import has_slot, object_dict, slot_names, slot_of

Step = tuple[
    Literal["a", "b", "i", "k", "n", "m"], Any
]  # An attribute, now or before a change; the place of an item; a key; the number of a key; the base of an array.
_SEQUENCES: tuple[Any, ...] = (list, tuple, deque)
_NO_WAY = (types.ModuleType, type, types.FunctionType)
_ATOMS = frozenset((type(None), bool, int, float, str, bytes))  # Keys that lead to nothing.
_ABSENT = object()


def value_at(owner: Any, steps: Sequence[Step]) -> Any:
    """The value to which steps lead from an object. Raises LookupError if there is none."""
    for step in steps:
        owner = _part(owner, *step)
    return owner


def steps_to(
    subject: Any,
    wanted: Any,
    leading: Sequence[Any] = (),
    before: Mapping[str, Any] | None = None,
    stops_at: Callable[[Any], bool] | None = None,
) -> list[Step] | None:
    """The steps from an object to a mutable one, as the objects are now; None if none lead there.

    leading: mutable objects that probably lead to it, in their order; else everything is searched. before: attributes of
    the subject, if these count in place of those that it has now. stops_at: True for what surely does not lead to it.
    """
    owner, steps = subject, list[Step]()
    for one in (*leading, wanted):
        if one is owner:
            continue
        more = _steps_within(owner, one) if steps else _steps_in(_parts_before(subject, before), one)
        if more is None:
            return _search(subject, wanted, before, stops_at)
        owner, steps = one, steps + more
    return steps


def leads_to(
    subject: Any,
    addresses: set[int],
    before: Mapping[str, Any] | None = None,
    stops_at: Callable[[Any], bool] | None = None,
) -> bool:
    """Return True if an object leads to one with any of these identities, but by weak references, modules, classes, functions.

    before: only what is not in these attributes counts. stops_at: as of steps_to.
    """
    parts = ((name, part) for (kind, name), part in _parts(subject) if kind == "a" or before is None)
    waiting: list[Any] = [part for name, part in parts if before is None or before.get(name, _ABSENT) is not part]
    seen = {id(subject), *map(id, waiting)}
    while waiting:
        if any(id(one) in addresses for one in waiting):
            return True
        if stops_at is not None:
            waiting = [one for one in waiting if not stops_at(one)]
        found = [one for one in gc.get_referents(*waiting) if not isinstance(one, _NO_WAY)]
        found += [one.base for one in waiting if _has_base(one)]  # The collector is not told of it.
        waiting = list({id(one): one for one in found if id(one) not in seen}.values())
        seen.update(map(id, waiting))
    return False


def _parts_before(subject: Any, before: Mapping[str, Any] | None) -> Iterator[tuple[Step, Any]]:
    return _parts(subject) if before is None else ((("a", name), value) for name, value in before.items())


def _search(
    subject: Any, wanted: Any, before: Mapping[str, Any] | None, stops_at: Callable[[Any], bool] | None
) -> list[Step] | None:
    """Breadth first, so that the steps are the fewest."""
    waiting: deque[tuple[Any, list[Step]]] = deque([(subject, [])])
    seen = {id(subject)}
    while waiting:
        owner, steps = waiting.popleft()
        for step, part in _parts(owner) if steps else _parts_before(subject, before):
            if part is wanted:
                return [*steps, step]
            if id(part) not in seen and _may_lead_on(part):
                seen.add(id(part))
                if stops_at is None or not stops_at(part):
                    waiting.append((part, [*steps, step]))
    return None


def _steps_within(owner: Any, wanted: Any) -> list[Step] | None:
    """The steps to a part of an object, or of one of the tuples in it."""
    return _steps_in(_parts(owner), wanted)


def _steps_in(parts: Iterable[tuple[Step, Any]], wanted: Any) -> list[Step] | None:
    for step, part in parts:
        if part is wanted:
            return [step]
        more = _steps_within(part, wanted) if isinstance(part, tuple) else None
        if more is not None:
            return [step, *more]
    return None


def _may_lead_on(value: Any) -> bool:
    has_parts = isinstance(value, (*_SEQUENCES, dict)) or _has_base(value)
    return has_parts or bool(type(value).__dictoffset__) or bool(slot_names(type(value)))


def _has_base(value: Any) -> bool:
    return isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray)


def _parts(owner: Any) -> Iterator[tuple[Step, Any]]:
    """The values that an object refers to by steps; none of a class, a module or a function."""
    cls = type(owner)
    if isinstance(owner, _NO_WAY):
        return
    if cls.__dictoffset__:
        yield from ((("a", name), value) for name, value in object_dict(owner).items())
    yield from (
        (("a", name), slot_of(cls, name).__get__(owner, cls)) for name in slot_names(cls) if has_slot(owner, cls, name)
    )
    if isinstance(owner, dict):
        yield from ((("k", key), value) for key, value in dict.items(owner))
        yield from ((("n", number), key) for number, key in enumerate(_keys(owner)) if type(key) not in _ATOMS)
    if _has_base(owner):
        yield ("m", 0), owner.base
    for base in _SEQUENCES:
        if isinstance(owner, base):
            yield from ((("i", place), value) for place, value in enumerate(base.__iter__(owner)))


def _keys(owner: dict[Any, Any]) -> Iterator[Any]:
    """The keys in the order that a restore gives them; an OrderedDict has another order of its own."""
    base: Any = OrderedDict if isinstance(owner, OrderedDict) else dict
    return iter(base.__iter__(owner))


def _part(owner: Any, kind: str, name: Any) -> Any:
    cls = type(owner)
    if kind == "k" and isinstance(owner, dict):
        found = dict.get(owner, name, _ABSENT)
        if found is not _ABSENT:
            return found
    elif kind == "n" and type(name) is int and isinstance(owner, dict):
        if 0 <= name < dict.__len__(owner):
            return next(itertools.islice(_keys(owner), name, None))
    elif kind == "m" and _has_base(owner):
        return owner.base
    elif kind == "i" and type(name) is int:
        for base in _SEQUENCES:
            if isinstance(owner, base):
                return base.__getitem__(owner, name)
    elif kind == "a" and type(name) is str:
        attributes = object_dict(owner) if cls.__dictoffset__ else {}
        if name in attributes:
            return attributes[name]
        if name in slot_names(cls) and has_slot(owner, cls, name):
            return slot_of(cls, name).__get__(owner, cls)
    raise LookupError(f"a {cls.__qualname__} has no {name!r} now")
