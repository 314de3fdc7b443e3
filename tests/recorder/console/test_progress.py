"""A line of status is shown on a terminal, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from project_paths import SOURCES

PROGRAM = """
from recorder.console.progress import status_line
with status_line("searching", quiet=False) as show:
    show("tick 7 differs [from this]")
print("the result")
"""


def run(stderr: int) -> bytes:
    """Run the program with this stderr; return what it prints on stdout."""
    variables = {**os.environ, "PYTHONPATH": str(SOURCES), "TERM": "xterm", "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], stderr=stderr, stdout=subprocess.PIPE, env=variables, check=True
    ).stdout


def test_a_terminal_gets_the_last_text_and_stdout_the_result_alone() -> None:
    """Brackets are text, not markup."""
    ours, theirs = os.openpty()
    assert run(theirs) == b"the result\n"
    shown = os.read(ours, 1 << 16)
    os.close(theirs)
    os.close(ours)
    assert b"tick 7 differs [from this]" in shown


def test_a_file_gets_nothing(tmp_path: Path) -> None:
    """The output of a program that is not on a terminal has no lines of status."""
    with (tmp_path / "errors").open("wb") as errors:
        assert run(errors.fileno()) == b"the result\n"
    assert (tmp_path / "errors").read_bytes() == b""
