"""The command `replay view`: mistakes get one line, Ctrl-C ends it quietly."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from optional_packages import needs
from waiting import wait_until

import replayer.commands.main
from recorder.console.app import run_app
from replayer.view.shown_address import shown_address

from oracle.command_lines import assert_one_line
from project_paths import ROOT
from small_worlds import Walkers, record

PROGRAM = "from replayer.commands.main import main; main()"


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """A short tape."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), [None] * 5)
    return path


def view(*arguments: str) -> int:
    """The exit code of the command."""
    words = ["view", "--no-browser", *arguments]
    return run_app(replayer.commands.main.load(words), words)


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "websockets"])
def test_a_missing_package_names_the_command_that_installs_it(tape: Path, package: str) -> None:
    """All three packages of the extra, also if only one is missing."""
    program = f"import sys; sys.modules[{package!r}] = None\n{PROGRAM}"
    finished = subprocess.run(
        [sys.executable, "-c", program, "view", str(tape)], capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stdout) == (2, "")
    (line,) = finished.stderr.splitlines()
    assert f"replay view needs {package}: " in line
    assert all(name in line for name in ("starlette", "uvicorn", "websockets"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines in: choose a --token of at least 16 characters"),
        (["--host", "0.0.0.0", "--token", "short"], "--token: expected at least 16 characters, got 5"),
        (["--token", "x"], "--token: expected at least 16 characters, got 1"),
        (["--port", "70000"], "65535"),
        (["--sim", "nothing:Here"], "nothing"),
        (["missing.tape"], "missing.tape"),
    ],
)
def test_a_mistake_gets_one_line(
    capsys: pytest.CaptureFixture[str], tape: Path, arguments: list[str], said: str
) -> None:
    """Before anything is served."""
    needs("starlette", "uvicorn", "websockets")
    assert view(str(tape), *arguments) in {2, 5}
    assert_one_line(capsys.readouterr(), said)


def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture[str], tape: Path) -> None:
    """With what to do; an address that this machine does not have is named, too."""
    needs("starlette", "uvicorn", "websockets")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert view(str(tape), "--port", str(port)) == 2
    assert_one_line(
        capsys.readouterr(), f"error: port {port} of 127.0.0.1: Address already in use; --port 0 takes a free one"
    )
    assert view(str(tape), "--host", "192.0.2.1", "--token", "x" * 16) == 2
    assert_one_line(capsys.readouterr(), "error: port 0 of 192.0.2.1: Cannot assign requested address")


def test_a_file_that_is_not_a_tape_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit code 5."""
    needs("starlette", "uvicorn", "websockets")
    path = tmp_path / "no.tape"
    path.write_text("hello")
    assert view(str(path)) == 5
    assert_one_line(capsys.readouterr(), "no.tape")


def test_a_folder_is_named_alone(capsys: pytest.CaptureFixture[str], tape: Path) -> None:
    """A folder and a tape are not two runs."""
    needs("starlette", "uvicorn", "websockets")
    for arguments in ([str(tape.parent), str(tape)], [str(tape), str(tape.parent)]):
        assert view(*arguments) == 2
        assert_one_line(capsys.readouterr(), "is a folder: name it alone, or two tapes")


@pytest.mark.seldom(0.18)
def test_it_prints_its_address_and_ctrl_c_ends_it(tape: Path) -> None:
    """The address has the token; without it, nothing is served. No process is left, and nothing is on stderr."""
    needs("starlette", "uvicorn", "websockets")
    command = [sys.executable, "-c", PROGRAM, "view", str(tape), "--no-browser", "--token", "a-token-of-my-own"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        base, _, token = url.partition("/?token=")
        assert base.startswith("http://127.0.0.1:")
        assert token == "a-token-of-my-own"
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(base)
        refused.value.close()
        cookie = {"Cookie": f"replay-view-{base.rpartition(':')[2]}={token}"}
        request = urllib.request.Request(f"{base}/api/info", headers=cookie)
        with urllib.request.urlopen(request) as answer:
            assert b'"last":5' in answer.read()
        _send_too_much(base, cookie)
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=30)
    assert (server.returncode, errors) == (0, "")
    assert children
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_ctrl_c_while_the_tape_is_opened_ends_it_quietly(tape: Path, tmp_path: Path) -> None:
    """A page waits for its first answer; the simulation is not made until the command ends."""
    needs("starlette", "uvicorn", "websockets")
    (tmp_path / "endless.py").write_text(
        "import multiprocessing, threading\n"
        "if multiprocessing.parent_process():\n"
        "    threading.Event().wait()\n"
        "from small_worlds import Walkers\n"
    )
    command = [sys.executable, "-c", PROGRAM, "view", str(tape), "--no-browser", "--sim", "endless:Walkers"]
    support = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests/support"), str(tmp_path)])
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": support}
    with subprocess.Popen(command, env=environment, **streams) as server:  # type: ignore[call-overload]
        base, _, token = server.stdout.readline().strip().partition("/?token=")
        host, _, port = base.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port))) as page:
            page.sendall(f"GET /api/info HTTP/1.1\r\nHost: {host}:{port}\r\n".encode())
            page.sendall(f"Authorization: Bearer {token}\r\n\r\n".encode())
            waiting = urllib.request.Request(f"{base}/f/dom.js", headers={"Authorization": f"Bearer {token}"})
            urllib.request.urlopen(waiting).close()  # Answered after the page's question was taken.
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=30)
    assert (server.returncode, errors) == (0, "")


def _send_too_much(base: str, cookie: dict[str, str]) -> None:
    """A message of more than 64 KiB closes the WebSocket with code 1009, one of less does not."""
    from websockets.exceptions import ConnectionClosedError
    from websockets.sync.client import connect

    with connect(f"ws{base.removeprefix('http')}/frames", additional_headers=cookie, origin=base) as socket:
        assert "hello" in socket.recv(timeout=20)
        socket.send("x" * ((1 << 16) - 1))
        socket.send('{"op": "seek", "id": 1, "tick": 3, "drag": false}')
        while isinstance(socket.recv(timeout=20), str):
            pass
        socket.send("x" * ((1 << 16) + 1))
        with pytest.raises(ConnectionClosedError) as closed:
            list(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("", ""),
        ("130", "tick=130"),
        ("#130", "tick=130"),
        ("#tick=130&layers=", "tick=130&layers="),
        ("tick=live", "tick=live"),
        ("tapes=a.tape|b.tape&tick=4&compare=both", "tapes=a.tape|b.tape&tick=4&compare=both"),
    ],
)
def test_a_page_opens_at_a_tick_or_a_view(asked: str, shown: str) -> None:
    """A number alone is the tick; the rest is what the page itself writes into its address."""
    assert shown_address(asked) == shown


@pytest.mark.parametrize("asked", ["abc", "tick", "-1", "tick=abc", "ticks=130", "tick=5&tab=fields&x", "1.5"])
def test_a_view_that_the_page_cannot_read_is_refused(
    asked: str, tape: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page would open at its first tick without a word."""
    needs("starlette", "uvicorn", "websockets")
    assert view(str(tape), f"--show={asked}") == 2
    assert f"--show '{asked}': expected a tick such as 130" in capsys.readouterr().err


def test_the_list_of_a_folder_has_other_keys_and_no_tick() -> None:
    """Its own address is taken; a number is not."""
    assert shown_address("#sort=-ticks&words=", is_of_folder=True) == "sort=-ticks&words="
    with pytest.raises(ValueError, match="expected a tick"):
        shown_address("130", is_of_folder=True)
