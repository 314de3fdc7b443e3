"""A copy of the warm interpreter is the process that starting one would have given."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm_python

ASKED = """
import json, os, random, sys, threading
import numpy
facts = {
    "arguments": sys.argv[1:], "name": __name__, "file": __file__, "path": sys.path, "safe": sys.flags.safe_path,
    "folder": os.getcwd(), "variable": os.environ.get("OF_THIS_TEST"), "ours": "huge_pages" in sys.path[0],
    "parent": os.getppid(), "session": os.getsid(0) == os.getpid(), "hash": hash("word"), "read": sys.stdin.read(),
    "number": os.getpid() == threading.get_native_id(), "main": sys.modules["__main__"].__dict__ is globals(),
    "product": float((numpy.ones((200, 200)) @ numpy.ones((200, 200))).sum()), "files": len(os.listdir("/proc/self/fd")),
}
print(json.dumps(facts))
print("last words", file=sys.stderr)
"""


def end(ending: str, folder: Path, process: type[subprocess.Popen[bytes]]) -> tuple[Any, bytes, int]:
    """Run the program in a folder until it ends in this way; return what it printed, wrote to stderr, and its code."""
    (folder / "asked.py").write_text(ASKED + ending)
    variables = os.environ | {"PYTHONPATH": str(folder), "PYTHONHASHSEED": "0", "OF_THIS_TEST": "ü"}
    with process(
        [sys.executable, "-P", "-m", "asked", "a", "b c"],
        env=variables,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as started:
        output, errors = started.communicate(b"text")
    return json.loads(output), errors.splitlines()[-1], started.returncode


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere all processes are started as ever")
@pytest.mark.parametrize(
    "ending", ["", "sys.exit(3)", "sys.exit('a reason')", "raise ValueError('x')", "os.kill(os.getpid(), 9)"]
)
def test_a_copy_is_as_a_process_that_was_started(ending: str, tmp_path: Path) -> None:
    """In its arguments, variables, folder, streams, parent and exit code."""
    made: list[int] = []

    class Seen(warm_python.WarmProcess):
        def _execute_child(self, *arguments: Any) -> None:
            super()._execute_child(*arguments)
            made.append(Path(f"/proc/{self.pid}/cmdline").read_bytes().count(b"warm_python_server"))

    for _ in range(warm_python.WANTED_MIN):
        end("", tmp_path, warm_python.WarmProcess)
    warm_python.start_wanted()

    assert end(ending, tmp_path, Seen) == end(ending, tmp_path, subprocess.Popen)
    assert made == [1], "it is a copy"


def test_processes_without_a_seed_of_hashes_have_each_their_own(tmp_path: Path) -> None:
    """Copies of one interpreter would have one, and hide what depends on it."""
    (tmp_path / "hashed.py").write_text("print(hash('word'))")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    hashes = set()
    for _ in range(2 * warm_python.WANTED_MIN):
        with warm_python.WarmProcess(
            [sys.executable, "-P", "-m", "hashed"],
            env=variables | {"PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
        ) as started:
            hashes.add(started.communicate()[0])
        warm_python.start_wanted()

    assert len(hashes) == 2 * warm_python.WANTED_MIN
