"""A copy of the process changes nothing outside itself, and ends in time."""

from __future__ import annotations

import importlib
import mmap
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recorder.processes.isolated_fork import ForkedRun, ensure_can_isolate, run_isolated
from recorder.processes.isolation.refused_calls import denied

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are isolated on Linux only")

LIMIT_S = 20.0


def run(work: Any) -> ForkedRun:
    """Send what work returns."""
    return run_isolated(lambda send: send(work()), LIMIT_S)


def test_results_and_errors_arrive() -> None:
    """Large ones too; what work raised is told from a death."""
    array = np.arange(1 << 20)
    assert np.array_equal(run(lambda: array * 2).messages[0], array * 2)
    ended = run(lambda: 1 // 0)
    assert (ended.messages, ended.exit_code, ended.error) == (
        [],
        1,
        "ZeroDivisionError: integer division or modulo by zero",
    )
    assert run(lambda: os._exit(7)) == ForkedRun([], 7)


def test_the_generators_are_those_of_the_parent() -> None:
    """Python reseeds the random module in a child; this child is an exact copy."""
    state = random.getstate()
    assert run(random.random).messages == [random.random()]
    random.setstate(state)


def test_a_hang_is_ended_with_its_own_copies() -> None:
    """What was sent before counts."""

    def hang(send: Any) -> None:
        send("begun")
        run_isolated(lambda _: signal.pause(), 1000)

    begun_s = time.monotonic()
    assert run_isolated(hang, 0.5) == ForkedRun(["begun"], None)
    assert time.monotonic() - begun_s < LIMIT_S / 2


def _spin() -> None:
    while True:
        pass


def test_a_copy_that_waits_for_its_own_copy_at_work_is_not_waiting() -> None:
    """Nor is one whose other thread works. Only what sleeps as a whole waits for something outside."""

    def with_a_copy(_: Any) -> None:
        run_isolated(lambda _: _spin(), 60.0)

    def with_a_thread(_: Any) -> None:
        thread = threading.Thread(target=_spin)
        thread.start()
        thread.join()

    def with_a_sleeping_copy(_: Any) -> None:
        run_isolated(lambda _: threading.Event().wait(), 60.0)

    limits = {with_a_copy: 0.4, with_a_thread: 0.4, with_a_sleeping_copy: 1.5}
    found = {work.__name__: run_isolated(work, limit_s) for work, limit_s in limits.items()}
    assert [run.exit_code for run in found.values()] == [None] * 3
    was_waiting = {name: run.was_waiting for name, run in found.items()}
    assert was_waiting == {"with_a_copy": False, "with_a_thread": False, "with_a_sleeping_copy": True}


def test_a_copy_that_waits_for_ever_is_ended_before_its_time() -> None:
    """One that works, or whose own copy works while it waits, is not."""
    waited = run_isolated(lambda _: threading.Event().wait(), 600.0, 0.5)
    assert (waited.exit_code, waited.was_waiting) == (None, True)

    def works_at_last(send: Any) -> None:
        for _ in range(4):
            run_isolated(lambda _: _spin(), 0.4)
        send("done")

    worked = run_isolated(works_at_last, 600.0, 0.5)
    assert (worked.messages, worked.exit_code) == (["done"], 0)


def test_files_of_the_parent_stay_as_they_are(tmp_path: Path) -> None:
    """Neither their content nor the position in them; files that the copy opens to write lead nowhere."""
    path, read_path = tmp_path / "log.txt", tmp_path / "read.txt"
    read_path.write_text("one\ntwo\n")
    with path.open("w") as log, read_path.open("rb", buffering=0) as source:
        log.write("before ")
        log.flush()

        def work() -> Any:
            log.write("in the copy")
            log.flush()
            (tmp_path / "new.txt").write_text("never")
            return source.read(3), Path(tmp_path / "read.txt").read_text()

        assert run(work).messages == [(b"one", "one\ntwo\n")]
        assert source.read() == b"one\ntwo\n"
        log.write("after")
    assert path.read_text() == "before after"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log.txt", "read.txt"]


def test_shared_memory_is_the_copys_own() -> None:
    """Of mmap and of multiprocessing: written in the copy, unchanged here."""
    anonymous = mmap.mmap(-1, 4096)
    block = shared_memory.SharedMemory(create=True, size=4096)
    try:

        def work() -> Any:
            anonymous[0] = block.buf[0] = 7
            block.unlink()
            return anonymous[0], block.buf[0]

        assert run(work).messages == [(7, 7)]
        assert (anonymous[0], block.buf[0]) == (0, 0)
    finally:
        block.close()
        block.unlink()
        anonymous.close()


def test_shared_memory_of_others_is_not_opened_to_write_it() -> None:
    """By its name, as the class of multiprocessing opens it even to read. One that is opened to read it alone is let through."""
    memory: Any = importlib.import_module("_posixshmem")
    block = shared_memory.SharedMemory(create=True, size=4096)
    try:

        def writes() -> Any:
            try:
                shared_memory.SharedMemory(block.name).buf[0] = 7
            except PermissionError:
                return denied()
            return "nothing was refused"

        def reads() -> Any:
            opened = memory.shm_open(f"/{block.name}", os.O_RDONLY)
            return os.read(opened, 1), denied()

        block.buf[0] = 5
        assert run(writes).messages == ["shares memory"]
        assert block.buf[0] == 5
        assert run(reads).messages == [(b"\x05", None)]
    finally:
        block.close()
        block.unlink()


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda path: path.unlink(), "writes files"),
        (lambda path: path.rename(path.with_suffix(".b")), "writes files"),
        (lambda path: os.open(path, os.O_WRONLY), "writes files"),
        (lambda path: path.with_suffix(".c").mkdir(), "writes files"),
        (lambda _: subprocess.run(["/bin/true"], check=True), "starts processes"),
        (lambda _: os.fork(), "starts processes"),
        (lambda _: socket.create_connection(("127.0.0.1", 9)), "uses the network"),
        (lambda _: os.kill(os.getppid(), 0), "sends signals"),
        (lambda path: os.mkfifo(path.with_suffix(".d")), "writes files"),
        (lambda _: socket.gethostbyname("localhost"), "uses the network"),
        (lambda _: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0), "sends signals"),
        (lambda _: multiprocessing.get_context("spawn").Process(target=print).start(), "starts processes"),
        (lambda _: shared_memory.SharedMemory(create=True, size=10), "shares memory"),
        (lambda _: multiprocessing.get_context("fork").Lock(), "makes locks for other processes"),
    ],
)
def test_what_would_be_visible_is_refused(call: Any, reason: str, tmp_path: Path) -> None:
    """The first reason is kept, also if the work swallows the error."""
    path = tmp_path / "a.txt"
    path.write_text("kept")

    def work() -> Any:
        try:
            call(path)
        except PermissionError:
            return denied()
        return "nothing was refused"

    assert run(work).messages == [reason]
    assert path.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [path]


def test_sockets_of_the_parent_are_not_the_copys() -> None:
    """A copy that speaks to a worker of its parent would disturb the two."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert run(lambda: os.write(ours.fileno(), b"x")).messages == [1]
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_a_program_that_reaps_its_children_itself_gets_the_results() -> None:
    """The exit code is not known then; the messages are."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run(lambda: "result").messages == ["result"]
        assert run_isolated(lambda _: signal.pause(), 0.2).exit_code is None
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_this_process_can_be_isolated() -> None:
    """Otherwise the other tests here prove nothing."""
    ensure_can_isolate()
    assert denied() is None
