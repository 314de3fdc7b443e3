"""Buffers are used again, and those of a state that has grown are released."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.writer.buffer_pool import KEPT_STATES_MAX, BufferPool


def test_a_buffer_is_used_again() -> None:
    pool = BufferPool()
    buffers = [pool.take(1_000), pool.take(600), pool.take(400)]
    for buffer in buffers:
        pool.give(buffer)
    assert {id(pool.take(len(buffer))) for buffer in buffers} == set(map(id, buffers))


def test_the_buffers_of_a_growing_state_are_released() -> None:
    pool = BufferPool()
    for size_bytes in range(1_000, 100_000, 1_000):
        whole, field = pool.take(size_bytes), pool.take(size_bytes // 2)
        pool.give(whole)
        pool.give(field)
    pool.take(100_000)
    assert sum(map(len, pool._free)) <= KEPT_STATES_MAX * 100_000


@pytest.mark.parametrize(("size_bytes", "is_kept"), [(4_000, True), (4_001, False)])
def test_very_large_buffers_are_not_kept(size_bytes: int, *, is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.writer.buffer_pool.KEPT_BUFFER_BYTES_MAX", 4_000)
    pool = BufferPool()
    pool.make_ready(size_bytes)
    assert len(pool._free) == is_kept
    buffer = pool.take(size_bytes)
    pool.give(buffer)
    assert (pool.take(size_bytes) is buffer) == is_kept


def test_the_writer_may_clear_it_while_a_buffer_is_taken() -> None:
    """As it does when it ends with an error: the recording then says which, and not that the pool is empty."""
    pool = BufferPool()

    class Cleared:
        """A buffer during whose look the writer's thread clears the pool."""

        def __len__(self) -> int:
            pool.clear()
            return 1_000

    free: Any = pool._free
    free.extend(Cleared() for _ in range(3))
    assert len(pool.take(600)) == 600
    assert not pool._free
