"""Receive an event for each line that runs: by sys.monitoring from Python 3.12 on, by sys.settrace before.

Only the user's code gives events: not Python's own, not installed packages, not this library, unless the simulation
itself comes from there.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

import recorder
import sim.adapters
import sim.kernel
from sim.kernel.simulation import Simulation, subject_of

_TOOLS = (3, 4, 2, 5, 1, 0)  # sys.monitoring has six tool ids; 3 and 4 are not reserved.


class Listener(Protocol):
    """A receiver of lines and returns."""

    def line(self, frame: FrameType) -> None:
        """The line that frame stands at is about to run."""

    def returned(self, frame: FrameType, value: Any) -> None:
        """The function of frame is left: it returned value, yielded it, or raised."""


class OwnCode:
    """Separates the user's files from others."""

    def __init__(self, simulation: Simulation) -> None:
        paths = sysconfig.get_paths()
        others = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        replayer = Path(__file__).parents[2]  # Not imported: the package's names lead to every layer above this one.
        library = (Path(package.__file__ or "").parent for package in (recorder, sim.kernel, sim.adapters))
        self._others = tuple(f"{folder}/" for folder in [*others, *library, replayer])
        self._own = _root_of(type(subject_of(simulation)).__module__)
        self._decided: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        """Return True if the file is the user's."""
        decided = self._decided.get(path)
        if decided is None:
            decided = self._decided[path] = self._decide(path)
        return decided

    def _decide(self, path: str) -> bool:
        if not path or path.startswith("<"):
            return False
        if self._own and (path == self._own or path.startswith(f"{self._own}/")):
            return True
        return not path.startswith(self._others) and "/site-packages/" not in path


def _root_of(module_name: str) -> str:
    """The folder of the outermost package that a class comes from, or its file; for a shipped world, that world's."""
    parts = module_name.split(".")
    outermost = ".".join(parts[:3]) if parts[:2] == ["sim", "worlds"] else parts[0]
    path = getattr(sys.modules.get(outermost), "__file__", None) or ""
    is_pythons = path.startswith(f"{sysconfig.get_paths()['stdlib']}/") and "/site-packages/" not in path
    if not path or is_pythons or outermost in {"recorder", "replayer", "sim"}:
        return ""
    return str(Path(path).parent) if Path(path).name == "__init__.py" else path


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
        finally:
            sys.settrace(before)
