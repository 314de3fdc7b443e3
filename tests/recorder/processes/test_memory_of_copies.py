"""What a forked copy writes to shared memory is not seen by other copies, nor by the process that forked it."""

from __future__ import annotations

import mmap
import multiprocessing
import operator
import os
import sys
from collections.abc import Callable, Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recorder.processes.fork_pool import ForkPool
from recorder.processes.pool import Report, results_in_order
from recorder.processes.private_memory import is_in_common

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of the memory")

COPIES = 6
FIRST = 7


def in_copies(work: Callable[[], Any]) -> list[Any]:
    """What work gives in each of several copies, of which two may run at a time."""

    def of_item(_: int, __: Report) -> Any:
        return work()

    return list(results_in_order(ForkPool(2), of_item, range(COPIES), name=str))


def own_map(_: Path) -> Iterator[Any]:
    yield mmap.mmap(-1, 4096)


def numbers(_: Path) -> Iterator[Any]:
    yield multiprocessing.RawArray("B", 10)


def numbers_with_a_lock(_: Path) -> Iterator[Any]:
    yield multiprocessing.Array("B", 10)


def block(_: Path) -> Iterator[Any]:
    shared = SharedMemory(create=True, size=4096)
    yield shared.buf
    shared.close()
    shared.unlink()


def array_of_a_file(folder: Path) -> Iterator[Any]:
    yield np.memmap(folder / "ram.bin", np.uint8, "w+", shape=(4096,))


@pytest.mark.parametrize("made", [own_map, numbers, numbers_with_a_lock, block, array_of_a_file])
def test_each_copy_begins_with_the_content_that_this_process_had(
    made: Callable[[Path], Iterator[Any]], tmp_path: Path
) -> None:
    for memory in made(tmp_path):
        memory[3] = FIRST

        def count(memory: Any = memory) -> int:
            for _ in range(50):
                memory[3] += 1
                os.sched_yield()
            return int(memory[3])

        assert in_copies(count) == [FIRST + 50] * COPIES
        assert memory[3] == FIRST
        memory[3] = FIRST + 1
        assert in_copies(count) == [FIRST + 51] * COPIES


def test_memory_that_was_written_when_a_copy_died_is_put_back() -> None:
    shared = SharedMemory(create=True, size=4096)

    def count() -> int:
        shared.buf[3] += 1
        if shared.buf[5]:
            os._exit(3)
        return shared.buf[3]

    try:
        shared.buf[5] = 1
        with pytest.raises(RuntimeError, match="exit code 3"):
            in_copies(count)
        assert list(shared.buf[:6]) == [0, 0, 0, 0, 0, 1]
        shared.buf[5] = 0
        assert in_copies(count) == [1] * COPIES
    finally:
        shared.close()
        shared.unlink()


def test_two_maps_of_one_file_stay_the_same_memory_in_a_copy() -> None:
    file = os.memfd_create("twice")
    os.truncate(file, 8192)
    one, part = mmap.mmap(file, 8192), mmap.mmap(file, 4096, offset=4096)

    def count() -> list[int]:
        one[4096] += 1
        part[1] = FIRST
        return [part[0], one[4097]]

    assert in_copies(count) == [[1, FIRST]] * COPIES
    assert (one[4096], one[4097]) == (0, 0)
    os.close(file)


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_processes_that_a_copy_starts_share_the_memory_of_the_copy(way: str) -> None:
    counted = multiprocessing.get_context(way).RawArray("q", 2)

    def count() -> int:
        counted[1] += 1
        process = multiprocessing.get_context(way).Process(target=operator.setitem, args=(counted, 0, FIRST))
        process.start()
        process.join()
        return int(sum(counted))

    assert in_copies(count) == [1 + FIRST] * COPIES
    assert list(counted) == [0, 0]


def test_a_block_is_found_by_its_name_in_a_copy() -> None:
    shared = SharedMemory(create=True, size=4096)

    def count() -> int:
        shared.buf[0] += 1
        again = SharedMemory(shared.name)
        found = again.buf[0]
        again.close()
        return found

    try:
        assert in_copies(count) == [1] * COPIES
        assert shared.buf[0] == 0
    finally:
        shared.close()
        shared.unlink()


def answer(asked: Any, answered: Any, memory: Any) -> None:
    while asked.get():
        memory[1] = memory[0] + FIRST
        answered.put(1)


def test_a_process_that_was_there_before_shares_the_memory_with_one_copy_at_a_time() -> None:
    memory = multiprocessing.RawArray("q", 2)
    context = multiprocessing.get_context("fork")
    asked, answered = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=answer, args=(asked, answered, memory), daemon=True)
    process.start()

    def ask() -> int:
        memory[0] += 1
        asked.put(1)
        answered.get()
        return int(memory[1])

    try:
        assert is_in_common()
        assert in_copies(ask) == [1 + FIRST] * COPIES
        assert list(memory) == [0, 0]
    finally:
        asked.put(0)
        process.join()
