"""Settings of the whole process that a step can change and read, in the form in which they can be put back."""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import builtins
import signal
import sys
import threading
import warnings
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

import numpy as np

from recorder.ambient.roots import is_users

_OF_PYTHON = {"copyright", "credits", "license", "exit", "quit", "help", "_", "NotImplemented", "Ellipsis"}
_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, type(None))


def added_builtins() -> dict[str, Any]:
    """The plain values that code has put into the module builtins."""
    return {
        name: value
        for name, value in vars(builtins).items()
        if isinstance(value, _PLAIN)
        and not name.startswith("__")
        and name not in _OF_PYTHON
        and name not in ("None", "True", "False")
    }


def put_builtins(values: dict[str, Any]) -> None:
    """Let the module builtins have these plain values of code, and no others."""
    for name in added_builtins().keys() - values.keys():
        delattr(builtins, name)
    for name, value in values.items():
        setattr(builtins, name, value)


def warning_filters() -> list[Any]:
    """The filters of warnings, in their order."""
    return list(warnings.filters)


def put_warning_filters(filters: list[Any]) -> None:
    """Put filters in place of those of the process."""
    if list(warnings.filters) != filters:
        warnings.resetwarnings()  # Nothing that was remembered of the others counts after that.
        warnings.filters[:] = filters  # type: ignore[index]


def signal_handlers() -> dict[int, Any]:
    """The handlers of signals that Python code has set."""
    handlers = {int(number): signal.getsignal(number) for number in signal.valid_signals()}
    return {number: one for number, one in handlers.items() if callable(one)}


def put_signal_handlers(handlers: dict[int, Any]) -> None:
    """Put handlers in place; signals without one do what they do by default. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    present = signal_handlers()
    for number in present.keys() - handlers.keys():
        signal.signal(number, signal.SIG_DFL)
    for number, one in handlers.items():
        if present.get(number) is not one:
            signal.signal(number, one)


def registered_classes(kind: ABCMeta) -> list[type]:
    """The classes that were registered with an abstract base class, by their names."""
    references, *_ = _abc._get_dump(kind)  # noqa: SLF001 - there is no other way to ask for them
    classes = [one for reference in references if (one := reference()) is not None]
    return sorted(classes, key=lambda one: one.__qualname__)


def put_registered(kind: ABCMeta, classes: list[type]) -> None:
    """Let an abstract base class have these registered classes, and no others."""
    if registered_classes(kind) != classes:
        _abc._reset_registry(kind)  # noqa: SLF001
        _abc._reset_caches(kind)  # noqa: SLF001
        for one in classes:
            kind.register(one)


def _as_it_is(value: Any) -> Any:
    return value


def raising_filters(filters: list[Any]) -> list[Any]:
    """Those that make an exception of a warning. The others decide what is printed, and libraries add some."""
    return [one for one in filters if one[0] == "error"]


def _shown_filters(filters: list[Any]) -> list[str]:
    return [f"{action} {kind.__name__}" for action, _, kind, _, _ in raising_filters(filters)]


def users_handlers(handlers: dict[int, Any]) -> dict[str, str]:
    """The names of those handlers that are functions of the user's, by the names of their signals."""
    named = {signal.Signals(number).name: one for number, one in handlers.items() if number in set(signal.Signals)}
    names = {
        name: f"{one.__module__}:{one.__qualname__}" for name, one in named.items() if hasattr(one, "__qualname__")
    }
    return {name: one for name, one in names.items() if is_users(one.partition(":")[0])}


# By name: how one is read, put back, and shown.
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "warnings.filters": (warning_filters, put_warning_filters, _shown_filters),
    "signal.getsignal()": (signal_handlers, put_signal_handlers, users_handlers),
    "builtins": (added_builtins, put_builtins, _as_it_is),
    "np.seterr()": (np.geterr, lambda values: np.seterr(**values), _as_it_is),
    "sys.getrecursionlimit()": (sys.getrecursionlimit, sys.setrecursionlimit, _as_it_is),
}
