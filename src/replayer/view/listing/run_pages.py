"""The pages of a folder: the list of its runs, and below it the page of each run that was opened from it.

    /                the list
    /run/NAME/…      the page of one run, as ViewServer serves it; its processes start with the first request

Invariants:
    1. NAME is looked up in the list of the folder, see ListedRuns.
    2. At most OPEN_MAX runs have processes. A further one takes the place of the one that no page shows for longest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from recorder.location.tape_location import Location
from replayer.view.access_guard import AccessGuard
from replayer.view.listing.listed_runs import UNDER_WAY, ListedRuns
from replayer.view.page_files import PAGE_FILES
from replayer.view.server import TRY_AGAIN_LATER, ViewServer

OPEN_MAX = 4  # Each has two processes and a cache.
SKETCHES_ASKED_MAX = 40  # In one request.
TEXT_MAX = 300
_RUN = "/run/"


class RunPages:
    """The list of a folder, and its runs."""

    def __init__(self, folder: Location, make: Callable[[Location], ViewServer], command: str) -> None:
        """make: the page of a tape, not started yet. command: shows the same, for the page to tell."""
        self._listed, self._make, self._command = ListedRuns(folder), make, command
        self._opened: OrderedDict[str, tuple[ViewServer, ASGIApp]] = OrderedDict()  # The one used last comes last.
        self._opening = asyncio.Lock()
        self._checked: dict[str, str] = {}  # Statuses of runs that were read completely: the index hides some damage.

    def app(self, host: str, port: int, token: str, *, is_framed: bool = False) -> ASGIApp:
        """The ASGI application, with its guard. is_framed: see AccessGuard."""
        routes = [
            *PAGE_FILES.routes,
            Route("/", self._page),
            Route("/api/runs", self._runs),
            Route("/api/sketches", self._sketches),
        ]
        listing = Starlette(routes=routes, lifespan=self._lifespan)

        async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] in ("http", "websocket") and scope["path"].startswith(_RUN):
                await self._serve_run(scope, receive, send)
            else:
                await listing(scope, receive, send)

        return AccessGuard(chosen, host, port, token, is_framed=is_framed)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for server, _inner in self._opened.values():
                server.stop()

    async def _page(self, _: Request) -> Response:
        return PAGE_FILES.response("runs.html")

    async def _runs(self, _: Request) -> Response:
        facts = await self._listed.facts()
        for key, (server, _inner) in self._opened.items():
            if (status := server.checked_status) is not None:
                self._checked[key] = status
        rows = [
            row
            if (status := self._checked.get(row["key"])) is None or row["status"] == UNDER_WAY
            else {**row, "status": status}
            for row in facts["runs"]
        ]
        return JSONResponse({**facts, "runs": rows, "command": self._command})

    async def _sketches(self, request: Request) -> Response:
        keys = request.query_params.getlist("run")[:SKETCHES_ASKED_MAX]
        figure = request.query_params.get("figure", "")[:TEXT_MAX] or None
        found = await asyncio.gather(*(self._listed.sketch(key, figure) for key in keys))
        return JSONResponse(dict(zip(keys, found, strict=True)))

    # --- one run

    async def _serve_run(self, scope: Scope, receive: Receive, send: Send) -> None:
        key, slash, rest = scope["path"].removeprefix(_RUN).partition("/")
        if not slash and scope["type"] == "http":  # The addresses of the page begin where its own ends.
            await RedirectResponse(f"{quote(key)}/", 307)(scope, receive, send)
            return
        app, why = await self._app_of(key)
        if app is not None:
            await app({**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": why[:100]})
        else:
            await PlainTextResponse(f"{why}\n", 404)(scope, receive, send)

    async def _app_of(self, key: str) -> tuple[ASGIApp | None, str]:
        """The page of a run, opened if need be; None, and the reason, if it cannot be."""
        async with self._opening:
            if key not in self._opened:
                tape = await self._listed.tape_of(key)
                if tape is None:
                    return None, "the folder has no such run"
                if not self._has_room():
                    return (
                        None,
                        f"{OPEN_MAX} runs are shown by other pages: close one of them, then load this page again",
                    )
                server = self._make(tape)
                server.start()
                self._opened[key] = server, Starlette(routes=server.routes)
            self._opened.move_to_end(key)
            return self._opened[key][1], ""

    def _has_room(self) -> bool:
        """Close the run that no page shows for longest, if there are too many; False if pages show all of them."""
        if len(self._opened) < OPEN_MAX:
            return True
        idle = next((key for key, (server, _) in self._opened.items() if not server.page_count), None)
        if idle is None:
            return False
        self._opened.pop(idle)[0].stop()
        return True

    @property
    def open_runs(self) -> list[str]:
        """The runs that have processes, the one used last at the end."""
        return list(self._opened)
