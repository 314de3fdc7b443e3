"""In a party's process: the lines of the user's code after which a value or a setting has changed, while code runs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

from recorder.ambient.outside.own_code import is_users_file
from replayer.diagnose.parties.set_values.module_values import value_of
from replayer.diagnose.parties.set_values.set_settings import is_set_between, watched_setting

EVENTS_MAX = 300_000  # Lines and calls; each is followed by a look at each value.
_is_users = functools.cache(is_users_file)


class SetLines:
    """Looks after each line of the user's code, while it is open, whether one of some values is another one."""

    def __init__(self, settings: Sequence[str], values: Sequence[str]) -> None:
        """settings: names of settings of the process. values: names as in module_values."""
        self._reads = {name: functools.partial(watched_setting, name) for name in settings}
        self._reads |= {name: functools.partial(value_of, name) for name in values}
        self._settings = frozenset(settings)
        self._seen: dict[str, Any] = {}
        self._places: dict[str, str] = {}
        self._line: tuple[str, int] | None = None
        self._left = EVENTS_MAX
        self._before: Any = None

    def __enter__(self) -> Self:
        if self._reads:
            self._seen = {name: read() for name, read in self._reads.items()} | self._seen
            self._line, self._before = None, sys.gettrace()
            sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        if self._reads:
            sys.settrace(self._before)
            self._look()

    def places(self) -> dict[str, str]:
        """The lines that set the present values, by name, as "set at rules.py:8"; without what has changed otherwise since."""
        return {name: place for name, place in self._places.items() if not self._is_set(name, self._reads[name]())}

    def _is_set(self, name: str, now: Any) -> bool:
        """Return True for another value than the one that was seen last."""
        before = self._seen[name]
        return is_set_between(name, before, now) if name in self._settings else bool(now != before)

    def _on_call(self, frame: FrameType, *_: object) -> Any:
        if not _is_users(frame.f_code.co_filename):
            return None
        self._look()
        self._line = frame.f_code.co_filename, frame.f_lineno
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "exception":
            return self._on_event
        self._look()
        # After a return, the rest of the line of the caller runs.
        at: FrameType | None = frame.f_back if event == "return" else frame
        while at is not None and not _is_users(at.f_code.co_filename):
            at = at.f_back
        self._line = (at.f_code.co_filename, at.f_lineno) if at is not None else None
        return self._on_event

    def _look(self) -> None:
        self._left -= 1
        if self._left < 0:
            self._reads, self._places = {}, {}
            sys.settrace(None)
            return
        for name, read in self._reads.items():
            now = read()
            is_set, self._seen[name] = self._is_set(name, now), now
            if is_set:
                self._places.pop(name, None)
            if is_set and self._line is not None:
                self._places[name] = f"set at {Path(self._line[0]).name}:{self._line[1]}"
