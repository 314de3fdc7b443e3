"""Search the objects of a simulation for a set whose order depends on the hash seed of the process."""

from __future__ import annotations

import datetime as dt
import enum
import gc
from collections import deque
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import attrs
import numpy as np

from recorder.ambient.roots import content_of, is_our_own
from sim.kernel.sets.equal_hashes import hashes_alike

OBJECTS_MAX = 200_000
# Of texts, bytes and dates; members of enumerations have the hash of their name.
_BY_SEED = frozenset(kind.__hash__ for kind in (str, bytes, dt.date, enum.Enum))
_PLAIN = (str, bytes, bytearray, int, float, complex, type(None), np.generic)
_CODE = (ModuleType, type, CodeType, FrameType, BuiltinFunctionType)


class TooManyError(Exception):
    """There are more objects than are searched."""


def ordered_by_seed(root: Any, name: str) -> str | None:
    """Say where a set is with members that hash otherwise in other processes, or may; None if there is none.

    Raises TooManyError.
    """
    seen, waiting = set[int](), deque([(_Place(name), root)])
    kept = list[Any]()  # What is made on the way keeps its address.
    while waiting:
        place, one = waiting.popleft()
        if isinstance(one, (*_PLAIN, *_CODE)) or id(one) in seen or is_our_own(type(one)):
            continue
        if len(seen) >= OBJECTS_MAX:
            raise TooManyError
        seen.add(id(one))
        kept.append(one)
        if isinstance(one, set | frozenset) and len(one) > 1:
            found = {_is_by_seed(member) for member in one}
            if found != {False}:
                is_known = True in found
                if place.is_exact:
                    return f"{place.path} {'is' if is_known else 'may be'} such a set"
                return f"{place.path} {'holds' if is_known else 'may hold'} such a set"
        waiting += _parts(place, one)
    return None


def _is_by_seed(member: Any) -> bool | None:
    """Return True if the hash seed decides the hash of a member, False for a number or an address; None if that is not known."""
    kind: Any = type(member)
    if kind.__hash__ in _BY_SEED:
        return True
    if kind.__hash__ is object.__hash__ or member is None:
        return False
    if kind.__hash__ is tuple.__hash__ or kind.__hash__ is frozenset.__hash__:
        parts = set(map(_is_by_seed, member))
        return True if True in parts else None if None in parts else False
    try:
        return False if hashes_alike(member) else None
    except Exception:  # noqa: BLE001 - of an attribute that the user's class computes
        return None


@attrs.frozen
class _Place:
    """Attributes: is_exact: False for a part of the object at the path, which has no name."""

    path: str
    is_exact: bool = True

    @property
    def inside(self) -> _Place:
        return _Place(self.path, is_exact=False)

    def part(self, text: str) -> _Place:
        return _Place(f"{self.path}{text}") if self.is_exact else self


def _parts(place: _Place, one: Any) -> Iterator[tuple[_Place, Any]]:
    """What an object holds, each with its place."""
    if isinstance(one, dict):
        for key in [*dict.keys(one)]:
            yield place.inside, key
            is_named = isinstance(key, str | int)
            yield place.part(f"[{key!r:.40}]") if is_named else place.inside, dict.get(one, key)
    elif isinstance(one, list | tuple):
        yield from ((place.part(f"[{number}]"), part) for number, part in enumerate([*one]))
    elif isinstance(one, FunctionType):  # Not its module.
        yield from ((place.inside, part) for part in (one.__closure__, one.__defaults__, one.__kwdefaults__))
        return
    elif isinstance(one, np.ndarray):
        yield from ((place.inside, part) for part in (one.ravel().tolist() if one.dtype.hasobject else ()))
        return
    content = content_of(one)
    if content is not None:
        yield from ((place.part(f".{name}"), part) for name, part in [*content.items()])
    yield from ((place.inside, part) for part in gc.get_referents(one) if part is not content)
