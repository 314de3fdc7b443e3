"""The server of the page: one WebSocket for frames, GETs for the rest, a fixed list of files.

A request names ticks, layers, fields and kinds of marks, each of which is looked up in what the tapes have. No path
comes from a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from recorder.location.tape_location import tape_location
from replayer.view.access_guard import AccessGuard
from replayer.view.beside_pages import BesidePages
from replayer.view.curve_files import curves_as_csv
from replayer.view.difference_frames import DifferenceFrames
from replayer.view.finding_folder import ViewedFinding
from replayer.view.mark_index import BINS_MAX, TROUBLES_MAX, curve_points
from replayer.view.page_files import PAGE_FILES
from replayer.view.page_session import CURVES_MAX, TICK_MAX, PageSession
from replayer.view.states.frame_encoding import EncodedTick
from replayer.view.viewed_tape import Head, StateStream, ViewedTape

PAGES_MAX = 16  # Connected at once.
TRY_AGAIN_LATER = 1013  # The close code of one too many.
NOT_STREAMED = "the tape is not being recorded, or too many programs get its states"
MESSAGE_BYTES_MAX = 1 << 16  # Of a page.
TEXT_MAX = 200  # Of one parameter.


class ViewServer:
    """The pages that look at one tape, or at two."""

    def __init__(
        self,
        tapes: Sequence[ViewedTape],
        finding: ViewedFinding | None = None,
        arguments: Sequence[str] = (),
        folder: str | None = None,
        beside: BesidePages | None = None,
    ) -> None:
        """finding: what the two sides of one tape are shown for. arguments: of the command, to repeat it.

        folder: the name of the folder, or of the page, that leads to this page; None if nothing does. beside: shows branches
        beside their parents; None if no branch may be recorded from this page.
        """
        self._tapes, self._finding, self._folder, self._beside = tapes, finding, folder, beside
        self._command = shlex.join(arguments)
        self._pages: dict[str, PageSession] = {}
        self._gone: deque[str] = deque(maxlen=4 * PAGES_MAX)  # Names of the last pages that went.
        self._differences = DifferenceFrames()

    def app(self, host: str, port: int, token: str, *, is_framed: bool = False) -> ASGIApp:
        """The ASGI application, with its guard. is_framed: see AccessGuard."""
        inner = Starlette(routes=[*PAGE_FILES.routes, *self.routes], lifespan=self._lifespan)
        return AccessGuard(inner, host, port, token, is_framed=is_framed)

    @property
    def routes(self) -> list[BaseRoute]:
        """All addresses but those of the page's own files."""
        return [
            Route("/", self._page),
            Route("/api/info", self._info),
            Route("/api/tracks", self._tracks),
            Route("/api/jump", self._jump),
            Route("/api/curve", self._curve),
            Route("/curves.csv", self._curves_csv),
            Route("/api/detail", self._detail),
            WebSocketRoute("/frames", self._frames),
            WebSocketRoute("/stream", self._stream),
            *([self._beside.route] if self._beside is not None else []),
        ]

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        try:
            self.start()
            yield
        finally:
            self.stop()

    def start(self) -> None:
        """Start the processes of the tapes; call it in the event loop."""
        for tape in self._tapes:
            tape.start(self)

    def stop(self) -> None:
        """End them, and wait for them."""
        for page in self._pages.values():
            page.close()
        for tape in self._tapes:
            tape.stop()
        if self._beside is not None:
            self._beside.stop()

    @property
    def page_count(self) -> int:
        """The number of pages that are connected."""
        return len(self._pages)

    @property
    def checked_status(self) -> str | None:
        """The status of the first tape, once all of it has been read."""
        status: str | None = self._tapes[0].marks.checked.get("status")
        return status

    # --- what the tapes say, for the pages

    def reached(self, side: int, tick: int) -> None:
        """See Audience."""
        for page in self._pages.values():
            page.reached(side, tick)

    def head(self, side: int, head: Head) -> None:
        """See Audience."""
        for page in self._pages.values():
            page.head(side, head)

    def preview(self, side: int, page: str, tick: int, encoded: EncodedTick) -> None:
        """See Audience."""
        if page in self._pages:
            self._pages[page].preview(side, tick, encoded)

    def announce(self, message: dict[str, Any], page: str | None = None) -> None:
        """See Audience."""
        for one in self._pages.values():
            if page is None or page == one.name:
                one.announce(message)

    # --- requests

    async def _page(self, _: Request) -> Response:
        return PAGE_FILES.response("page.html")

    async def _opened(self) -> bool:
        """Wait for the tapes; False if one is refused."""
        for tape in self._tapes:
            await tape.opened()
        first = self._tapes[0].facts
        if first is not None:
            self._differences.numbers = {name: number for number, name in enumerate(first["layers"])}
        return all(tape.facts is not None for tape in self._tapes)

    async def _info(self, _: Request) -> Response:
        await self._opened()
        facts = [
            {
                **(tape.facts or {"name": tape.path.name, "refused": tape.refused}),
                "render": tape.render_command,
                "branch": tape.branch_command,
            }
            for tape in self._tapes
        ]
        finding = attrs.asdict(self._finding) if self._finding is not None else None
        told = {"tapes": facts, "finding": finding, "command": self._command, "folder": self._folder}
        return JSONResponse({**told, "beside": self._beside_parent(), "writes": self._beside is not None})

    def _beside_parent(self) -> str | None:
        """Where the one tape is shown beside its parent; None if it is no branch, or its parent is not there."""
        tape = self._tapes[0]
        parent = (tape.facts or {}).get("parent")
        if parent is None or parent["path"] is None or self._beside is None or len(self._tapes) > 1:
            return None
        return self._beside.add(tape_location(parent["path"]), tape.path)

    async def _tracks(self, request: Request) -> Response:
        tape = self._tape(request)
        first, last = _number(request, "first"), _number(request, "last")
        if not first <= last:
            return _refused("expected first <= last")
        found = tape.marks.tracks(first, last, min(BINS_MAX, _number(request, "bins", 1)))
        return JSONResponse({**found, "troubles": self._findings(tape)[:TROUBLES_MAX]})

    def _findings(self, tape: ViewedTape) -> list[tuple[int, str]]:
        """Tick and text of all that was found: the named finding, dumps, violated properties, ticks that failed here."""
        named = [] if self._finding is None else [(self._finding.tick, self._finding.title)]
        return sorted({*named, *tape.marks.findings, *tape.troubles.items()})

    async def _jump(self, request: Request) -> Response:
        query, tape = request.query_params, self._tape(request)
        kind, name = query.get("kind", ""), query.get("name")
        here, is_back = _number(request, "tick"), query.get("back") == "1"
        if kind == "finding":
            ticks = [found for found, _ in self._findings(tape)]
            behind = [tick for tick in ticks if (tick < here if is_back else tick > here)]
            return JSONResponse({"tick": (max if is_back else min)(behind, default=None)})
        tick = tape.marks.jump(kind, name, here, back=is_back)
        return JSONResponse({"tick": tick})

    async def _curve(self, request: Request) -> Response:
        tape, name = self._tape(request), request.query_params.get("name", "")
        points = curve_points(
            *tape.values(name), _number(request, "first"), _number(request, "last"), _number(request, "bins", 1)
        )
        return JSONResponse({"points": points})

    async def _curves_csv(self, request: Request) -> Response:
        """All known values of some curves between two ticks, a line a tick."""
        names = request.query_params.getlist("name")[:CURVES_MAX]
        first, last = _number(request, "first"), _number(request, "last")
        columns = [(_side_of(tape, self._tapes), name, tape.values(name)) for tape in self._tapes for name in names]
        content = curves_as_csv(columns, first, last)
        headers = {"content-disposition": 'attachment; filename="curves.csv"'}
        return Response(content, media_type="text/csv; charset=utf-8", headers=headers)

    async def _detail(self, request: Request) -> Response:
        tape = self._tape(request)
        page = request.query_params.get("page", "")
        if page in self._gone:  # It has asked before it went, or has not noticed yet that its connection is lost.
            return JSONResponse({"gone": True})
        if not await self._opened() or page not in self._pages:
            return _refused("expected the name of a connected page")
        facts = await tape.describe(page, tape.clamp(_number(request, "tick")), _detail_query(request.query_params))
        return JSONResponse(facts if facts is not None else {"superseded": True})

    def _tape(self, request: Request) -> ViewedTape:
        side = request.query_params.get("side")
        return self._tapes[-1 if side == "1" else 0]

    async def _frames(self, socket: WebSocket) -> None:
        if len(self._pages) >= PAGES_MAX or not await self._opened():
            await socket.close(TRY_AGAIN_LATER)
            return
        await socket.accept()
        page = PageSession(self._tapes, self._differences, self._beside)
        self._pages[page.name] = page
        page.announce({"kind": "hello", "page": page.name})
        for tape in self._tapes:
            tape.tell_filled()
        sending = asyncio.create_task(_send_all(page, socket))
        try:
            # A page that sends bytes is not ours, and goes like one that has closed.
            while (text := (await socket.receive()).get("text")) is not None:
                page.take(text[:MESSAGE_BYTES_MAX])
        finally:
            del self._pages[page.name]
            self._gone.append(page.name)
            page.close()
            sending.cancel()

    async def _stream(self, socket: WebSocket) -> None:
        """The states of a recording for another program, see live/state_stream.py."""
        await socket.accept()  # A program waits for that for some seconds only, and a tape may take longer to open.
        await self._opened()
        stream = self._tapes[0].open_stream()
        if stream is None:
            await socket.close(TRY_AGAIN_LATER, NOT_STREAMED)
            return
        sending = asyncio.create_task(_send_stream(stream, socket))
        try:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass  # Nothing is asked.
        finally:
            self._tapes[0].close_stream(stream)
            sending.cancel()


