"""Functions that read the outside world, and substitutes for them that report each call and its result."""

from __future__ import annotations

import builtins
import datetime as dt
import gc
import locale
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from recorder.ambient.outside.dated_class import dated_class
from recorder.ambient.outside.outside_read import (
    ATTRIBUTES,
    CLOCK,
    CONTACT,
    ENTROPY,
    GENERATOR,
    IDENTITY,
    LOCALE,
    NUMBER,
    TEXT_HASH,
    THREADS,
    ZONE,
    OutsideRead,
    arguments_fact,
    attributes_fact,
)
from recorder.ambient.outside.process_facts import locale_name, time_zone

CLOCKS = tuple(
    f"{name}{suffix}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for suffix in ("", "_ns")
)
SEED_VARIABLE = "PYTHONHASHSEED"
# Of a pool, what gives tasks whose results may come in any order. They are not loaded for this.
_POOLS = (
    ("concurrent.futures.thread", "ThreadPoolExecutor", ("submit",)),
    ("concurrent.futures.process", "ProcessPoolExecutor", ("submit",)),
    ("multiprocessing.pool", "Pool", ("imap_unordered", "apply_async", "map_async", "starmap_async")),
)
_COUNTS = ("active_count", "enumerate")  # Functions of threading.
_SEEDS_OF_GENERATORS = ("seed", "getstate", "setstate", "get_state", "set_state", "Random", "SystemRandom")


@attrs.frozen
class Call:
    """A function whose calls are reads.

    Attributes:
        kind, name: of the read.
        function: the original.
        fact: of a call, from its result and its positional arguments; None if there is none to compare.
        reads: returns True if a call with these positional arguments is a read; None if all are.
        names_path: True if the first argument is a path, which then is the name.
        clock_below: with fewer arguments than this it reads the clock as well.
    """

    kind: str
    name: str
    function: Any
    fact: Callable[[Any, tuple[Any, ...]], str | None] | None = None
    reads: Callable[..., bool] | None = None
    names_path: bool = False
    clock_below: int = 0


Called = Callable[[Call, Any, tuple[Any, ...]], None]  # The call, its result, its positional arguments.


def read_functions(called: Called) -> dict[int, tuple[Any, Any]]:
    """The originals and their substitutes by the id of the original. called: gets each call that has returned."""
    substitutes = {id(call.function): (call.function, _substitute(call, called)) for call in _calls()}
    for kind in (dt.datetime, dt.date):
        substitutes[id(kind)] = kind, _dated(kind, called)
    substitutes[id(builtins.hash)] = builtins.hash, _hashing(called)
    return substitutes


def _reading(name: str) -> Any:
    """A method of a list that says so first."""
    method = getattr(list, name)

    def reading(arguments: _Arguments, *values: Any) -> Any:
        if not (arguments.but_name and values == (0,)):
            arguments.read()
        return method(arguments, *values)

    return reading


class _Arguments(list[str]):
    """The arguments of the program, which say when they are read."""

    read: Callable[[], None]
    but_name = False

    __getitem__, __iter__, __len__ = _reading("__getitem__"), _reading("__iter__"), _reading("__len__")
    __contains__, __eq__, __add__ = _reading("__contains__"), _reading("__eq__"), _reading("__add__")
    index, count, copy, pop = _reading("index"), _reading("count"), _reading("copy"), _reading("pop")
    __reversed__ = _reading("__reversed__")
    __hash__ = None


def watch_arguments(note: Callable[[str], None], *, but_name: bool = False) -> Callable[[], None]:
    """Put arguments that call note with their digest when they are read into sys.argv. Return what ends that.

    but_name: not if the name of the program alone is read, as each parser of arguments does that is made.
    """
    original = sys.argv
    fact = arguments_fact(map(str, original[1:]))
    substitute = _Arguments(original)
    substitute.read, substitute.but_name = lambda: note(fact), but_name
    sys.argv = substitute

    def restore() -> None:
        if sys.argv is substitute:
            substitute.read = lambda: None
            original[:] = substitute
            sys.argv = original

    return restore


