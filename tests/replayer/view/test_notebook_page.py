"""`run.view()`: the page in a cell of a notebook, without one: its HTML, and the server behind it."""

from __future__ import annotations

import html
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from optional_packages import LazyModule, needs

import replayer

from project_paths import ROOT
from viewed_worlds import Pond, record_ponds

needs("starlette", "httpx2", "websockets", "uvicorn")
httpx2 = LazyModule("httpx2")
sync_client = LazyModule("websockets.sync.client")

WAIT_S = 30


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """As record_ponds makes them."""
    return record_ponds(tmp_path_factory.mktemp("cell"))


def get(url: str, **headers: str) -> Any:
    """One request, without cookies and without following."""
    return httpx2.get(url, headers=headers, timeout=WAIT_S, follow_redirects=False)


@pytest.mark.seldom(0.18)
def test_the_cell_is_a_frame_with_the_page(tapes: list[Path]) -> None:
    """Its address answers with the page, other sites may frame it, and the token alone opens it; close() ends it."""
    with replayer.open(tapes[0], Pond) as run, run.view(tapes[1], show="tick=12", height_px=321) as page:
        shown = page._repr_html_()
        (source,) = re.findall('<iframe src="([^"]*)"', shown)
        assert html.unescape(source) == page.url
        assert 'height="321"' in shown
        assert "one.tape | other.tape" in shown
        address = urlsplit(page.url)
        base, token = f"{address.scheme}://{address.netloc}", address.path.strip("/")
        assert (address.hostname, address.fragment) == ("127.0.0.1", "tick=12")

        answer = get(f"{base}/{token}/")
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
        assert "frame-ancestors http:" in answer.headers["content-security-policy"]
        assert "x-frame-options" not in answer.headers
        assert [tape["name"] for tape in get(f"{base}/{token}/api/info").json()["tapes"]] == ["one.tape", "other.tape"]
        assert get(f"{base}/f/main.js").status_code == 200
        for path in ("/", "/api/info", "/wrong/", "/wrong/api/info", f"/?token={token}", "/f/../api/info"):
            assert get(f"{base}{path}").status_code in {403, 404}
        assert get(f"{base}/{token}/api/info", host="evil.example").text == "refused: host\n"
        assert get(f"{base}/{token}/api/info", origin="http://evil.example").text == "refused: origin\n"
        frames = f"ws://{address.netloc}/{token}/frames"
        with sync_client.connect(frames, origin=base, open_timeout=WAIT_S) as socket:
            assert '"hello"' in socket.recv(WAIT_S)
        for wrong, origin in ((frames.replace(token, "wrong"), base), (frames, "http://evil.example")):
            with pytest.raises(Exception, match="403"):
                sync_client.connect(wrong, origin=origin, open_timeout=WAIT_S)
    with pytest.raises(httpx2.ConnectError):
        get(page.url)
    page.close()


@pytest.mark.seldom(0.15)
def test_a_simulation_of_a_cell_is_refused_with_what_to_do(tapes: list[Path]) -> None:
    """Another process could not import it."""

    class Mine(Pond):
        pass

    with replayer.open(tapes[0], Mine) as run:
        with pytest.raises(ValueError, match="put it into a module"):
            run.view()
        run.view(sim="viewed_worlds:Pond").close()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux can wait for a process that is not a child")
@pytest.mark.seldom(0.18)
def test_the_server_ends_with_a_kernel_that_is_killed(tapes: list[Path]) -> None:
    """It does not outlive the notebook."""
    program = (
        "import sys, replayer, viewed_worlds, multiprocessing\n"
        "page = replayer.open(sys.argv[1], viewed_worlds.Pond).view()\n"
        "print(multiprocessing.active_children()[0].pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests/support")])
    command = [sys.executable, "-c", program, str(tapes[0])]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, text=True, **streams) as kernel:  # type: ignore[call-overload]
        server = os.pidfd_open(int(kernel.stdout.readline()))
        try:
            assert select.select([server], [], [], 0)[0] == []
            kernel.send_signal(signal.SIGKILL)
            start_s = time.monotonic()
            assert select.select([server], [], [], WAIT_S)[0] == [server], time.monotonic() - start_s
        finally:
            os.close(server)
