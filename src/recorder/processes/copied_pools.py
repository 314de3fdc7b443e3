"""Pools of processes that a forked copy has from its parent.

All copies of a process share the queues of its pools: tasks of one would be done in, and their results go to, another one.
And none has the threads that hand out the tasks. So a copy makes them again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

# By module and class: what the constructor takes, and where a pool keeps it, in all versions of Python.
_EXECUTOR = ("concurrent.futures.process", "ProcessPoolExecutor")
_POOL = ("multiprocessing.pool", "Pool")
_MADE_WITH: dict[tuple[str, str], Mapping[str, str]] = {
    _EXECUTOR: {
        "max_workers": "_max_workers",
        "mp_context": "_mp_context",
        "initializer": "_initializer",
        "initargs": "_initargs",
        "max_tasks_per_child": "_max_tasks_per_child",
    },
    _POOL: {
        "processes": "_processes",
        "initializer": "_initializer",
        "initargs": "_initargs",
        "maxtasksperchild": "_maxtasksperchild",
        "context": "_ctx",
    },
}
_ENDED = {_EXECUTOR: ("_shutdown_thread", True), _POOL: ("_state", "CLOSE")}
_OF_THREADS = ("multiprocessing.pool", "ThreadPool")  # A subclass.
_LOCK = ("multiprocessing.synchronize", "SemLock")
_AFTER_FORK = ("multiprocessing.util", "_afterfork_registry")


def pools_to_copy() -> list[Any]:
    """The pools of processes that modules and their classes hold and that still take tasks."""
    kinds = tuple(kind for key in _MADE_WITH if (kind := _loaded(key)) is not None) if _any_locks() else ()
    held = (one for one in _held_by_modules() if issubclass(type(one), kinds)) if kinds else ()
    return list({id(one): one for one in held if _is_copied(one)}.values())


def make_again(pools: Iterable[Any]) -> None:
    """In a copy: give pools queues, threads and processes of their own. An executor starts its processes when it is used."""
    for pool in pools:
        key = _key_of(pool)
        kind = _loaded(key) if key is not None else None
        if key is not None and kind is not None:
            kind.__init__(pool, **{name: vars(pool)[place] for name, place in _MADE_WITH[key].items()})


def _any_locks() -> bool:
    """Return False if this process has no lock of multiprocessing: the queues of each pool of processes have locks.

    multiprocessing lists all of them, to renew them after a fork. To go through that takes microseconds, and through what
    a thousand modules and their classes hold 20 ms, which was half of the time of a short copy.
    """
    lock, registered = _loaded(_LOCK), _loaded(_AFTER_FORK)
    return lock is not None and (
        registered is None or any(issubclass(type(one()), lock) for one in registered.valuerefs())
    )


def _is_copied(one: Any) -> bool:
    key = _key_of(one)
    if key is None or not set(_MADE_WITH[key].values()) <= vars(one).keys():
        return False
    name, ended = _ENDED[key]
    state = vars(one).get(name)
    return state not in (ended, "TERMINATE")


def _key_of(one: Any) -> tuple[str, str] | None:
    for_threads = _loaded(_OF_THREADS)
    if for_threads is not None and issubclass(type(one), for_threads):
        return None
    kinds = ((key, _loaded(key)) for key in _MADE_WITH)
    return next((key for key, kind in kinds if kind is not None and issubclass(type(one), kind)), None)


def _loaded(key: tuple[str, str]) -> Any:
    """A class or a value, if its module was imported; else None."""
    module, name = key
    return getattr(sys.modules.get(module), name, None)


def _held_by_modules() -> Iterator[Any]:
    # Not what stands in the place of a module, which may raise anything, and not by asking it: it may be lazy.
    modules = [one for one in list(sys.modules.values()) if issubclass(type(one), ModuleType)]
    for module in modules:
        for one in list(object.__getattribute__(module, "__dict__").values()):
            yield one
            if issubclass(type(one), type):
                yield from list(type.__getattribute__(one, "__dict__").values())