def watch_pools(called: Called) -> Callable[[], None]:
    """Report the tasks that pools are given, also pools whose threads and processes run already. Return what ends that."""
    originals = [
        (kind, name, vars(kind)[name])
        for module, kind_name, names in _POOLS
        if (kind := getattr(sys.modules.get(module), kind_name, None)) is not None
        for name in names
        if name in vars(kind)
    ]
    for kind, name, function in originals:
        setattr(kind, name, _giving_tasks(kind, name, function, called))

    def restore() -> None:
        for kind, name, function in originals:
            setattr(kind, name, function)

    return restore


def _giving_tasks(kind: Any, name: str, function: Any, called: Called) -> Callable[..., Any]:
    def substitute(pool: Any, *arguments: Any, **named: Any) -> Any:
        result = function(pool, *arguments, **named)
        # Pools of threads have the methods of those of processes; they are told apart by their classes.
        shown = (
            f"multiprocessing.{type(pool).__name__}" if kind.__module__ == "multiprocessing.pool" else kind.__module__
        )
        called(Call(THREADS, f"{shown}.{name}", function), result, ())
        return result

    return substitute


def starts_thread(read: OutsideRead) -> bool:
    """Return True for the start of a thread or of a task of a pool; the other reads of threads only count them, or processors."""
    return read.kind == THREADS and read.fact is None and read.name not in {f"threading.{name}" for name in _COUNTS}


