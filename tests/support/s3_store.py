"""A real S3 server on loopback, by moto, that counts its requests and fails on demand."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

BUCKET = "runs"
_ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code} it is</Message></Error>'


class S3Store:
    """The server and how it fails.

    Attributes:
        endpoint: its address.
        asked: the method, the path and the range of each request.
        statuses: status and code of an error for each of the next requests, in place of an answer.
        cut_off: the number of next answers that end after half of their bytes.
        slow_s: the time before each answer.
        denied: a part of the paths that may not be read.
        lists: False permits no listing.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.work()

    def work(self) -> None:
        """Do not fail any more, and forget what was asked."""
        self.asked: list[tuple[str, str, str | None]] = []
        self.statuses: list[tuple[int, str]] = []
        self.cut_off = 0
        self.slow_s = 0.0
        self.denied = ""
        self.lists = True

    def reads(self) -> list[tuple[str, str | None]]:
        """Path and range of the objects that were read."""
        return [(path, asked) for method, path, asked in self.asked if method == "GET" and path.count("/") > 1]

    def error(self, path: str) -> tuple[int, str] | None:
        """Status and code of the next answer if it is to be an error."""
        if self.statuses:
            return self.statuses.pop(0)
        is_listing = path.count("/") == 1
        if (self.denied and self.denied in path) or (is_listing and not self.lists):
            return 403, "AccessDenied"
        return None


@contextmanager
def serving() -> Iterator[S3Store]:
    """Serve an empty bucket until the end of the context."""
    moto = importlib.import_module("moto.server")
    server_module = importlib.import_module("werkzeug.serving")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    inner = moto.DomainDispatcherApplication(moto.create_backend_app)

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        store.asked.append((environ["REQUEST_METHOD"], path, environ.get("HTTP_RANGE")))
        threading.Event().wait(store.slow_s)  # Of a slow store.
        error = store.error(path)
        if error is not None:
            body = _ERROR.format(code=error[1]).encode()
            start(f"{error[0]} {error[1]}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]
        answer = b"".join(inner(environ, start))
        if store.cut_off and environ["REQUEST_METHOD"] == "GET" and path.count("/") > 1:
            store.cut_off -= 1
            return _half(answer)
        return [answer]

    server = server_module.make_server("127.0.0.1", 0, application, threaded=True)
    store = S3Store(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()


def _half(answer: bytes) -> Iterator[bytes]:
    yield answer[: len(answer) // 2]
    raise ConnectionAbortedError("cut off on purpose")
