"""Checks of whether names, items and what a process has once are as they were. Each is a function that returns True if so.

A change is seen by identity. Invariant: nothing here runs the user's code.
"""

from __future__ import annotations

import builtins
import operator
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from recorder.ambient.value_kinds import attributes_of
from recorder.processes.seeds.process_generators import generator_states
from sim.kernel.memory.object_memory import identities

Check = Callable[[], bool]

# Names of modules and classes that Python itself writes.
_PYTHONS = {
    *(
        "__warningregistry__",
        "_abc_impl",
        "__abstractmethods__",
        "__annotations__",
        "__annotations_cache__",
        "__dict__",
    ),
    *(
        "__weakref__",
        "__builtins__",
        "__cached__",
        "__loader__",
        "__spec__",
        "__file__",
        "__path__",
    ),
    *("__package__", "__parameters__", "__orig_bases__", "__match_args__", "__slots__"),
    *("__static_attributes__", "__firstlineno__", "__annotate__", "__annotate_func__"),
    *("__dataclass_fields__", "__dataclass_params__", "__attrs_attrs__", "__attrs_props__"),
}


def open_names(names: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a program gives itself: warnings and abstract classes note something under others."""
    return {name: one for name, one in names.items() if name not in _PYTHONS}


class SameItems:
    """The check that a mapping has its keys and values still, in their order.

    Attributes:
        mapping: that is looked at.
    """

    def __init__(self, mapping: Mapping[Any, Any]) -> None:
        self.mapping = mapping
        self._keys, self._values = list(mapping), list(mapping.values())

    def __call__(self) -> bool:
        """Return True if it has."""
        return (
            len(self.mapping) == len(self._keys)
            and all(map(operator.is_, self.mapping.values(), self._values))
            and all(map(operator.is_, self.mapping, self._keys))
        )


class SameNames(SameItems):
    """The check that a namespace has the names of open_names still."""

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        super().__init__(mapping)
        self._open = open_names(mapping)

    def __call__(self) -> bool:
        """Return True if it has; those of Python itself may come and go."""
        return super().__call__() or _are_same(open_names(self.mapping), self._open)


def _are_same(now: dict[Any, Any], then: dict[Any, Any]) -> bool:
    return (
        len(now) == len(then)
        and all(map(operator.is_, now.values(), then.values()))
        and all(map(operator.is_, now, then))
    )


class ItemChecks:
    """Many such checks. One look at all items tells that none has changed, in a third of the time."""

    def __init__(self, checks: Sequence[SameItems]) -> None:
        self._checks = list(checks)
        self._mappings = [check.mapping for check in checks]
        self._sizes = list(map(len, self._mappings))
        self._then = self._items()  # Alive, so that no other object gets an address.
        self._addresses = identities(self._then)

    def _items(self) -> tuple[Any, ...]:
        return tuple(chain.from_iterable([half for one in self._mappings for half in (one, one.values())]))

    def __call__(self) -> bool:
        """Return True if each of them does."""
        if list(map(len, self._mappings)) == self._sizes:
            now = self._items()  # Alive while its memory is compared.
            if np.array_equal(identities(now), self._addresses):
                return True
        return all(check() for check in self._checks)


def process_checks() -> Iterable[Check]:
    """Checks of what a process has once."""
    states, environment, folder = _as_plain(generator_states()), dict(os.environ), os.getcwd()  # noqa: PTH109 - quicker than a Path
    threads, settings = threading.active_count(), _settings()
    instance: Any = getattr(random, "_inst", None)
    objects = (os.environ, instance, sys.stdin, sys.stdout, sys.stderr)
    holders = [vars(sys), vars(builtins), *(getattr(one, "__dict__", {}) for one in objects)]

    return (
        *map(SameNames, holders),
        *(check for module in (sys, builtins) for check in _containers(vars(module))),
        SameItems(sys.modules),
        lambda: threading.active_count() == threads,
        lambda: dict(os.environ) == environment and os.getcwd() == folder,  # noqa: PTH109
        lambda: _settings() == settings,
        lambda: _as_plain(generator_states()) == states,
    )


def _settings() -> list[Any]:
    """Settings of the process that no variable of a module shows."""
    decimal = sys.modules.get("decimal")
    return [
        *(sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile()),
        *(getattr(sys, name, int)() for name in ("get_int_max_str_digits", "getdlopenflags")),
        *(np.geterr(), np.geterrcall(), np.getbufsize(), np.get_printoptions()),
        *(repr(decimal.getcontext()) if decimal is not None else "", list(warnings.filters)),
        getattr(os, "sched_getaffinity", lambda _: None)(0),
        os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else None,
    ]


def library_checks(module: ModuleType, seen: set[int]) -> Iterator[Check]:
    """Checks of what code may have added to a library: names of its public modules and classes, attributes of functions.

    seen: the ids of modules that have been checked, which is added to.
    """
    if id(module) in seen:
        return
    seen.add(id(module))
    names = open_names(vars(module))
    yield SameNames(vars(module))
    yield from _containers(names)
    functions = [one for one in names.values() if type(one) is FunctionType]
    attributes = [dict(one.__dict__) for one in functions]
    yield lambda: [one.__dict__ for one in functions] == attributes
    package = module.__name__.partition(".")[0]
    for name, one in names.items():
        if isinstance(one, type):
            yield SameNames(vars(one))
        elif isinstance(one, ModuleType) and not name.startswith("_") and _is_part(one, package, module):
            yield from library_checks(one, seen)


def _is_part(one: ModuleType, package: str, of: ModuleType) -> bool:
    return one.__name__.partition(".")[0] == package or (of is os and one is os.path)


def _containers(names: Mapping[str, Any]) -> Iterator[Check]:
    """Checks of the lists and the dicts among values; those with names that begin with _ are caches."""
    for name, one in names.items():
        if name.startswith("_") or name in ("modules", "path_importer_cache"):
            continue
        if type(one) is dict:
            yield SameItems(one)
        elif type(one) in (list, set):
            yield same_elements(one)


def same_elements(value: Any) -> Check:
    """The check that a sequence or a set has its elements still, in their order; a set also room for as many."""
    then, room = list(value), sys.getsizeof(value) if isinstance(value, set) else 0

    def check() -> bool:
        if len(value) != len(then) or (room and sys.getsizeof(value) != room):
            return False
        return all(map(operator.is_, value, then))

    return check


def same_attributes(value: Any) -> Check:
    """The check that an object is of its class still, and has its attributes."""
    kind, then = type(value), attributes_of(value)
    return lambda: type(value) is kind and _are_same(attributes_of(value), then)


def _as_plain(states: dict[str, Any]) -> dict[str, list[Any]]:
    """The states of generators, of values that can be compared at once."""
    return {
        name: [part.tobytes() if isinstance(part, np.ndarray) else part for part in state]
        for name, state in states.items()
    }
