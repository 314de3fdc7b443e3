"""Forks of a process that reads tapes at URLs: its locks and fsspec's thread are no hazard for the copies."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from optional_packages import needs

needs("fsspec", "aiohttp")

import web_store  # noqa: E402
from web_store import WebStore  # noqa: E402

from recorder.location.tape_url import TapeUrl  # noqa: E402
from recorder.processes.fork_call import in_a_copy  # noqa: E402
from recorder.processes.fork_pool import ForkPool  # noqa: E402
from recorder.storage.remote import file_system  # noqa: E402
from replayer import Tape, verify_tape  # noqa: E402

from small_worlds import Walkers, record  # noqa: E402


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A tape of 24 intervals at a web server."""
    record(tmp_path / "run.tape", Walkers(), [[[1, 2]]] * 120, keyframe_interval_ticks=5)
    with web_store.serving() as store:
        yield _put(store, tmp_path / "run.tape")


def _put(store: WebStore, tape: Path) -> str:
    store.files["/run.tape"] = tape.read_bytes()
    return f"{store.address}/run.tape"


def test_a_lock_that_a_thread_holds_at_the_fork_does_not_stop_the_copy(url: str) -> None:
    """The thread does not exist in the copy, which would wait for it forever."""
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with file_system._lock:
            holding.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    try:
        assert in_a_copy(lambda: {"ticks": _last_tick(url)}) == {"ticks": 120}
    finally:
        done.set()
        thread.join()


def _last_tick(url: str) -> int:
    with Tape(url) as tape:
        return tape.last_tick


@pytest.mark.seldom(0.18)
def test_threads_that_read_while_processes_are_forked(url: str) -> None:
    """Each fork happens while fsspec's thread has answers under way; a copy that hung would be an error."""
    ended, reads = threading.Event(), list[int]()

    def read() -> None:
        while not ended.is_set():
            reads.append(_last_tick(url))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        report = verify_tape(TapeUrl(url, cache_bytes=8192, read_ahead_bytes=4096), Walkers, pool=ForkPool(2, 20.0))
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert sys.modules["fsspec.asyn"].iothread[0].is_alive()
    assert len(reads) > 1
    assert report.ok
    assert report.verified_ticks == 121
