"""Serve the page from a process that a notebook starts, and show it in a cell.

The server is a process of its own: cells that compute do not hold it up. It is spawned, so it knows the simulation by its
name only: one that was defined in a cell cannot be found there.
"""

from __future__ import annotations

import atexit
import contextlib
import html
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from recorder.location.tape_location import Location
from recorder.processes.worker_pipes import starting
from replayer.playback.make_simulation import Factory
from replayer.view.listening import ViewRequest, serve_view
from replayer.view.shown_address import shown_address
from sim.closed_on_exit import ClosedOnExit

READY_S = 60.0  # The longest wait for the server.
STOP_S, END_S = 4.0, 8.0  # The server gets this long to stop of itself, and to be gone.


class NotebookPage(ClosedOnExit):
    """The page of `replay view` in a cell; a context manager.

    It is served until close() or the end of this process. With the address, each program of this machine can reach it.

    Attributes:
        url: its address, which any browser of this machine can open.
    """

    def __init__(self, request: ViewRequest, height_px: int) -> None:
        """Start the server. Raises RuntimeError if it ends, or does not answer."""
        self._title = " | ".join(path.name for path in request.tapes)
        self._height_px = height_px
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, request), name="replay view")
        with starting():
            self._process.start()
        theirs.close()
        atexit.register(self.close)  # Before multiprocessing waits for it.
        self.url = self._first_message()

    def _first_message(self) -> str:
        with contextlib.suppress(EOFError):
            if self._pipe.poll(READY_S):
                return str(self._pipe.recv())
        self.close()
        raise RuntimeError("the server of the page has ended, or did not answer; what it printed tells why")

    def close(self) -> None:
        """End the server. To close twice does nothing."""
        atexit.unregister(self.close)
        self._pipe.close()  # Which ends it, see _end_with.
        self._process.join(END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _repr_html_(self) -> str:
        url, title = html.escape(self.url), html.escape(f"replay view: {self._title}")
        frame = (
            f'<iframe src="{url}" title="{title}" width="100%" height="{self._height_px}" style="border: 0"></iframe>'
        )
        return f'{frame}<p><a href="{url}" target="_blank" rel="noopener">{title} in a tab of its own</a></p>'

    def __repr__(self) -> str:
        return f"NotebookPage({self._title}, {self.url})"


def open_page(
    tape: Location,
    factory: Factory | None,
    other: Location | None,
    sim: str | None,
    *,
    height_px: int,
    cache_mb: int,
    show: str,
) -> NotebookPage:
    """Serve a tape, or two; see Timeline.view. Raises ValueError if the factory has no name that a process can import."""
    named = sim if sim is not None or factory is None else factory_name(factory)
    paths = [tape.absolute(), *([other.absolute()] if other is not None else [])]
    arguments = ["replay", "view", *map(str, paths), *(["--sim", named] if named is not None else [])]
    cache_bytes, shown = cache_mb * 1_000_000, shown_address(show)
    request = ViewRequest(paths, named, cache_bytes=cache_bytes, arguments=arguments, shown=shown, is_framed=True)
    return NotebookPage(request, height_px)


def factory_name(factory: Callable[..., object]) -> str:
    """module:name of a factory. Raises ValueError if another process would not find it under that name."""
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)
    found: object = sys.modules.get(str(module)) if module != "__main__" else None
    for part in str(name).split("."):
        found = getattr(found, part, None)
    if found is not factory:
        raise ValueError(
            f"the page runs in a process of its own, which cannot import {factory!r}: put it into a module, or name one "
            f'with sim="module:factory"'
        )
    return f"{module}:{name}"


def _serve(pipe: Connection, request: ViewRequest) -> None:
    """In the process: serve until the notebook has closed its end of the pipe, or has ended."""
    os.setsid()  # To interrupt a cell is not to end the page.
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    serve_view(request, pipe.send)


def _end_with(pipe: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        pipe.recv()
    os.kill(os.getpid(), signal.SIGTERM)  # The server then ends the processes of the tapes.
    threading.Event().wait(STOP_S)
    os._exit(0)  # They end with this one.
