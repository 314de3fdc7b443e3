"""Listen at an address and serve the page there, until an interrupt."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import shlex
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from recorder.location.tape_location import Location
from recorder.storage.open_tape import is_locked
from replayer.view.access_guard import is_loopback
from replayer.view.beside_pages import BesidePages
from replayer.view.finding_folder import ViewedFinding
from replayer.view.listing.listed_runs import folder_name
from replayer.view.listing.run_pages import RunPages
from replayer.view.live.live_tape import LiveTape
from replayer.view.server import MESSAGE_BYTES_MAX, ViewServer
from replayer.view.viewed_tape import ViewedTape
from replayer.view.worker.finding_cursors import Role

GRACE_S = 1  # Open connections get this long when the server ends.
TOKEN_BYTES = 24


@attrs.frozen
class ViewRequest:
    """What is to be served, and where.

    Attributes:
        tapes: one or two.
        sim: module:factory of their simulation; None for registered worlds and adapters.
        host, port: the address; port 0 takes a free one.
        token: what the browser must have; None makes a random one.
        cache_bytes: of filled ticks, for each tape; 0 fills nothing.
        finding: a desync of the one tape: it is shown as recorded and as replayed, side by side.
        arguments: of the command that shows the same, for the page to tell.
        shown: what stands after # in the page's address: the tick and the view; empty for the beginning.
        folder: whose runs are listed, in place of tapes; each is opened from the list.
        is_live: the one tape is being recorded; the page follows its head.
        delay_ticks: of a tape that is being recorded, so many last ticks are not shown until the recording ends.
        is_framed: pages of other sites, such as a notebook, may show the page in a frame; see AccessGuard.
    """

    tapes: Sequence[Location]
    sim: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    cache_bytes: int = 0
    finding: ViewedFinding | None = None
    arguments: Sequence[str] = ()
    shown: str = ""
    folder: Location | None = None
    is_live: bool = False
    delay_ticks: int = 0
    is_framed: bool = False


def serve_view(request: ViewRequest, on_ready: Callable[[str], None]) -> None:
    """Serve until an interrupt, which is raised as KeyboardInterrupt.

    on_ready: called with the URL once the port is open and requests are answered.

    Raises OSError if the address cannot be used.
    """
    token = request.token if request.token is not None else secrets.token_urlsafe(TOKEN_BYTES)
    family = socket.AF_INET6 if ":" in request.host else socket.AF_INET
    with _listener(request, family) as listener:
        port = listener.getsockname()[1]
        app = pages_of(request).app(request.host, port, token, is_framed=request.is_framed)
        shown_host = f"[{request.host}]" if ":" in request.host else request.host
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="on",
            ws=WebSocketsSansIOProtocol,
            ws_max_size=MESSAGE_BYTES_MAX,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
        )
        fragment = f"#{request.shown}" if request.shown else ""
        entry = f"{token}/" if request.is_framed else f"?token={token}"
        logging.getLogger("uvicorn.error").addFilter(_is_no_farewell)
        server = _ReadyServer(config, lambda: on_ready(f"http://{shown_host}:{port}/{entry}{fragment}"))
        server.run(sockets=[listener])


def _listener(request: ViewRequest, family: socket.AddressFamily) -> socket.socket:
    """The open port. Raises OSError, which names address and port."""
    try:
        return socket.create_server((request.host, request.port), family=family)
    except OSError as error:
        if error.errno is None:
            raise
        why = os.strerror(error.errno) if error.errno > 0 else error.strerror  # Those of names are not the system's.
        free = "; --port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
        raise OSError(error.errno, f"{why}{free}", f"port {request.port} of {request.host}") from None


def pages_of(request: ViewRequest) -> ViewServer | RunPages:
    """The page of the tapes, or the pages of a folder; nothing is started yet."""
    folder = request.folder
    if folder is None:
        return ViewServer(viewed_tapes(request), request.finding, request.arguments, beside=_beside(request))

    def page_of(tape: Location) -> ViewServer:
        one = attrs.evolve(request, tapes=[tape], folder=None, is_live=_is_recorded(tape))
        arguments = [str(tape) if argument == str(folder) else argument for argument in request.arguments]
        name = folder_name(folder)
        return ViewServer(viewed_tapes(one), arguments=arguments, folder=name, beside=_beside(one))

    return RunPages(folder, page_of, shlex.join(request.arguments))


def _beside(request: ViewRequest) -> BesidePages | None:
    """Shows the branches that a page records; None if it may record none.

    It writes files: only users of this machine may. And spectators that see a run later may not leave it at its head.
    """
    if request.finding is not None or request.delay_ticks or not is_loopback(request.host):
        return None

    def page_of(parent: Location, branch: Location) -> ViewServer:
        one = attrs.evolve(request, tapes=[parent, branch], folder=None, is_live=False)
        named = ["replay", "view", str(parent), str(branch)]
        arguments = [*named, *(["--sim", request.sim] if request.sim is not None else [])]
        return ViewServer(viewed_tapes(one), arguments=arguments, folder=parent.name, beside=_beside(one))

    return BesidePages(page_of)


def _is_recorded(tape: Location) -> bool:
    try:
        return is_locked(tape)
    except OSError:
        return False


def viewed_tapes(request: ViewRequest) -> list[ViewedTape]:
    """The sides of the page, not started yet."""
    if request.finding is not None:
        (path,) = request.tapes
        roles: tuple[Role, ...] = ("recorded", "replayed")
        return [ViewedTape(side, path, request.sim, None, request.cache_bytes, role) for side, role in enumerate(roles)]
    if request.is_live:
        (path,) = request.tapes
        assert isinstance(path, Path), "only a file of this machine grows"
        return [LiveTape(path, request.sim, request.cache_bytes, request.delay_ticks)]
    others = [*request.tapes[1:], None]
    two = len(request.tapes) > 1  # Then a branch shows what its parent has before it begins, too.
    return [
        ViewedTape(side, path, request.sim, other if side == 0 else None, request.cache_bytes, with_parents=two)
        for side, (path, other) in enumerate(zip(request.tapes, others, strict=True))
    ]


def _is_no_farewell(record: logging.LogRecord) -> bool:
    """False for the line that pages were still connected when Ctrl-C was pressed, and for the requests that it cancelled.

    None of them is an error: a page that waits for its tape to be opened has a request under way.
    """
    raised = record.exc_info[1] if record.exc_info else None
    return "graceful shutdown" not in str(record.msg) and not isinstance(raised, asyncio.CancelledError)


class _ReadyServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()
