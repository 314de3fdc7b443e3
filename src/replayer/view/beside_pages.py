"""Branches beside their parents: pages of two tapes below the page of one of them.

    …/beside/KEY/    the page of a parent and a branch, as ViewServer serves it; its processes start with the first request

Invariants:
    1. KEY is looked up among the pairs that were added: a branch that the page recorded, or the parent that its tape names.
    2. At most OPEN_MAX pairs have processes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from recorder.location.tape_location import Location

OPEN_MAX = 3  # Each has four processes and two caches.
TRY_AGAIN_LATER = 1013


class PairPage(Protocol):
    """A page, as ViewServer is one."""

    @property
    def routes(self) -> list[BaseRoute]:
        """Its addresses."""

    @property
    def page_count(self) -> int:
        """The number of browsers that show it."""

    def start(self) -> None:
        """Start its processes."""

    def stop(self) -> None:
        """End them."""


class BesidePages:
    """The pairs that one page leads to."""

    def __init__(self, make: Callable[[Location, Location], PairPage]) -> None:
        """make: the page of a parent and a branch, not started yet."""
        self._make = make
        self._pairs: dict[str, tuple[Location, Location]] = {}
        self._opened: OrderedDict[str, tuple[PairPage, ASGIApp]] = OrderedDict()  # The one used last comes last.

    @property
    def route(self) -> Mount:
        """The addresses of all of them."""
        return Mount("/beside/{key}", app=self._serve)

    def add(self, parent: Location, branch: Location) -> str:
        """Note a pair; returns where its page is, relative to the page that leads to it."""
        pair = parent, branch
        key = next((known for known, one in self._pairs.items() if one == pair), str(len(self._pairs) + 1))
        self._pairs[key] = pair
        return f"beside/{key}/"

    def stop(self) -> None:
        """End all processes."""
        for server, _app in self._opened.values():
            server.stop()
        self._opened.clear()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app_of(str(scope["path_params"]["key"]))
        if app is not None:
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": "no such page"})
        else:
            await PlainTextResponse("no such page, or too many of its kind are open\n", 404)(scope, receive, send)

    def _app_of(self, key: str) -> ASGIApp | None:
        """The page of a pair, opened if need be; None without such a pair, and if there is no room for it."""
        if key in self._opened:
            self._opened.move_to_end(key)
            return self._opened[key][1]
        if key not in self._pairs or not self._has_room():
            return None
        server = self._make(*self._pairs[key])
        server.start()
        self._opened[key] = server, Starlette(routes=server.routes)
        return self._opened[key][1]

    def _has_room(self) -> bool:
        """Close the pair that no page shows for longest, if there are too many; False if pages show all of them."""
        if len(self._opened) < OPEN_MAX:
            return True
        idle = next((key for key, (server, _) in self._opened.items() if not server.page_count), None)
        if idle is None:
            return False
        self._opened.pop(idle)[0].stop()
        return True
