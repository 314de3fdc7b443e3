"""Modules that the product runs in interpreters of their own, and commands, in copies of an interpreter that imported them.

Most of what such a process takes are its imports. ``WarmProcess`` stands in for ``subprocess.Popen``: a copy has its own
arguments, variables, folder and streams, is a child of this process, and runs the module or the command as ever. It
has the variables that decide at the start of an interpreter, as a hash seed: for others one is started as ever.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

# Read by the interpreter or by libraries when they start: a copy has those of the interpreter that it is a copy of.
READ_AT_START = re.compile(
    r"PYTHON(?!PATH$)|LD_|NPY_|OPENBLAS|OMP_|MKL_|NUMBA_|MALLOC_|GLIBC_|LANG|LC_|TZ$|TERM|COLUMNS|NO_COLOR"
)
WANTED_MIN = 3  # Processes with the same such variables, from which on they are copies: a start takes as long as one.
SERVERS_MAX = 2  # Each has 60 MB.

BIN = Path(sys.executable).parent
COMMANDS = [str(BIN / name) for name in ("record", "replay")]

Key = tuple[str, tuple[tuple[str, str], ...]]  # The kind, modules or commands, and the variables.

_wanted: Counter[Key] = Counter()
_servers: dict[Key, tuple[socket.socket, subprocess.Popen[bytes]]] = {}
_lock = threading.Lock()
_owner = os.getpid()
_is_command = False


class WarmProcess(subprocess.Popen[Any]):
    """A process that runs a module or a command of the product, without its imports where that makes no difference."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        """Have the copy made. The arguments are those of subprocess.Popen, in its order."""
        if _is_command and threading.current_thread() is threading.main_thread():
            start_wanted()  # Nothing else of the tests runs in this process.
        folder, variables, pipes, is_own_session = rest[4], rest[5], rest[9:15], rest[-2]
        kind = _kind(args, variables) if _can_be_copy(folder, variables) else None
        server = _server(kind, variables) if kind is not None else None
        streams = [own if given == -1 else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = [args[3:] if kind == "modules" else args, variables, str(folder or Path.cwd()), is_own_session]
        if server is None or not (copy := _copy(server, request, streams)):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        self.pid = copy
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


# In place of the module subprocess, where the product starts interpreters.
STAND_IN = SimpleNamespace(Popen=WarmProcess, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired)


def begin_command(arguments: list[str], interpreter: ModuleType) -> None:
    """In a copy that is about to run a command: have most of the interpreters that it starts be copies of one of its own.

    interpreter: the product's module that starts them. ``explain`` starts up to 27, and from threads.
    """
    global _owner, _is_command
    _owner, _is_command = os.getpid(), True
    interpreter.subprocess = STAND_IN  # type: ignore[attr-defined]
    if arguments[:1] == ["explain"]:
        want("modules", {"PYTHONHASHSEED": "0"} | dict(os.environ))  # The seed that explain sets.
        start_wanted()


def want(kind: str, variables: dict[str, str]) -> None:
    """Expect many processes of a kind with these variables, so that the first ones are copies, too."""
    key = kind, _read_at_start(variables)
    _wanted[key] = max(_wanted[key], WANTED_MIN)


def start_wanted() -> None:
    """Start the interpreters that earlier calls wanted. In the main thread: a child ends with the thread that started it."""
    for key, count in _wanted.items():
        kind, variables = key
        if count < WANTED_MIN or key in _servers or len(_servers) == SERVERS_MAX or os.getpid() != _owner:
            continue
        others = {name: value for name, value in os.environ.items() if not READ_AT_START.match(name)}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", Path(__file__).with_name("warm_python_server.py"), kind, str(theirs.fileno())],
                env=others | dict(variables) | {"PYTHONPATH": str(Path(__file__).parent)},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        _servers[key] = ours, process
        atexit.register(_end, ours, process)


def _can_be_copy(folder: str | None, variables: dict[str, str]) -> bool:
    paths = [Path(entry, "sitecustomize.py") for entry in variables.get("PYTHONPATH", "").split(os.pathsep)]
    return (
        platform.machine() == "x86_64"
        and os.getpid() == _owner
        and (folder is None or Path(folder).is_dir())
        and not any(path.exists() for path in paths)  # Imported at the start of an interpreter.
    )


def _kind(args: list[str], variables: dict[str, str]) -> str | None:
    if args[:3] == [sys.executable, "-P", "-m"]:
        # Without a seed each interpreter draws its own: copies have one, and what depends on it would look the same in all.
        return "modules" if variables.get("PYTHONHASHSEED", "random") != "random" else None
    return "commands" if args[0] in COMMANDS else None


def _server(kind: str, variables: dict[str, str]) -> socket.socket | None:
    """Return the connection to the interpreter with these variables; None if there is none."""
    key = kind, _read_at_start(variables)
    _wanted[key] += 1
    return _servers[key][0] if key in _servers else None


def _read_at_start(variables: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in variables.items() if READ_AT_START.match(item[0])))


def _copy(server: socket.socket, request: list[Any], streams: list[int]) -> int:
    """Have a copy made and return its number; 0 if the interpreter has ended, as it does where it cannot be copied."""
    with _lock:
        try:
            socket.send_fds(server, [json.dumps(request).encode()], streams)
            return int(server.recv(32) or 0)
        except (BrokenPipeError, ConnectionResetError):  # Reset, if it ended with the request unread.
            return 0


def _end(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Let an interpreter end, with the process that asked it alone."""
    if os.getpid() == _owner:
        connection.close()
        process.wait()
