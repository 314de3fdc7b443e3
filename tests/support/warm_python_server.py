"""The interpreter that warm_python copies: it has imported what the processes of the product import, and waits.

A copy is made by the system call behind fork, with CLONE_PARENT: so it is a child of the process that asked for it, which
waits for it, signals it and ends it as one that it started itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import socket
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import warm_python
from huge_pages import use_huge_pages

CLONE = 56  # The system call, on x86-64.
FLAGS = 0x00008000 | 0x01000000 | 17  # CLONE_PARENT | CLONE_CHILD_SETTID | SIGCHLD
REQUEST_BYTES_MAX = 1 << 20
TID_PLACE = 720  # Of the thread's number in what glibc keeps of a thread; it is looked at before it is used.
MODULES = (
    "replayer.diagnose.explain.variant_process",
    "sim.adapters.as_recorded",  # Which it imports for tapes of objects,
    "replayer.diagnose.explain.other_values.program_jobs",  # and this for some jobs.
    "replayer.diagnose.parties.party_process",
    "replayer.diagnose.certify.cell_process",
    "replayer.diagnose.investigation.check_process",
    "replayer.commands.bisect_process",
    "replayer.commands.bisect_explanation",
    "recorder.conformance.contract_process",
)
COMMANDS = (
    "numpy",  # First, as the commands do.
    "cyclopts",
    "recorder.console.app",
    "recorder.commands.main",
    "replayer.commands.main",
    *(f"recorder.commands.{name}" for name in ("run",)),
    *(f"replayer.commands.{name}" for name in ("check", "explain", "find", "info", "ls", "seek", "verify")),
)


def main() -> None:
    """Import, then make a copy for each request until the other side is closed."""
    for module in {"modules": MODULES, "commands": COMMANDS}[sys.argv[1]]:
        importlib.import_module(module)
    sys.path.remove(os.environ["PYTHONPATH"])
    gc.freeze()
    use_huge_pages()
    with warnings.catch_warnings(action="ignore"):  # Of threads. Libraries end theirs here, and start none again.
        if (pid := os.fork()) == 0:
            os._exit(0)
    os.waitpid(pid, 0)
    with socket.socket(fileno=int(sys.argv[2])) as asked:
        while True:
            text, streams, _, _ = socket.recv_fds(asked, REQUEST_BYTES_MAX, 3)
            if not text:
                return
            pid = copy()
            if pid == 0:
                break
            asked.send(str(pid).encode())
            for stream in streams:
                os.close(stream)
    run(json.loads(text), streams)


def copy() -> int:
    """Fork so that both are children of the same process; return the number of the copy, and 0 in it."""
    library = ctypes.PyDLL(None)
    library.pthread_self.restype = ctypes.c_void_p
    library.syscall.restype = ctypes.c_long
    place = library.pthread_self() + TID_PLACE
    if ctypes.c_int.from_address(place).value != os.getpid():
        sys.exit("no glibc as this knows it")
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = int(library.syscall(ctypes.c_long(CLONE), ctypes.c_long(FLAGS), None, None, ctypes.c_void_p(place), None))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("no copy")
    return pid


def run(request: list[Any], streams: list[int]) -> None:
    """Become the process that was asked for, and run its module to the end."""
    (program, *arguments), variables, folder, is_own_session = request
    is_command = program.startswith(os.sep)
    for own, given in enumerate(streams):
        os.dup2(given, own)
        open_stream(("stdin", "stdout", "stderr")[own], own)
    os.closerange(3, max(streams) + 1)
    os.chdir(folder)
    if is_own_session:
        os.setsid()
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:0] = [str(Path(program).parent)] * is_command + [
        entry for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry
    ]
    sys.argv[:] = [program, *arguments]
    sys.orig_argv[:] = [sys.executable, *([] if is_command else ["-P", "-m"]), program, *arguments]
    sys.modules.pop(program, None)  # An interpreter runs it as __main__ alone, too.
    if is_command:
        warm_python.begin_command(arguments, importlib.import_module("recorder.processes.interpreter"))
    try:
        if is_command:
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        code: Any = 0
    except SystemExit as stopped:
        code = 0 if stopped.code is None else stopped.code
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def open_stream(name: str, number: int) -> None:
    """Open a stream of sys as an interpreter does: what it can do depends on what it leads to."""
    first = getattr(sys, name)
    is_bare = bool(first.write_through)  # By PYTHONUNBUFFERED.
    binary = open(number, first.mode + "b", buffering=0 if is_bare else -1, closefd=False)  # noqa: SIM115 - it stays open
    stream = io.TextIOWrapper(
        binary,
        encoding=first.encoding,
        errors=first.errors,
        write_through=is_bare,
        line_buffering=number == 2 or binary.isatty(),
    )
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    main()
