"""Intercept a step's reads of outside sources: clocks, entropy, environment variables.

While a live run steps, its reads are counted and kept. While a copy steps, clocks run a day ahead: a step that depends
on them then diverges from the live run. Or the copy gets the values that the live run got.

Only the thread that steps is affected; other threads, such as that of a progress bar, get the real values.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import attrs

import recorder.processes.seeds.unseeded
from recorder.ambient.outside.dated_class import dated_class
from recorder.ambient.outside.own_code import is_librarys, only_waits
from recorder.ambient.outside.read_watch import library_name
from recorder.ambient.roots import Roots
from recorder.processes.seeds.unseeded import UNSEEDED, draw_seeds
from recorder.text import counted

_SEED_BYTES = 16
AHEAD_S = 100_003.7  # Seconds by which the clocks of copies are ahead.

_CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
)
CLOCK, ENTROPY = "clock", "entropy"
PLACES_MAX = 4  # Lines that are named of one source.


@attrs.define
class SourceReads:
    """The reads of one source by steps.

    Attributes:
        name: such as time.time.
        kind: CLOCK or ENTROPY.
        values: the values that were returned, in order.
        places: file and line of each of these reads.
    """

    name: str
    kind: str
    values: list[Any] = attrs.field(factory=list)
    places: list[str] = attrs.field(factory=list)

    def places_text(self) -> str:
        """The lines that read it, in the order of their first reads; of several, with the number of reads of each."""
        counts = Counter(self.places)
        if len(counts) == 1:
            return self.places[0]
        shown = [f"{place} ({counted(count, 'time')})" for place, count in counts.items()]
        return ", ".join([*shown[:PLACES_MAX], *(["…"] if len(shown) > PLACES_MAX else [])])


@attrs.define
class OutsideReads:
    """The reads of a series of steps by source, and the environment variables that were read, with their places."""

    sources: dict[str, SourceReads] = attrs.field(factory=dict)
    variables: dict[str, str] = attrs.field(factory=dict)


class OutsideSources:
    """The outside sources of one simulation's code."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    @contextmanager
    def counted(self, reads: OutsideReads) -> Iterator[None]:
        """Add the reads to reads while the context is open."""

        def read(name: str, kind: str, original: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
            value = original(*arguments)
            shown, place = _caller(name, kind)
            if not shown:
                return value
            source = reads.sources.setdefault(shown, SourceReads(shown, kind))
            source.values.append((name, value))
            source.places.append(place)
            return value

        def forget(seed: int) -> None:
            for shown, source in list(reads.sources.items()):
                kept = [number for number, one in enumerate(source.values) if one != (UNSEEDED, seed)]
                source.values, source.places = (
                    [held[number] for number in kept] for held in (source.values, source.places)
                )
                if not source.values:
                    del reads.sources[shown]

        with self._patched(read, reads.variables, forget):
            yield

    @contextmanager
    def moved(self, reads: OutsideReads, repeated: frozenset[str] = frozenset()) -> Iterator[set[str]]:
        """Run the clocks ahead; the sources in repeated return the values of reads again, as long as they last.

        Gives the names of those of repeated that have returned none: a copy need not read what the live run read.
        """
        unread = set(repeated)
        rest = {name: list(source.values) for name, source in reads.sources.items() if name in repeated}

        def read(name: str, kind: str, original: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
            shown, _ = _caller(name, kind)
            kept = rest.get(shown)
            if kept and kept[0][0] == name:
                unread.discard(shown)
                return kept.pop(0)[1]
            value = original(*arguments)
            return _ahead(name, value) if kind == CLOCK and shown else value

        def again(seed: int) -> None:
            for shown, source in reads.sources.items():
                if shown in rest and (UNSEEDED, seed) in source.values:
                    rest[shown].insert(0, (UNSEEDED, seed))

        with self._patched(read, {}, again):
            yield unread

    @contextmanager
    def _patched(
        self, read: Callable[..., Any], variables: dict[str, str], give_back: Callable[[int], None]
    ) -> Iterator[None]:
        thread, chance = threading.get_ident(), os.urandom
        substitutes: dict[int, Any] = {}
        originals: list[Any] = []

        def stand_in(name: str, kind: str, original: Callable[..., Any]) -> None:
            def substitute(*arguments: Any) -> Any:
                if threading.get_ident() != thread:
                    return original(*arguments)
                return read(name, kind, original, arguments)

            substitutes[id(original)] = substitute
            originals.append(original)

        for name in _CLOCKS:
            stand_in(f"time.{name}", CLOCK, getattr(time, name))
        stand_in("os.urandom", ENTROPY, os.urandom)
        stand_in("uuid.uuid1", ENTROPY, uuid.uuid1)
        for kind in (dt.datetime, dt.date):
            substitutes[id(kind)] = _dated(kind, read, thread)
        environment = type(os.environ)
        get_item = environment.__getitem__

        def read_variable(self: Any, key: Any) -> Any:
            if self is os.environ and threading.get_ident() == thread and isinstance(key, str):
                variables.setdefault(key, _caller("os.environ", "")[1])
            return get_item(self, key)

        def draw() -> int | None:
            if threading.get_ident() != thread:
                return None
            return int(read(UNSEEDED, ENTROPY, lambda: int.from_bytes(chance(_SEED_BYTES)), ()))

        places = self._put(substitutes)
        restore_seeding = draw_seeds(draw, give_back)
        environment.__getitem__ = read_variable  # type: ignore[method-assign]
        try:
            yield
        finally:
            environment.__getitem__ = get_item  # type: ignore[method-assign]
            restore_seeding()
            for holder, name, original in places:
                holder[name] = original

    def _put(self, substitutes: Mapping[int, Any]) -> list[tuple[dict[str, Any], str, Any]]:
        """Install the substitutes in Python's modules and the simulation's; return the replaced values."""
        modules: list[ModuleType] = [time, os, random, uuid, dt, *self._roots.modules.values()]
        replaced = []
        for module in modules:
            names = vars(module)
            for name, value in list(names.items()):
                if id(value) in substitutes:
                    replaced.append((names, name, value))
                    names[name] = substitutes[id(value)]
        return replaced


def _ahead(name: str, value: Any) -> Any:
    if isinstance(value, dt.date):
        return value + dt.timedelta(seconds=AHEAD_S)
    return value + int(AHEAD_S * 1e9) if name.endswith("_ns") else value + AHEAD_S


def _dated(kind: type[Any], read: Callable[..., Any], thread: int) -> type[Any]:
    """A substitute for datetime or date with intercepted now and today."""

    def intercepted(name: str, original: Any) -> Callable[..., Any]:
        def substitute(*arguments: Any, **named: Any) -> Any:
            if threading.get_ident() != thread or named:
                return original(*arguments, **named)
            return read(f"{kind.__name__}.{name}", CLOCK, original, arguments)

        return substitute

    return dated_class(kind, ("now", "utcnow", "today"), intercepted)


_NOT_CALLERS = (str(Path(__file__).parent), recorder.processes.seeds.unseeded.__file__, "<frozen")
_LIBRARY = str(Path(os.__file__).parent)
_COMPILERS = {"numba", "llvmlite"}  # They time themselves when a step first calls a compiled function.


_SYSTEMS_BITS = "random.getrandbits"
_NAMES_OF_BITS = {
    "getrandbits",
    "randbits",
}  # By which Python code asks for them; packages in C, such as NumPy, have no frame.
SYSTEMS_SEED = "a seed from the system"


def _caller(name: str, kind: str) -> tuple[str, str]:
    """The function of Python's library that other code called, and the file and line of the user's code that led to it.

    The line of an installed package if none of the user's led there. Both empty if a compiler called it, or a package while it is
    first imported: no step reads that; of a clock that a lock or a wait of the library reads, and of names that it draws.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - inspect.stack reads source files, which would take a thousand times longer
    shown, place = name, ""
    while frame is not None:
        file, code = frame.f_code.co_filename, frame.f_code
        if file.startswith(_LIBRARY) and "site-packages" not in file:
            if not place:
                if only_waits(file) and (kind == ENTROPY or (kind == CLOCK and shown == name)):
                    return "", ""
                shown = name if name == UNSEEDED else library_name(frame)
        elif not file.startswith(_NOT_CALLERS) and not (file.startswith("<") and code.co_name == "__init__"):
            if place and is_librarys(file):
                break  # It calls the step.
            is_package = "site-packages" in file
            if (is_package and code.co_name == "<module>") or _is_compilers(frame):
                return "", ""
            if not place and shown == _SYSTEMS_BITS and not _NAMES_OF_BITS & set(code.co_names):
                shown = SYSTEMS_SEED
            if not place or not is_package:
                place = f"{Path(file).name}:{frame.f_lineno}"
            if not is_package:
                break
        frame = frame.f_back  # type: ignore[assignment]
    return shown, place


def _is_compilers(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _COMPILERS
