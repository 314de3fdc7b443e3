"""`record run --live`: the page beside a recording, and the end of both."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from optional_packages import needs
from waiting import wait_until

from recorder.commands.main import main
from replayer.tape.tape import Tape

from oracle.command_lines import run
from project_paths import ROOT

PROGRAM = "from recorder.commands.main import main; main()"
STAYS = "the page stays open; Ctrl-C ends it\n"


@contextlib.contextmanager
def recording(tape: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`record run quiet-meadow --live`, and the address of its page."""
    needs("starlette", "uvicorn", "websockets")
    command = [sys.executable, "-c", PROGRAM, "run", "quiet-meadow", "--live", "-o", str(tape), *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in {"DISPLAY", "WAYLAND_DISPLAY"}}
    environment["PYTHONPATH"] = str(ROOT / "src")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **streams) as process:  # type: ignore[call-overload]
        try:
            yield process, next(line for line in process.stdout if line.startswith("page: ")).split()[1]
        finally:
            process.kill()


def has_ticks(tape: Path) -> bool:
    """Return True once the run is under way."""
    with Tape(tape) as opened:
        return opened.last_tick > 0


@pytest.mark.seldom(0.18)
def test_the_page_stays_until_ctrl_c_and_the_tape_is_as_without_it(tmp_path: Path) -> None:
    """Byte for byte, with --deterministic. No process is left."""
    options = ["--ticks", "60", "--deterministic"]
    assert run(main, f"run quiet-meadow -q -o {tmp_path / 'alone.tape'} {' '.join(options)}") == 0
    with recording(tmp_path / "live.tape", *options) as (process, url):
        assert process.stdout is not None
        wait_until(lambda: process.stdout.readline() == STAYS)  # type: ignore[union-attr]
        base, _, token = url.partition("/?token=")
        cookie = {"Cookie": f"replay-view-{base.rpartition(':')[2]}={token}"}
        with urllib.request.urlopen(urllib.request.Request(f"{base}/api/info", headers=cookie)) as answer:
            assert b'"last":60' in answer.read()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert (tmp_path / "live.tape").read_bytes() == (tmp_path / "alone.tape").read_bytes()
    assert children
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


@pytest.mark.seldom(0.18)
def test_ctrl_c_ends_the_recording_first_and_then_the_page(tmp_path: Path) -> None:
    """The tape is sealed at the first, and the page stays for the second."""
    tape = tmp_path / "live.tape"
    with recording(tape, "--ticks", "1000000", "--realtime", "50") as (process, _):
        assert process.stdout is not None
        wait_until(lambda: has_ticks(tape))
        process.send_signal(signal.SIGINT)
        wait_until(lambda: process.stdout.readline() == STAYS)  # type: ignore[union-attr]
        with Tape(tape) as opened:
            assert opened.outcome == {"reason": "interrupted"}
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")


@pytest.mark.seldom(0.18)
def test_sigterm_ends_both(tmp_path: Path) -> None:
    """Whatever sends it waits for no page."""
    with recording(tmp_path / "live.tape", "--ticks", "1000000", "--realtime", "50") as (process, _):
        wait_until(lambda: has_ticks(tmp_path / "live.tape"))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 143


@pytest.mark.sample(1)
@pytest.mark.parametrize("package", ["starlette", "uvicorn", "websockets"])
def test_a_missing_package_is_named_before_anything_is_recorded(tmp_path: Path, package: str) -> None:
    """One line with the command that installs it."""
    program = f"import sys; sys.modules[{package!r}] = None\n{PROGRAM}"
    command = [sys.executable, "-c", program, "run", "quiet-meadow", "--live", "-o", str(tmp_path / "live.tape")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (2, "")
    (line,) = finished.stderr.splitlines()
    assert f"record run --live needs {package}: " in line
    assert list(tmp_path.iterdir()) == []
