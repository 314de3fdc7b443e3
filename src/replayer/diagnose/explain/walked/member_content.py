"""What an object holds, as a text that is the same in each run: no address is in it, and no order of a set."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any

_OBJECTS_MAX = 200  # Of each member: what it holds may lead to all of the simulation.
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def content_of(value: Any) -> str:
    """A digest of the first values that are found in an object. Two objects that hold different values may still have the same one."""
    seen, waiting, found = {id(value): 0}, deque([value]), list[str]()
    while waiting and len(found) < _OBJECTS_MAX:
        one = waiting.popleft()
        if type(one) in _PLAIN:
            found.append(f"{type(one).__name__} {one!r}" if type(one) is not int else f"int {one:x}")
            continue
        found.append(f"{type(one).__module__}.{type(one).__qualname__}")
        for name, part in _parts(one):
            # A plain value is told by what it is: whether two are one object may differ.
            number = -1 if type(part) in _PLAIN else seen.setdefault(id(part), len(seen))
            found.append(f"{name} {number}")
            if number in (-1, len(seen) - 1):
                waiting.append(part)
    return hashlib.blake2b("\n".join(found).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _parts(one: Any) -> Iterator[tuple[str, Any]]:
    """What an object refers to, by names; nothing of a set, whose members have no order, and of a type, a module and a function."""
    if type(one) in (list, tuple, deque):
        yield from ((str(number), part) for number, part in enumerate(one))
    elif type(one) is dict:
        for number, (key, part) in enumerate(one.items()):
            yield f"key {number}", key
            yield f"value {number}", part
    elif not issubclass(type(one), type) and type(one).__module__ != "builtins":
        with suppress(AttributeError):
            held = object.__getattribute__(one, "__dict__")
            yield from held.items() if type(held) is dict else ()
        for base in type(one).__mro__:
            for name, member in vars(base).items():
                if type(member) is MemberDescriptorType and name != "__dict__":
                    yield from _slot(name, member, one)


def _slot(name: str, member: MemberDescriptorType, one: Any) -> Iterator[tuple[str, Any]]:
    with suppress(AttributeError):  # It was given no value.
        yield name, member.__get__(one)
