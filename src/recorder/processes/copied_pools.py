"""Pools of processes that a forked copy has from its parent.

All copies of a process share the queues of its concurrent.futures.ProcessPoolExecutor: tasks of one would be done in, and
their results go to, another one. And none has the thread that hands out the tasks. So a copy makes them again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

_MADE_WITH = {  # What their constructor takes, and where they keep it, in all versions of Python.
    "max_workers": "_max_workers",
    "mp_context": "_mp_context",
    "initializer": "_initializer",
    "initargs": "_initargs",
    "max_tasks_per_child": "_max_tasks_per_child",
}
_IS_SHUT = "_shutdown_thread"


def pools_to_copy() -> list[Any]:
    """The executors that modules and their classes hold and that still take tasks."""
    kind = getattr(sys.modules.get("concurrent.futures.process"), "ProcessPoolExecutor", None)
    if kind is None:
        return []
    held = {id(one): one for one in _held_by_modules() if issubclass(type(one), kind)}
    return [one for one in held.values() if _MADE_WITH.keys() <= _known(one) and not vars(one)[_IS_SHUT]]


def _held_by_modules() -> Iterator[Any]:
    # Not what stands in the place of a module, which may raise anything, and not by asking it: it may be lazy.
    modules = [one for one in list(sys.modules.values()) if issubclass(type(one), ModuleType)]
    for module in modules:
        for one in list(object.__getattribute__(module, "__dict__").values()):
            yield one
            if issubclass(type(one), type):
                yield from list(type.__getattribute__(one, "__dict__").values())


def _known(pool: Any) -> set[str]:
    return {key for key, name in _MADE_WITH.items() if name in vars(pool)}


def make_again(pools: Iterable[Any]) -> None:
    """In a copy: give executors queues of their own, and no processes. None of the user's code is run."""
    for pool in pools:
        kind: Any = sys.modules["concurrent.futures.process"]
        held = vars(pool)
        kind.ProcessPoolExecutor.__init__(pool, **{key: held[name] for key, name in _MADE_WITH.items()})
