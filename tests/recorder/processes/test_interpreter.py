"""Other interpreters: their input, their output, and that none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_until

from recorder.processes.interpreter import end_all, finish, last_line, module_program, start_python

SOON_S = 5.0
SAYS_ITS_VARIABLES = "import os; print(os.environ.get('GIVEN'), os.environ.get('TAKEN'), os.environ.get('LEFT'))"
BEGUN = "import signal, sys\n{first}\nprint(end='begun', flush=True)\nsignal.pause()"
INTERRUPTS = "import os, signal, sys; sys.stdin.read(); os.kill(os.getppid(), signal.SIGALRM); signal.pause()"
PARENT = """
import sys
from recorder.processes.interpreter import start_python

child = "from recorder.processes.interpreter import begin_as_python as b; b(); print(1, flush=True); input()"
process = start_python(["-c", child])
process.stdout.readline()
print(process.pid, flush=True)
process.wait()
"""


def test_variables_are_set_and_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other variables stay."""
    for name in ("TAKEN", "LEFT"):
        monkeypatch.setenv(name, "here")
    finished = finish(start_python(["-c", SAYS_ITS_VARIABLES], environment={"GIVEN": "there", "TAKEN": None}))
    assert (finished.exit_code, finished.output, finished.last_words) == (0, b"there None here\n", "")
    assert (os.environ["TAKEN"], "GIVEN" in os.environ) == ("here", False)


def test_input_output_and_last_line() -> None:
    """The exit code, the output, and the last line of stderr are returned."""
    program = (
        "import sys; print(sys.stdin.read() * 2, end=''); print('one', 'two ', '', sep='\\n', file=sys.stderr); exit(3)"
    )
    finished = finish(start_python(["-c", program]), b"told")
    assert (finished.exit_code, finished.output, finished.last_words) == (3, b"toldtold", "two")
    assert last_line(b"\n \n") == ""


def test_a_module_is_not_searched_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's file may have the name of a module."""
    (tmp_path / "this.py").write_text("print('shadow')")
    monkeypatch.chdir(tmp_path)
    assert b"Zen of Python" in finish(start_python(module_program("this"))).output


def test_an_interpreter_that_there_is_not() -> None:
    with pytest.raises(FileNotFoundError):
        start_python(["-c", ""], interpreter="/nowhere/python")


@pytest.mark.parametrize(
    ("first", "patience_s", "exit_code"),
    [
        ("signal.signal(signal.SIGINT, lambda *_: sys.exit(9))", SOON_S, 9),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN)", 0.1, -signal.SIGKILL),
        ("", 0.0, -signal.SIGKILL),
    ],
)
def test_ending(first: str, patience_s: float, exit_code: int) -> None:
    """Interrupted processes may end on their own; the others are killed, and all are waited for."""
    processes = [start_python(["-c", BEGUN.format(first=first)]) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"begun"
    end_all(processes, patience_s)
    assert [process.returncode for process in processes] == [exit_code] * 2
    end_all(processes)
    for process in processes:
        process.communicate()


def test_who_waits_is_interrupted() -> None:
    """The process is killed and its pipes are closed."""
    process = start_python(["-c", INTERRUPTS])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            finish(process, b"")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert process.returncode == -signal.SIGKILL
    assert process.stdout is not None
    assert process.stdout.closed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
def test_a_process_ends_with_the_one_that_started_it() -> None:
    """However that one ended."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: is_dead(child), SOON_S)


def is_dead(process: int) -> bool:
    """Return True if the process has stopped; a zombie counts as stopped."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return True
