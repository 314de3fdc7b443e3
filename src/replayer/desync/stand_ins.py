"""Stand-ins for what differs from run to run: addresses, clocks, chance of the system, generators without a seed, threads.

A stand-in gives the same in each run. Where two variants of a step differ, and with the stand-ins for one kind of reads they
do not, what the step reads of that kind makes the difference. There are two sets of them: a step that gives one state with
the first set, and another one with the second, depends on what they stand for.
"""

from __future__ import annotations

import builtins
import concurrent.futures
import datetime as dt
import gc
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection
from typing import Any

from recorder.ambient.outside.dated_class import dated_class
from recorder.ambient.outside.outside_read import CLOCK, CONTACT, ENTROPY, GENERATOR, IDENTITY, NUMBER, THREADS
from recorder.ambient.outside.read_functions import CLOCKS
from recorder.processes.seeds.process_generators import seed_all
from recorder.processes.seeds.unseeded import SHARED_SEED, seed_alike
from replayer.desync.ordered_threads import late_threads, order_threads, ready_threads, wait_until_ready

# A clock goes on by a microsecond each time it is asked, and faster the more it was: a wait for it comes to an end.
START_S, TICK_NS, FASTER_AFTER = 1_600_000_000, 1_000, 1_000
OTHER_START_S, OTHER_TICK_NS = (
    1_700_050_607,
    1_700_000,
)  # Of the second set: another day and hour, and a slower machine.
ADDRESS, ALIGNED_BYTES = 0x7F00_0000_0000, 64
SEED = 7
SWITCHED, SWITCH_S = 2, 1e-6
READY, LATE, GIVEN_TIME = 3, 4, 5
_AT_A_MOMENT = {READY: ready_threads, LATE: late_threads, GIVEN_TIME: wait_until_ready}
ANSWERS = (0, 1), (2, 9)  # In both sets: of gc.collect(), and of sys.getrefcount().


def use_stand_ins(kinds: Collection[str], is_own: Callable[[str], bool], number: int = 0) -> None:
    """Put stand-ins in place for these kinds of reads, in Python's modules and the user's. Only in a copy.

    number: of the set, 0 or 1; SWITCHED for threads that run as ever, among which Python switches as often as it can;
        READY or LATE for threads that are ready at once, or only when they are waited for; GIVEN_TIME for threads that
        run as ever, and for which is waited now.
    """
    substitutes: dict[int, tuple[Any, Any]] = {}
    if CLOCK in kinds:
        substitutes |= _clocks(*((OTHER_START_S, OTHER_TICK_NS) if number else (START_S, TICK_NS)))
    if ENTROPY in kinds:
        chance = random.Random(SEED + number)  # noqa: S311 - the same in each run
        substitutes[id(os.urandom)] = os.urandom, chance.randbytes
        substitutes[id(SHARED_SEED)] = SHARED_SEED, seed_alike(chance)
        substitutes[id(uuid.uuid1)] = uuid.uuid1, lambda *_, **__: uuid.UUID(bytes=chance.randbytes(16))
    if GENERATOR in kinds:
        seed_all(SEED + number)
    if THREADS in kinds:
        substitutes |= _threads(number)
    if NUMBER in kinds and hasattr(threading, "get_native_id"):
        substitutes[id(threading.get_native_id)] = threading.get_native_id, _Numbers(1_000 + 3_331 * number)
    if CONTACT in kinds:
        substitutes[id(gc.collect)] = gc.collect, lambda *_, **__: (_collect(), ANSWERS[0][number])[1]
        substitutes[id(sys.getrefcount)] = sys.getrefcount, lambda _, *__: ANSWERS[1][number]
    if IDENTITY in kinds:
        substitutes[id(os.getpid)] = os.getpid, _process_id(1_000 + 3_331 * number, is_own)
        _OBJECTS.order = -1 if number else 1
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        is_users = isinstance(names, dict) and is_own(getattr(module, "__file__", None) or "")
        if not isinstance(names, dict) or not (is_users or module in _MODULES):
            continue
        for name, value in list(names.items()):
            if id(value) in substitutes and substitutes[id(value)][0] is value:
                names[name] = substitutes[id(value)][1]
        if is_users and IDENTITY in kinds:  # Not in builtins: the library needs the addresses.
            names.update({name: one for name, one in _ADDRESSES.items() if name not in names})


_collect = gc.collect
_MODULES = (time, os, random, uuid, dt, gc, sys, threading, concurrent.futures)


def _threads(number: int) -> dict[int, tuple[Any, Any]]:
    if number in _AT_A_MOMENT:
        _AT_A_MOMENT[number]()
        return {}
    if number != SWITCHED:
        return order_threads(is_reversed=bool(number))
    sys.setswitchinterval(SWITCH_S)
    return {}


class _Numbers:
    """Numbers for threads in the order in which they ask."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._known: dict[int, int] = {}

    def __call__(self) -> int:
        return self._known.setdefault(threading.get_ident(), self._first + len(self._known))


def _process_id(number: int, is_own: Callable[[str], bool]) -> Callable[[], int]:
    """A number in place of that of the process, for the user's code: the library needs its own."""
    real = os.getpid

    def substitute() -> int:
        caller = sys._getframe(1)  # noqa: SLF001 - the public way, inspect.stack(), reads the source of each frame
        return number if is_own(caller.f_code.co_filename) else real()

    return substitute


def _clocks(start_s: int, tick_ns: int) -> dict[int, tuple[Any, Any]]:
    asked, since_ns = 0, 0

    def now_ns() -> int:
        nonlocal asked, since_ns
        asked += 1
        since_ns += tick_ns * (1 + asked // FASTER_AFTER)
        return start_s * 1_000_000_000 + since_ns

    def method(name: str, _: Any) -> Callable[..., Any]:
        def substitute(zone: Any = None) -> Any:
            moment = dt.datetime.fromtimestamp(now_ns() / 1e9, zone if name == "now" else None)
            return moment.date() if name == "date.today" else moment

        return substitute

    found: dict[int, tuple[Any, Any]] = {}
    for name in CLOCKS:
        original = getattr(time, name)
        found[id(original)] = original, now_ns if name.endswith("_ns") else lambda: now_ns() / 1e9
    found[id(dt.datetime)] = dt.datetime, dated_class(dt.datetime, ("now", "utcnow", "today"), method)
    found[id(dt.date)] = dt.date, dated_class(dt.date, ("today",), lambda _, one: method("date.today", one))
    return found


class _Addresses:
    """Numbers for objects in the order in which they are asked for, in place of their addresses.

    Attributes:
        order: 1, or -1 for numbers that go down.
    """

    def __init__(self) -> None:
        self.order = 1
        self._known: dict[int, tuple[Any, int]] = {}  # Kept alive: no other object may get their addresses.

    def id(self, value: Any, /) -> int:
        """The number of an object, in place of its address."""
        _, number = self._known.setdefault(builtins.id(value), (value, len(self._known)))
        return ADDRESS + ALIGNED_BYTES * number * self.order

    def hash(self, value: Any, /) -> int:
        """The hash of a value, by its number if it hashes by its address."""
        kind: Any = type(value)
        return self.id(value) >> 4 if kind.__hash__ is object.__hash__ else builtins.hash(value)


_OBJECTS = _Addresses()
_ADDRESSES: dict[str, Any] = {"id": _OBJECTS.id, "hash": _OBJECTS.hash}
