"""Settings of the process that are changed while a run is recorded.

A program that changes its time zone, its working directory or how decimals are rounded does so. META tells those of the
beginning. The watch looks at keyframes and at the end; a look takes some 30 µs, and more only after a change.
"""

from __future__ import annotations

import decimal
import locale
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from recorder.ambient.outside.outside_note import CHANGED_MAX, KEY, WATCHES
from recorder.ambient.outside.process_facts import OF_THREAD, VARIABLES, begins_with, changeable_facts
from recorder.ambient.settings.library_settings import numba_threads

_threads = threading.local()
_KEYS = [os.environ.encodekey(name) for name in VARIABLES]


def watch_settings(meta: dict[str, Any], tick: int, *, is_first: bool) -> SettingsWatch | None:
    """A watch of the settings that META has a note of; None if it has none. Arguments: see SettingsWatch."""
    return SettingsWatch(tick, is_first=is_first) if meta.get(KEY, {}).get(WATCHES) is True else None


class SettingsWatch:
    """The settings of the process, as they were when its session began.

    An error of a look ends the watch, and nothing is known of the ticks since: the user did not ask for any.
    """

    def __init__(self, tick: int, *, is_first: bool) -> None:
        """tick: of the state now. is_first: False in a run that is resumed: what is noted of its sessions before is left out."""
        self._first, self._last, self._is_first = tick, tick, is_first
        self._changes: list[list[Any]] = []
        self._threads: list[list[Any]] = []  # See WatchedSettings.
        self._is_over = False  # Nothing is known from the last tick on.
        self._thread = _this_thread()
        self._try(self._begin)

    def _begin(self) -> None:
        self._seen, self._facts = _as_read(), changeable_facts()

    def look(self, tick: int) -> None:
        """Note what was changed since the last look, before the step to tick was over."""
        self._try(lambda: self._look(tick, _this_thread()))

    def _look(self, tick: int, thread: object) -> None:
        if tick == self._last:
            return  # No step was taken since.
        seen = _as_read()
        if seen != self._seen:
            facts, before = changeable_facts(), self._facts
            changes: list[list[Any]] = [
                [name, self._last, tick, then, now]
                for name in dict.fromkeys([*before, *facts])
                if (then := before.get(name, begins_with(name))) != (now := facts.get(name, begins_with(name)))
                and not (then is None and name not in VARIABLES)  # Of a library that was loaded since.
            ]
            if thread != self._thread:
                self._note_thread(tick, {change[0]: change[4] for change in changes if change[0] in OF_THREAD})
                changes = [change for change in changes if change[0] not in OF_THREAD]
            if len(self._changes) + len(changes) > CHANGED_MAX or len(self._threads) > CHANGED_MAX:
                self._is_over = True
                return
            self._changes += changes
            self._seen, self._facts = seen, facts
        self._last, self._thread = tick, thread

    def _note_thread(self, tick: int, settings: dict[str, str]) -> None:
        """Note the own settings of another thread than that of the last look. Until now they are those of one or the other."""
        if settings and self._threads and self._threads[-1][1] == self._last:
            self._threads[-1][1:] = tick, {**self._threads[-1][2], **settings}
        elif settings:
            self._threads.append([self._last, tick, settings])

    def _try(self, work: Callable[[], None]) -> None:
        if self._is_over:
            return
        try:
            work()
        except Exception:  # noqa: BLE001 - a setting that cannot be read stops no recording
            self._is_over = True

    def outcome(self, end: Any, tick: int) -> Any:
        """The end of a tape with what was changed up to a tick; unchanged unless it is a mapping, and without anything to tell."""
        self._try(lambda: self._look_at_end(tick))
        is_noted = bool(self._changes or self._threads)
        if not isinstance(end, dict) or (self._is_first and not is_noted and self._last == tick):
            return end
        found: dict[str, Any] = {"first_tick": self._first, "last_tick": self._last, "changes": self._changes}
        found |= {"threads": self._threads} if self._threads else {}
        return {**end, KEY: {**end.get(KEY, {}), "settings": found}}

    def _look_at_end(self, tick: int) -> None:
        """Look once more; of a thread that has taken no steps, its own settings say nothing of them."""
        thread = _this_thread()
        if thread == self._thread:
            self._look(tick, thread)
            return
        before, count = self._facts, len(self._changes)
        self._look(tick, self._thread)
        self._changes[count:] = [change for change in self._changes[count:] if change[0] not in OF_THREAD]
        self._facts = {**self._facts, **{name: before[name] for name in OF_THREAD if name in before}}


def _this_thread() -> object:
    """Stands for the present thread; the number of one that has ended is given to another one."""
    if not hasattr(_threads, "this"):
        _threads.this = object()
    return _threads.this


def _variables() -> tuple[Any, ...]:
    """The values of VARIABLES; without the exception that os.environ raises and catches for each that is not set."""
    held: Any = getattr(os.environ, "_data", None)
    if isinstance(held, dict):
        return tuple(map(held.get, _KEYS))
    return tuple(os.environ.get(name) for name in VARIABLES)


def _as_read() -> tuple[Any, ...]:
    """What changeable_facts tells, as it is read: to see quickly that all is as before."""
    context, torch = decimal.getcontext(), cast("Any", sys.modules.get("torch"))
    try:
        folder = os.getcwd()  # noqa: PTH109 - as the system names it
    except OSError:  # It was deleted.
        folder = None
    return (
        time.tzname,
        time.timezone,
        locale.setlocale(locale.LC_ALL),
        folder,
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        _variables(),
        np.geterr(),
        np.get_printoptions(),
        sys.getrecursionlimit(),
        context.prec,
        context.rounding,
        numba_threads(),
        *((torch.get_default_dtype(), torch.get_num_threads()) if hasattr(torch, "get_num_threads") else ()),
    )
