"""A web server on loopback that serves ranges of bytes from memory, and fails on demand."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebStore:
    """The files of the server by path, what was asked for, and how it fails.

    Attributes:
        files: by path, such as ``/runs/run.tape``.
        asked: the path and the range of each request.
        statuses: one for each of the next requests, in place of an answer.
        cut_off: the number of next answers that end after half of their bytes.
        slow_s: the time before each answer.
        has_ranges: False serves whole files alone.
        signature: a query that each request must have; None for no such query.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.clear()

    def clear(self) -> None:
        """Empty the store, and make it work."""
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.statuses: list[int] = []
        self.cut_off = 0
        self.slow_s = 0.0
        self.has_ranges = True
        self.signature: str | None = None


@contextmanager
def serving() -> Iterator[WebStore]:
    """Serve until the end of the context."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            asked_range = self.headers.get("Range")
            store.asked.append((path, asked_range))
            threading.Event().wait(store.slow_s)  # Of a slow store.
            if store.statuses:
                self._answer(store.statuses.pop(0), b"busy", {})
            elif store.signature is not None and query != store.signature:
                self._answer(403, b"signed wrongly", {})
            elif (data := store.files.get(path)) is None:
                self._answer(404, b"nothing here", {})
            else:
                self._send(data, asked_range)

        def _send(self, data: bytes, asked_range: str | None) -> None:
            headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
            match = re.fullmatch(r"bytes=(\d+)-(\d+)", asked_range or "")
            if match is None or not store.has_ranges:
                self._answer(200, data, headers)
                return
            start, end = int(match[1]), min(int(match[2]) + 1, len(data))
            if start >= len(data):
                self._answer(416, b"", headers)
                return
            self._answer(206, data[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"})

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if store.cut_off and status in (200, 206):
                store.cut_off -= 1
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
                return
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store = WebStore(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