async def _send_stream(stream: StateStream, socket: WebSocket) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # The program has gone.
        while (message := await stream.next_message()) is not None:
            await socket.send_bytes(message)
        await socket.close()


def _side_of(tape: ViewedTape, tapes: Sequence[ViewedTape]) -> str:
    """What stands in front of a curve's name if there are two tapes."""
    return f"{'AB'[tape.side]} " if len(tapes) > 1 else ""


async def _send_all(page: PageSession, socket: WebSocket) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # The page has gone.
        while True:
            message = await page.next_message()
            await (socket.send_bytes(message) if isinstance(message, bytes) else socket.send_text(message))


def _number(request: Request, name: str, least: int = 0) -> int:
    """An integer of a request; the least that is allowed if it is not one."""
    text = request.query_params.get(name, "")
    if len(text) > 20 or not text.isascii() or not text.isdigit():
        return least
    return max(least, min(TICK_MAX, int(text)))


def _detail_query(parameters: Mapping[str, str]) -> dict[str, Any]:
    query: dict[str, Any] = {
        name: parameters[name][:TEXT_MAX] for name in ("part", "table", "sort", "filter", "layer") if name in parameters
    }
    query["descending"] = parameters.get("descending") == "1"
    for name in ("offset", "x", "y"):
        text = parameters.get(name, "")
        query[name] = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return query


def _refused(why: str) -> Response:
    return PlainTextResponse(f"{why}\n", 400)
