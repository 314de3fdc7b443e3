"""Stand between a step and what the world outside tells it: clocks, entropy, environment variables.

While a live run steps, what it asks for is counted and kept. While a copy steps, clocks run a day ahead, so that a
step that depends on them parts from the live run for sure; or what the live run was told is told again.

Only the thread that steps is concerned; other threads, such as a progress bar's, get what they always get.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from replayer.diagnose.hidden_state.roots import Roots

AHEAD_S = 100_003.7  # How far ahead the clocks of copies are.

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


@attrs.define
class Asked:
    """What steps asked one source for.

    Attributes:
        name: such as time.time.
        kind: CLOCK or ENTROPY.
        place: file and line that asked first.
        answers: in their order.
    """

    name: str
    kind: str
    place: str
    answers: list[Any] = attrs.field(factory=list)


@attrs.define
class Answers:
    """What a stretch of steps asked for, by source; and which environment variables were read where."""

    asked: dict[str, Asked] = attrs.field(factory=dict)
    variables: dict[str, str] = attrs.field(factory=dict)


class OutsideSources:
    """The sources as one simulation's code reaches them."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    @contextmanager
    def counted(self, answers: Answers) -> Iterator[None]:
        """Keep in answers what is asked for."""

        def answer(name: str, kind: str, original: Callable[..., Any], given: tuple[Any, ...]) -> Any:
            value = original(*given)
            shown, place = _caller(name)
            asked = answers.asked.setdefault(shown, Asked(shown, kind, place))
            asked.answers.append((name, value))
            return value

        with self._patched(answer, answers.variables):
            yield

    @contextmanager
    def moved(self, answers: Answers, told_again: frozenset[str] = frozenset()) -> Iterator[None]:
        """Let clocks run ahead; the sources named in told_again give the same answers again, as long as they last."""
        rest = {name: list(asked.answers) for name, asked in answers.asked.items() if name in told_again}

        def answer(name: str, kind: str, original: Callable[..., Any], given: tuple[Any, ...]) -> Any:
            kept = rest.get(_caller(name)[0])
            if kept and kept[0][0] == name:
                return kept.pop(0)[1]
            value = original(*given)
            return _ahead(name, value) if kind == CLOCK else value

        with self._patched(answer, {}):
            yield

    @contextmanager
    def _patched(self, answer: Callable[..., Any], variables: dict[str, str]) -> Iterator[None]:
        thread = threading.get_ident()
        substitutes: dict[int, Any] = {}
        originals: list[Any] = []

        def stand_in(name: str, kind: str, original: Callable[..., Any]) -> None:
            def asked(*given: Any) -> Any:
                if threading.get_ident() != thread:
                    return original(*given)
                return answer(name, kind, original, given)

            substitutes[id(original)] = asked
            originals.append(original)

        for name in _CLOCKS:
            stand_in(f"time.{name}", CLOCK, getattr(time, name))
        stand_in("os.urandom", ENTROPY, os.urandom)
        stand_in("uuid.uuid1", ENTROPY, uuid.uuid1)
        for kind in (dt.datetime, dt.date):
            substitutes[id(kind)] = _dated(kind, answer, thread)
        environment = type(os.environ)
        get_item = environment.__getitem__

        def read(self: Any, key: Any) -> Any:
            if self is os.environ and threading.get_ident() == thread and isinstance(key, str):
                variables.setdefault(key, _caller("os.environ")[1])
            return get_item(self, key)

        places = self._put(substitutes)
        environment.__getitem__ = read  # type: ignore[method-assign]
        try:
            yield
        finally:
            environment.__getitem__ = get_item  # type: ignore[method-assign]
            for holder, name, original in places:
                holder[name] = original

    def _put(self, substitutes: Mapping[int, Any]) -> list[tuple[dict[str, Any], str, Any]]:
        """Replace what is in Python's own modules and the simulation's by its substitute; say what was where."""
        modules: list[ModuleType] = [time, os, random, uuid, dt, *self._roots.modules.values()]
        found = []
        for module in modules:
            names = vars(module)
            for name, value in list(names.items()):
                if id(value) in substitutes:
                    found.append((names, name, value))
                    names[name] = substitutes[id(value)]
        return found


def _ahead(name: str, value: Any) -> Any:
    if isinstance(value, dt.date):
        return value + dt.timedelta(seconds=AHEAD_S)
    return value + int(AHEAD_S * 1e9) if name.endswith("_ns") else value + AHEAD_S


def _dated(kind: type[Any], answer: Callable[..., Any], thread: int) -> type[Any]:
    """datetime or date with a now and today that are asked; whatever is made or tested is of the real class."""

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, kind)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, kind)

    def make(_: Any, *given: Any, **named: Any) -> Any:
        return kind(*given, **named)

    def asked(name: str) -> Any:
        original = getattr(kind, name)

        def ask(*given: Any, **named: Any) -> Any:
            if threading.get_ident() != thread or named:
                return original(*given, **named)
            return answer(f"{kind.__name__}.{name}", CLOCK, original, given)

        return staticmethod(ask)

    names = [name for name in ("now", "utcnow", "today") if hasattr(kind, name)]
    return Kind(kind.__name__, (kind,), {"__new__": make, **{name: asked(name) for name in names}})


_HERE = str(Path(__file__).parent)
_LIBRARY = str(Path(os.__file__).parent)


def _caller(name: str) -> tuple[str, str]:
    """Which of Python's own functions was called, seen from the first frame that is not Python's, and from where."""
    frame = sys._getframe(1)  # noqa: SLF001 - inspect.stack reads source files, which would take a thousand times longer
    shown, place = name, ""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_LIBRARY) and "site-packages" not in file:
            shown = f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}"
        elif not file.startswith((_HERE, "<frozen")):
            place = f"{Path(file).name}:{frame.f_lineno}"
            break
        frame = frame.f_back  # type: ignore[assignment]
    return shown, place
