"""Buffers are used again, and those of a state that has grown are released."""

from __future__ import annotations

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
