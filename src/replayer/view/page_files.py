"""The files of the pages: a fixed list, read once. No path comes from a request."""

from __future__ import annotations

import functools
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}


class PageFiles:
    """All files of the folder page."""

    @functools.cached_property
    def _contents(self) -> dict[str, bytes]:
        folder = files("replayer.view") / "page"
        return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.partition(".")[2] in _TYPES}

    @property
    def routes(self) -> list[BaseRoute]:
        """Their addresses."""
        return [Route("/f/{name}", self._file)]

    def response(self, name: str) -> Response:
        """The file of this name."""
        content = self._contents.get(name)
        if content is None:
            return PlainTextResponse("no such file\n", 404)
        return Response(content, media_type=_TYPES[name.partition(".")[2]])

    async def _file(self, request: Request) -> Response:
        return self.response(request.path_params["name"])


PAGE_FILES = PageFiles()
