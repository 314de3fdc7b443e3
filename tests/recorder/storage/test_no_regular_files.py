"""What is no file is refused in one line, and no command waits for the writer of a pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import replayer.commands.main
from recorder.exit_codes import USAGE
from recorder.storage import open_tape
from recorder.storage.open_tape import READING

from oracle.command_lines import run


@pytest.mark.parametrize("command", ["info", "verify", "extract -o out -j 1"])
def test_a_pipe_is_no_tape(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has a writer here, so that a test of other code would fail rather than hang."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a.tape")
    writer = os.open("a.tape", os.O_RDWR)
    try:
        assert run(replayer.commands.main.main, f"{command} a.tape") == USAGE
    finally:
        os.close(writer)
    assert capsys.readouterr().err == "error: a.tape: expected a file, found a pipe, a socket or a device\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.tape"]


def test_opening_does_not_wait_for_a_writer() -> None:
    """The system waits for one, unless it is told not to."""
    assert READING & os.O_NONBLOCK


def test_a_file_that_is_open_at_the_end_of_the_interpreter_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its module has been emptied by then: the system closes it."""
    (tmp_path / "file").write_bytes(b"")
    opened = open_tape.OpenFile(tmp_path / "file")
    with monkeypatch.context() as emptied:
        emptied.setattr(open_tape, "os", None)
        opened.__del__()
    opened.close()
