"""What code in an isolated copy of a process may not call, since others would see it; it is noted that it was called."""

from __future__ import annotations

import builtins
import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED = {
    **dict.fromkeys(
        ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
         "os.chown", "os.utime", "os.setxattr", "os.removexattr", "sqlite3.connect"),
        "writes files",
    ),
    **dict.fromkeys(
        ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
         "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"),
        "uses the network",
    ),
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"), "starts processes"
    ),
    "os.kill": "sends signals",
    "os.killpg": "sends signals",
}  # fmt: skip
# Functions that no audit event reports.
_UNAUDITED = {
    ("os", "mkfifo"): "writes files",
    ("os", "mknod"): "writes files",
    ("signal", "pidfd_send_signal"): "sends signals",
    ("_posixsubprocess", "fork_exec"): "starts processes",
}

_denied: list[str] = []  # The reasons of refused calls, the first one first.
_nowhere: list[str] = []  # What was opened to be written, and led nowhere.


class DeniedError(PermissionError):
    """A call in a copy that would have been visible outside of it."""


def denied() -> str | None:
    """In a copy: the first thing that the work tried to do and that was refused, such as "writes files"."""
    return _denied[0] if _denied else None


def opened_nowhere() -> bool:
    """In a copy: return True if the work has opened a file to write it. What it wrote led nowhere."""
    return bool(_nowhere)


def refuse_calls(is_own_call: Callable[[], bool]) -> None:
    """From now on. It cannot be taken back: only a copy may call this. is_own_call: tells when a call is let through."""
    _open_nowhere()
    _refuse_shared_memory()
    _refuse_shared_locks()
    _refuse_unaudited()
    sys.addaudithook(lambda event, arguments: _audit(event, arguments, is_own_call))


def _open_nowhere() -> None:
    """Let what is opened by open() to be written lead nowhere: a program that only writes a log is tried."""
    own_open = builtins.open

    def open_nowhere(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not isinstance(file, int) and set(mode) & set("wax+"):
            _nowhere.append(str(file))
            return own_open(os.devnull, mode.replace("x", "w"), *arguments, **options)
        return own_open(file, mode, *arguments, **options)

    builtins.open = open_nowhere
    io.open = open_nowhere
    # A notebook's stdout is no file: it sends what is printed by a socket of its own.
    sys.stdout = sys.stderr = own_open(os.devnull, "w", encoding="utf-8")


def _refuse_shared_memory() -> None:
    """Refuse to make shared memory, and to open that of others to write it, which no audit event reports.

    The class of multiprocessing opens a block by its name to write it in any case; what is mapped already is the copy's own.
    """
    with contextlib.suppress(ImportError):
        memory: Any = importlib.import_module("_posixshmem")  # The simulation may import it later.
        memory.shm_unlink = lambda _: None
        opened = memory.shm_open

        def open_to_read(path: str, flags: int, mode: int = 0o777) -> Any:
            if flags & _WRITING:
                _refuse("shares memory", "shm_open")
            return opened(path, flags, mode)

        memory.shm_open = open_to_read


def _refuse_shared_locks() -> None:
    """Refuse the locks of multiprocessing: each is a file that other processes open, and no audit event reports it."""
    with contextlib.suppress(ImportError):
        module: Any = importlib.import_module("_multiprocessing")  # The simulation may import it later.
        kind = module.SemLock

        class Refused:
            SEM_VALUE_MAX = kind.SEM_VALUE_MAX
            _rebuild = kind._rebuild  # noqa: SLF001 - as multiprocessing.synchronize asks for it

            def __init__(self, *_: Any) -> None:
                _refuse("makes locks for other processes", "multiprocessing.SemLock")

        module.SemLock = Refused


def _refuse_unaudited() -> None:
    """Put a function that refuses in the place of each, under all names that modules have for it."""
    instead: dict[int, Callable[..., NoReturn]] = {}
    for (name, function), reason in _UNAUDITED.items():
        with contextlib.suppress(ImportError, AttributeError):
            own = getattr(importlib.import_module(name), function)

            def refuse(*_: Any, reason: str = reason, event: str = f"{name}.{function}", **__: Any) -> NoReturn:
                _refuse(reason, event)

            instead[id(own)] = refuse
    for module in list(sys.modules.values()):
        content = getattr(module, "__dict__", None) if type(module) is type(sys) else None
        for key, value in list(content.items()) if content is not None else ():
            if id(value) in instead:
                content[key] = instead[id(value)]  # type: ignore[index]


def _audit(event: str, arguments: tuple[Any, ...], is_own_call: Callable[[], bool]) -> None:
    reason = _REFUSED.get(event)
    if event == "open":
        path, mode, flags = arguments
        writes = (
            bool(set(mode) & set("wax+"))
            if isinstance(mode, str)
            else bool(isinstance(flags, int) and flags & _WRITING)
        )
        reason = "writes files" if writes and not isinstance(path, int) and path != os.devnull else None
    if reason is None or is_own_call():
        return
    if event == "os.kill" and arguments[0] == os.getpid():
        return
    _refuse(reason, event)


def _refuse(reason: str, event: str) -> NoReturn:
    _denied.append(reason)
    raise DeniedError(errno.EPERM, f"the step {reason} ({event}), which is refused while it is tried")
