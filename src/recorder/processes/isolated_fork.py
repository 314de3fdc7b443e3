"""Run work in a forked copy of this process that can change nothing outside itself.

The copy has no terminal, no open files that it could write to, no sockets and pipes of this process, and a private copy
of shared memory. It may not open, rename or delete files, connect, or start processes. It has a time limit, after which
it is killed together with everything that it forked. Linux only.

Invariant: the copy shares nothing with its parent that it can write to, except the pipe of its messages.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import math
import os
import resource
import select
import signal
import stat
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NoReturn

import attrs

from recorder.processes.fork_hazard import fork_hazard
from recorder.processes.isolation.refused_calls import refuse_calls
from recorder.processes.lifetimes.parent_death import end_with_parent
from recorder.processes.private_memory import make_private, shared_mappings
from recorder.processes.seeds.process_generators import States, forked_states, set_generator_states

SHARED_BYTES_MAX = 64 << 20  # Shared memory is copied for the child; more than this would take too long.
LOOK_MS, LOOKS = 50, 5  # At a copy whose time is up.
FAILED = 1  # The exit code of a copy whose work raised.

Send = Callable[[Any], None]

_LENGTH = struct.Struct("<Q")
_isolated = False  # True in a copy: copies of it are isolated already.
_is_own_call = False  # True while this module forks or ends a copy.


class NotIsolatedError(RuntimeError):
    """This process cannot be copied without sharing something that the copy could change; the message names it."""


@attrs.frozen
class ForkedRun:
    """The end of a copy.

    Attributes:
        messages: what it sent, in order.
        exit_code: its own, or minus the signal that ended it; None if its time was up.
        error: what its work raised, in one line; None if it did not raise.
        was_waiting: when its time was up it slept, and so did all that it had started: nothing of it waited for a processor.
    """

    messages: list[Any]
    exit_code: int | None
    error: str | None = None
    was_waiting: bool = attrs.field(default=False, eq=False)


@attrs.frozen
class _Raised:
    """What the work raised."""

    text: str


def ensure_can_isolate() -> None:
    """Raise NotIsolatedError if a copy of this process could change something outside itself."""
    if sys.platform != "linux":
        raise NotIsolatedError("this needs Linux")
    hazard = fork_hazard()
    if hazard is not None:
        raise NotIsolatedError(f"{hazard} was used in this process, and a copy would wait for its threads forever")
    size_bytes = 0
    for start, end, path in shared_mappings():
        if path.startswith("/dev/") and not path.startswith(("/dev/shm/", "/dev/zero")):  # noqa: S108 - of the maps
            raise NotIsolatedError(f"the process has memory of a device mapped ({path})")
        size_bytes += end - start
    if size_bytes > SHARED_BYTES_MAX:
        raise NotIsolatedError(f"the process shares {size_bytes >> 20} MiB of memory with others")


def run_isolated(work: Callable[[Send], None], limit_s: float, patience_s: float = math.inf) -> ForkedRun:
    """Run work in an isolated copy of this process; it sends its results. In a copy: in a further copy of that.

    limit_s: the time after which the copy is killed. patience_s: it is killed, too, if it and all that it started have slept
    for so long, as they do if they wait for a thread that only this process has. Raises OSError if no process can be started.
    """
    deadline_s = time.monotonic() + limit_s
    states = forked_states()  # This child must be an exact copy.
    read_end, write_end = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        # A lock of another thread stays locked in the copy. If the work needs it, the time limit ends the copy.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        with _own_calls():
            child = os.fork()
    if not child:
        os.close(read_end)
        _live(work, write_end, parent, states)
    os.close(write_end)
    try:
        messages, is_complete = _receive(read_end, deadline_s, partial(_work_while_asleep, child), patience_s)
    finally:
        os.close(read_end)
        with _own_calls():
            exit_code, was_waiting = _end(child, deadline_s if is_complete else time.monotonic())
    error = messages.pop().text if messages and isinstance(messages[-1], _Raised) else None
    return ForkedRun(messages, exit_code if is_complete else None, error, was_waiting)


# --- the parent


def _receive(
    pipe: int, deadline_s: float, asleep: Callable[[], object | None], patience_s: float
) -> tuple[list[Any], bool]:
    """The messages up to the end of the pipe, and True; or up to the deadline or the end of the patience, and False.

    asleep: what the copy has worked, if it is asleep; None otherwise.
    """
    received, before = bytearray(), None
    messages: list[Any] = []
    poll = select.poll()
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    while (left_s := deadline_s - time.monotonic()) > 0:
        if not poll.poll(min(left_s, patience_s) * 1000):
            now = asleep() if patience_s < left_s else None
            if now is not None and now == before:
                break
            before = now
            continue
        part = os.read(pipe, 1 << 20)
        if not part:
            return messages, True
        received += part
        while len(received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received)
            if len(received) < _LENGTH.size + length:
                break
            messages.append(ForkingPickler.loads(bytes(received[_LENGTH.size : _LENGTH.size + length])))
            del received[: _LENGTH.size + length]
    return messages, False


def _end(child: int, deadline_s: float) -> tuple[int, bool]:
    """Wait for a copy until the deadline, and kill what is left of it and of its own copies.

    Return its exit code, and whether it was waiting at the deadline.
    """
    was_waiting = False
    with contextlib.suppress(OSError):  # Reaped by a handler of SIGCHLD, or a filter of system calls forbids it.
        watched = os.pidfd_open(child)
        try:
            poll = select.poll()
            poll.register(watched, select.POLLIN)
            poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000)
            was_waiting = _is_waiting(child, poll)
        finally:
            os.close(watched)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # A copy of a copy is in the group of that.
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # The process reaps all its children automatically.
        os.kill(child, signal.SIGKILL)
    try:
        _, status = os.waitpid(child, 0)
    except ChildProcessError:
        return 0, False  # Reaped automatically; whether its messages are complete is known from the pipe.
    return os.waitstatus_to_exitcode(status), was_waiting


def _is_waiting(child: int, ended: select.poll) -> bool:
    """Return True if a copy, and all that it started, sleeps and does not run for a while. ended: tells when it ends."""
    before = _work_while_asleep(child)
    return before is not None and all(
        not ended.poll(LOOK_MS / LOOKS) and _work_while_asleep(child) == before for _ in range(LOOKS)
    )


def _work_while_asleep(process: int) -> tuple[tuple[int, int, str], ...] | None:
    """What all threads of a process, and of the processes that it started, have worked, if all of them are asleep.

    Return None if one of them runs, is ready to run, waits for a disk, or cannot be seen. Equal results some time apart
    say that nothing of it ran in between. Linux only.
    """
    found: list[tuple[int, int, str]] = []
    waiting = [process]
    while waiting:
        one = waiting.pop()
        try:
            for thread in sorted(Path("/proc", str(one), "task").iterdir()):
                state = (thread / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
                if state == "Z":
                    continue  # It has ended.
                if state != "S":
                    return None
                # proc(5): nanoseconds on a processor, those of waiting for one, and how often it got one.
                found.append((one, int(thread.name), (thread / "schedstat").read_text(encoding="ascii")))
                waiting += map(int, (thread / "children").read_text(encoding="ascii").split())
        except (OSError, ValueError, IndexError):
            return None
    return tuple(found)


@contextlib.contextmanager
def _own_calls() -> Iterator[None]:
    """Let calls of this module pass the audit hook of a copy."""
    global _is_own_call  # noqa: PLW0603 - an audit hook has no other argument
    _is_own_call = True
    try:
        yield
    finally:
        _is_own_call = False


# --- the copy


def _live(work: Callable[[Send], None], pipe: int, parent: int, states: States) -> NoReturn:
    """Run a copy from start to end."""
    exit_code = FAILED
    try:
        end_with_parent(parent)
        global _is_own_call  # noqa: PLW0603 - forked inside of _own_calls
        _is_own_call = False
        if not _isolated:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The parent decides.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _isolate(pipe)
        set_generator_states(states)

        def send(message: Any) -> None:
            view = memoryview(ForkingPickler.dumps(message))
            os.write(pipe, _LENGTH.pack(len(view)))
            while view:
                view = view[os.write(pipe, view) :]

        try:
            work(send)
        except Exception as error:  # noqa: BLE001 - of the user's simulation, or ours: the parent reports it
            send(_Raised(f"{type(error).__name__}: {error}"))
        else:
            exit_code = 0
    finally:
        # Without the handlers, finalizers and buffers that this process inherited from its parent.
        os._exit(exit_code)


def _isolate(pipe: int) -> None:
    global _isolated  # noqa: PLW0603 - for the copies of this copy
    _isolated = True
    gc.freeze()  # Finalizers of the parent's garbage are the parent's to run.
    for start, end, _ in shared_mappings():
        make_private(start, end)
    _detach_files(pipe)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # C code does not pass the audit hook.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    refuse_calls(lambda: _is_own_call)


def _detach_files(pipe: int) -> None:
    """Replace what this process can write to by /dev/null, and give it positions of its own in files that it reads."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for path in list(Path("/proc/self/fd").iterdir()):
        number = int(path.name)
        if number in (pipe, nowhere):
            continue
        try:
            mode, flags = os.fstat(number).st_mode, fcntl.fcntl(number, fcntl.F_GETFL)
        except OSError:
            continue  # That of the listing itself.
        if stat.S_ISDIR(mode):
            continue
        if stat.S_ISREG(mode) and flags & os.O_ACCMODE == os.O_RDONLY:
            position = os.lseek(number, 0, os.SEEK_CUR)
            try:
                again = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
            except OSError:
                os.dup2(nowhere, number)
                continue
            os.lseek(again, position, os.SEEK_SET)
            os.dup2(again, number)
            os.close(again)
            continue
        os.dup2(nowhere, number)
