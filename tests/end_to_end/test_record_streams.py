"""The command ``record`` and its surroundings: broken pipes, full disks under stdout, Ctrl-C at the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replayer import Tape
from simulation_flight_recorder_names import BEGINS

from oracle.command_lines import TINY

pytestmark = pytest.mark.share(0.18)

RECORD = [sys.executable, "-c", "import recorder.commands.main; recorder.commands.main.main()"]
SHOWN_BY_HELP = [
    ("recorder", "--help"),
    ("replayer", ""),
    pytest.param("recorder", "", marks=pytest.mark.long),
    pytest.param("replayer", "--help", marks=pytest.mark.long),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder that holds the tiny scenario and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def broken_pipe() -> int:
    """Return the writing end of a pipe without a reader."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.sample(3)
@pytest.mark.parametrize("broken", ["full disk", "pipe", "closed"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("more", [[], ["-q"]], ids=["", "-q"])
@pytest.mark.seldom(0.18)
def test_a_recording_continues_with_broken_output(broken: str, stream: str, more: list[str]) -> None:
    """The tape is complete, the exit code is that of the run, the other stream does not mention it."""
    descriptor = os.open("/dev/full", os.O_WRONLY) if broken == "full disk" else broken_pipe()
    number = {"stdout": 1, "stderr": 2}[stream]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if broken != "closed":
        streams[stream] = descriptor
    finished = subprocess.run(
        [*RECORD, "run", "tiny.toml", *more],
        **streams,
        check=False,
        text=True,
        preexec_fn=(lambda: os.close(number)) if broken == "closed" else None,
    )
    os.close(descriptor)
    assert finished.returncode == 0
    assert not finished.stderr
    with Tape(Path("recordings/tiny-1.tape")) as tape:
        assert (tape.status, tape.last_tick) == ("not checked", 90)


WARNED = """
import sys, recorder.commands.main, recorder.storage.tape_files, recorder.writer.retries
recorder.writer.retries.RETRY_S = (0.0, 0.0)
append, calls = recorder.storage.tape_files.TapeFile.append, []
def refuse_some(self, data):
    calls.append(1)
    if len(calls) in (4, 5):
        raise OSError(28, "No space left on device")
    append(self, data)
recorder.storage.tape_files.TapeFile.append = refuse_some
recorder.commands.main.main(["run", "tiny.toml", "-o", "a.tape", "--keyframe-interval", "5"])
"""


def test_a_warning_that_cannot_be_printed_stops_nothing() -> None:
    """Warnings on stderr are dropped in the same way."""
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run([sys.executable, "-c", WARNED], stdout=full, stderr=full, check=False)
    assert finished.returncode == 0
    with Tape(Path("a.tape")) as tape:
        assert (tape.status, tape.last_tick) == ("not checked", 90)


@pytest.mark.parametrize(("package", "word"), SHOWN_BY_HELP)
@pytest.mark.seldom(0.15)
def test_help_into_a_pipe_that_breaks_is_quiet(package: str, word: str) -> None:
    """As by | head -1: exit code 0, nothing on stderr; a full disk is a mistake, in one line."""
    command = [
        sys.executable,
        "-c",
        f"import {package}.commands.main; {package}.commands.main.main({[word] if word else []})",
    ]
    writing = broken_pipe()
    finished = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, text=True)
    os.close(writing)
    assert (finished.returncode, finished.stderr) == (0, "")
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert (finished.returncode, finished.stderr) == (2, "error: standard output: No space left on device\n")


INTERRUPTING = """
import os, signal
signal.raise_signal(signal.SIGINT)  # The handler's exception is raised here.
raise ImportError("an interrupt was taken for something else")
"""


@pytest.mark.parametrize(("command", "package"), [("record", "recorder"), ("replay", "replayer")])
@pytest.mark.parametrize("ignored", ["", "ignored"])
@pytest.mark.parametrize("late", ["", "late"])
def test_ctrl_c_while_the_program_starts_is_quiet(
    folder: Path, command: str, package: str, ignored: str, late: str
) -> None:
    """Exit code 130 and no traceback of an import; if the parent ignores interrupts, so does the command.

    late: interrupt while the module of the one command is imported.
    """
    (folder / package / "commands").mkdir(parents=True)
    (folder / package / "commands" / "__init__.py").touch()
    interrupting = INTERRUPTING.replace("raise ImportError", "os._exit(0)  # ") if ignored else INTERRUPTING
    begin = f'{BEGINS[package].decode()}"""\n'
    (folder / package / "__init__.py").write_text(begin if late else begin + interrupting)
    (folder / package / "commands" / "main.py").write_text(
        f"def load(_):\n    {interrupting.strip().replace(chr(10), chr(10) + '    ')}\n"
    )
    before = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " if ignored else ""
    here = (
        "import os, simulation_flight_recorder_names as names; names.FOLDER = os.getcwd(); "  # Else they are not ours.
    )
    program = f"{before}{here}import simulation_flight_recorder; simulation_flight_recorder.{command}()"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0 if ignored else 130, "", "")


@pytest.mark.parametrize("command", ["record", "replay"])
def test_the_console_scripts_lead_to_the_commands(command: str) -> None:
    """Including the module in which they begin."""
    program = f"import simulation_flight_recorder; simulation_flight_recorder.{command}()"
    finished = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert f"Usage: {command} COMMAND" in finished.stdout
