"""Receive an event for each line that runs: by sys.monitoring from Python 3.12 on, by sys.settrace before.

Only the user's code gives events: not Python's own, not installed packages, not this library, unless the simulation
itself comes from there (see recorder/ambient/outside/own_code.py).
"""

from __future__ import annotations

import dis
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Protocol

_TOOLS = (3, 4, 2, 5, 1, 0)  # sys.monitoring has six tool ids; 3 and 4 are not reserved.


class Listener(Protocol):
    """A receiver of lines and returns."""

    def line(self, frame: FrameType) -> None:
        """The line that frame stands at is about to run."""

    def returned(self, frame: FrameType, value: Any) -> None:
        """The function of frame is left: it returned value, yielded it, or raised."""

    def ended_early(self) -> None:
        """No further line is received: Python ends a trace whose function raises, as where recursion is too deep."""


def is_yield(frame: FrameType) -> bool:
    """Return True if a frame that is left will be entered again."""
    code = frame.f_code
    can_yield = code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    return bool(can_yield) and dis.opname[code.co_code[frame.f_lasti]] == "YIELD_VALUE"


if sys.version_info >= (3, 12):

    @contextmanager
    def listening(listener: Listener, is_own: Callable[[str], bool]) -> Iterator[None]:
        """Send the lines of this thread to the listener while the context is open."""
        monitoring = sys.monitoring
        thread = threading.get_ident()

        def on_line(code: CodeType, _: int) -> Any:
            if not is_own(code.co_filename):
                return monitoring.DISABLE
            if threading.get_ident() == thread and not code.co_name.startswith("<module"):
                listener.line(sys._getframe(1))  # noqa: SLF001 - the documented way to the frame of an event
            return None

        def on_return(code: CodeType, _: int, value: Any) -> Any:
            if not is_own(code.co_filename):
                return monitoring.DISABLE
            if threading.get_ident() == thread:
                listener.returned(sys._getframe(1), value)  # noqa: SLF001
            return None

        def on_unwind(code: CodeType, _: int, error: BaseException) -> None:
            if is_own(code.co_filename) and threading.get_ident() == thread:
                listener.returned(sys._getframe(1), error)  # noqa: SLF001

        events = monitoring.events
        callbacks: dict[int, Any] = {
            events.LINE: on_line,
            events.PY_RETURN: on_return,
            events.PY_YIELD: on_return,
            events.PY_UNWIND: on_unwind,
        }
        tool = next(number for number in _TOOLS if monitoring.get_tool(number) is None)
        monitoring.use_tool_id(tool, "replay explain")
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)
        monitoring.set_events(tool, sum(callbacks))
        try:
            yield
        finally:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)

else:

    @contextmanager
    def listening(listener: Listener, is_own: Callable[[str], bool]) -> Iterator[None]:
        """Send the lines of this thread to the listener while the context is open."""

        def on_call(frame: FrameType, event: str, _: Any) -> Any:  # noqa: ARG001 - the signature that Python requires
            if not is_own(frame.f_code.co_filename) or frame.f_code.co_name.startswith("<module"):
                return None
            return on_event

        def on_event(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                listener.line(frame)
            elif event == "return":
                listener.returned(frame, argument)
            return on_event

        before = sys.gettrace()
        sys.settrace(on_call)
        try:
            yield
            if sys.gettrace() is not on_call:
                listener.ended_early()
        finally:
            sys.settrace(before)
