"""Buffers are used again, and those of a state that has grown are released."""

from __future__ import annotations

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