def _substitute(call: Call, called: Called) -> Callable[..., Any]:
    function = call.function
    if call.names_path:
        return _substitute_of_path(call, called)

    def substitute(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        called(call, result, arguments)
        if len(arguments) < call.clock_below:
            called(clock, result, arguments)
        return result

    clock = attrs.evolve(call, kind=CLOCK, fact=None)
    return substitute


def _substitute_of_path(call: Call, called: Called) -> Callable[..., Any]:
    """Of a function that gets a path: that nothing is there is an answer as well, such as that of Path.exists()."""
    function = call.function

    def substitute(*arguments: Any, **named: Any) -> Any:
        is_named = named.get("dir_fd") is None  # Otherwise the path is below another folder.
        paths = (*arguments, *([named["path"]] if "path" in named else []))[:1]
        try:
            result = function(*arguments, **named)
        except OSError:
            if is_named:
                called(call, None, paths)
            raise
        if is_named:
            called(call, result, paths)
        return result

    return substitute


def _calls() -> Iterator[Call]:
    for name in CLOCKS:
        yield Call(CLOCK, f"time.{name}", getattr(time, name))
    yield Call(ENTROPY, "os.urandom", os.urandom)
    yield Call(ENTROPY, "uuid.uuid1", uuid.uuid1)
    yield from _zones()
    for name in ("stat", "access"):
        function = getattr(os, name)
        yield Call(ATTRIBUTES, f"os.{name}", function, lambda _, paths: attributes_fact(paths[0]), names_path=True)
    for name in ("getlocale", "localeconv", "nl_langinfo", "strcoll", "strxfrm", "getpreferredencoding", "setlocale"):
        if hasattr(locale, name):
            yield Call(LOCALE, f"locale.{name}", getattr(locale, name), _locale, _is_query(name))
    yield Call(IDENTITY, "os.getpid", os.getpid)
    yield Call(CONTACT, "os.getcwd", os.getcwd)
    yield Call(CONTACT, "gc.collect", gc.collect)
    yield Call(CONTACT, "sys.getrefcount, the number of references", sys.getrefcount)
    for module, name in (("os", "getloadavg"), ("resource", "getrusage")):
        function = getattr(sys.modules.get(module), name, None)
        if function is not None:
            yield Call(CONTACT, f"{module}.{name}", function)
    if hasattr(threading, "get_native_id"):
        yield Call(NUMBER, "threading.get_native_id", threading.get_native_id)
    yield from _threads()
    yield from _generators(random, getattr(random, "_inst", None), "random")
    yield from _generators(np.random, getattr(np.random.mtrand, "_rand", None), "np.random")


def _zones() -> Iterator[Call]:
    """Functions that read the clock if a time is missing, and the time zone in any case."""
    for name, count in (("localtime", 1), ("ctime", 1), ("strftime", 2), ("mktime", 0)):
        yield Call(ZONE, f"time.{name}", getattr(time, name), _zone, clock_below=count)
    for name in ("gmtime", "asctime"):
        yield Call(CLOCK, f"time.{name}", getattr(time, name), None, lambda *arguments: not arguments)


def _threads() -> Iterator[Call]:
    for name in _COUNTS:  # A copy of a process has one thread, whatever the process has.
        yield Call(THREADS, f"threading.{name}", getattr(threading, name))
    for name in ("_start_new_thread", "_start_joinable_thread"):  # The second one from Python 3.13 on.
        if hasattr(threading, name):
            yield Call(THREADS, "a thread that was started", getattr(threading, name))
    functions = [
        (f"os.{name}", getattr(os, name))
        for name in ("cpu_count", "process_cpu_count", "sched_getaffinity")
        if hasattr(os, name)
    ]
    for package in ("numba", "torch"):
        function = getattr(sys.modules.get(package), "get_num_threads", None)
        if function is not None:
            functions.append((f"{package}.get_num_threads", function))
    for name, function in functions:
        yield Call(THREADS, name, function, lambda result, _: str(len(result) if isinstance(result, set) else result))


def _generators(module: Any, instance: Any, shown: str) -> Iterator[Call]:
    for name, value in vars(module).items():
        is_draw = not name.startswith("_") and name not in _SEEDS_OF_GENERATORS
        if is_draw and instance is not None and getattr(value, "__self__", None) is instance:
            yield Call(GENERATOR, f"{shown}.{name}", value)


def _zone(_: Any, __: tuple[Any, ...]) -> str:
    return time_zone()


def _locale(_: Any, __: tuple[Any, ...]) -> str:
    return locale_name()


def _is_query(name: str) -> Callable[..., bool] | None:
    return (lambda _, value=None: value is None) if name == "setlocale" else None


def _hashing(called: Called) -> Callable[[Any], int]:
    original = builtins.hash
    calls = {
        TEXT_HASH: Call(TEXT_HASH, "hash of a text", original, lambda _, __: seed_fact()),
        IDENTITY: Call(IDENTITY, "hash of an object's address", original),
    }

    def substitute(value: Any, /) -> int:
        result = original(value)
        kind = _hash_kind(value)
        if kind is not None:
            called(calls[kind], result, (value,))
        return result

    return substitute


def _hash_kind(value: Any) -> str | None:
    """TEXT_HASH if the hash of a value depends on the process's seed, IDENTITY if on its address, or else None."""
    if isinstance(value, str | bytes):
        return TEXT_HASH if value else None
    if type(value) in {tuple, frozenset}:
        kinds = {_hash_kind(part) for part in value}
        return IDENTITY if IDENTITY in kinds else TEXT_HASH if TEXT_HASH in kinds else None
    hashing: Any = type(value).__hash__
    return IDENTITY if hashing is object.__hash__ else None


def seed_fact() -> str | None:
    """The seed of the hashes of texts; None if the process has drawn it."""
    seed = os.environ.get(SEED_VARIABLE, "random")
    return None if seed in ("", "random") else f"{SEED_VARIABLE}={seed}"


def _dated(kind: type[Any], called: Called) -> type[Any]:
    """A substitute for datetime or date with reported now, today and fromtimestamp."""

    def reported(name: str, original: Any) -> Callable[..., Any]:
        shown = f"{kind.__name__}.{name}"
        clock, zone = Call(CLOCK, shown, original), Call(ZONE, shown, original, _zone)

        def substitute(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            if name != "fromtimestamp":
                called(clock, result, arguments)
            elif not named and len(arguments) == 1:  # Without a time zone of its own.
                called(zone, result, arguments)
            return result

        return substitute

    return dated_class(kind, ("now", "utcnow", "today", "fromtimestamp"), reported)
