"""Record every call of a method, however it is made: through the object, by its own methods, by a bound method.

The code of the function itself is replaced while one of its objects is recorded: a bound method that was taken before
holds this function, and so do the class and its subclasses. The function stays the same object, with its name and its
defaults. Calls for other objects, for copies of a recorded object, and calls inside a step go on to the original code.

Invariant: when no recording of the function is left, it has its own code again.
"""

from __future__ import annotations

import inspect
import os
import types
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from sim.adapters.interface.proxy import RecordedProxy
from sim.replaced_code import replace_code, restore_code


class CallRecording(Protocol):
    """The recording of one object."""

    subject: Any

    def takes_calls(self, name: str = "") -> bool:
        """Return True if a call of this method now is to be recorded: the recording is open, no step is under way."""

    def record(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call the method of this name, recorded, and return its result."""


_diversions: dict[int, _Diversion] = {}  # By id of the function.


def _stand_in(*arguments: Any, **keywords: Any) -> Any:
    target: Any = 0x7A9E  # Replaced by the diversion's call, in a copy of this code.
    return target(*arguments, **keywords)


class _Diversion:
    """A function whose calls are passed to the recordings of its objects."""

    def __init__(self, function: types.FunctionType) -> None:
        code = function.__code__
        self.function = function
        self.recordings: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # By id of the subject.
        self.names: dict[int, str] = {}  # Of the method, by the same ids: a function may have several names.
        self._pid = os.getpid()
        self.original = types.FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        template = _stand_in.__code__
        self._diverted = template.replace(
            co_consts=tuple(self._call if constant == 0x7A9E else constant for constant in template.co_consts),
            co_freevars=code.co_freevars,  # As many as the function's closure has.
            co_name=code.co_name,
            co_qualname=code.co_qualname,
        )
        self._had_signature = "__signature__" in vars(function)
        if not self._had_signature:
            function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        replace_code(function, self._diverted)

    def _call(self, *arguments: Any, **keywords: Any) -> Any:
        if arguments:
            if isinstance(arguments[0], RecordedProxy):  # Game.step(recorded)
                arguments = (arguments[0].subject, *arguments[1:])
            recording = self.recordings.get(id(arguments[0]))
            if (
                recording is not None
                and recording.subject is arguments[0]
                and os.getpid() == self._pid  # A forked child plays on alone: the tape is its parent's.
                and recording.takes_calls(self.names[id(arguments[0])])
            ):
                return recording.record(self.names[id(arguments[0])], arguments[1:], keywords)
        return self.original(*arguments, **keywords)

    def end(self) -> None:
        """Give the function its own code again, unless someone else has replaced it since."""
        _diversions.pop(id(self.function), None)
        if restore_code(self.function, self._diverted) and not self._had_signature:
            del self.function.__signature__  # type: ignore[attr-defined]


def function_of(subject: Any, name: str) -> types.FunctionType | None:
    """The Python function behind a method of an object; None if it is something else, such as a method of C."""
    own = vars(subject).get(name)
    if own is not None:
        is_bound = isinstance(own, types.MethodType) and own.__self__ is subject
        found: Any = own.__func__ if is_bound else None
    else:
        found = inspect.getattr_static(type(subject), name, None)
    return found if isinstance(found, types.FunctionType) else None


def only_parameters(function: types.FunctionType) -> types.FunctionType:
    """A function with the parameters of another one that does nothing: it raises TypeError for other arguments.

    Python itself compares the arguments, so that the error is the one of a direct call. Decorators do not hide the
    parameters, since ``inspect.signature`` is not asked.
    """
    code, template = function.__code__, (lambda: None).__code__
    variadic = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + variadic.bit_count()
    made = types.FunctionType(
        template.replace(
            co_argcount=code.co_argcount,
            co_posonlyargcount=code.co_posonlyargcount,
            co_kwonlyargcount=code.co_kwonlyargcount,
            co_nlocals=count,
            co_varnames=code.co_varnames[:count],
            co_flags=template.co_flags | variadic,
            co_name=code.co_name,
            co_qualname=code.co_qualname,
        ),
        {},
        function.__name__,
        function.__defaults__,
    )
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, code.co_qualname
    return made


def divert(
    function: types.FunctionType, name: str, recording: CallRecording
) -> tuple[types.FunctionType, Callable[[], object]]:
    """Pass the calls of function for the recording's subject to the recording.

    Return the original function, and what ends the diversion. It also ends when the recording is garbage-collected.
    """
    diversion = _diversions.get(id(function))
    if diversion is None:
        diversion = _diversions[id(function)] = _Diversion(function)
    key, itself = id(recording.subject), weakref.ref(recording)
    diversion.recordings[key] = recording
    diversion.names[key] = name

    def end() -> None:
        if diversion.recordings.get(key) is itself():  # A later object may have the same id.
            diversion.recordings.pop(key, None)
            diversion.names.pop(key, None)
        if not diversion.recordings:
            diversion.end()

    return diversion.original, weakref.finalize(recording, end)
