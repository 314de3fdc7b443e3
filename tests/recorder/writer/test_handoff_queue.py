"""The queue between the two threads: in order, bounded, and woken only if necessary."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from recorder.format.blocks.full_keyframe import Changes
from recorder.writer import handoff_queue as handover
from recorder.writer.handoff_queue import WAITING_BYTES_MAX, WAKE_BYTES, HandoffQueue
from recorder.writer.jobs import Baseline, KeyframeJob
from sim import Field, Schema, State


def job(*, rotate: bool) -> KeyframeJob:
    """A very small keyframe."""
    return KeyframeJob(1, 2, Baseline(State(Schema(Field("x", "u1"))).layout), None, rotate)


def never(_: Callable[[], bool]) -> None:
    """Fail: nothing should wait here."""
    raise AssertionError("there is room")


@pytest.mark.parametrize(
    ("split_bytes", "enough"), [(None, WAKE_BYTES), (100 * WAKE_BYTES, WAKE_BYTES), (1000, 251), (1, 1), (3, 1), (4, 2)]
)
def test_it_is_woken_when_enough_waits(split_bytes: int | None, enough: int) -> None:
    """And again after as many bytes."""
    queue = HandoffQueue(never, split_bytes)
    for _ in range(2):
        queue.put(bytes(enough))
        assert not queue._wake.is_set()
        queue.put(b"x")
        assert queue._wake.is_set()
        queue._wake.clear()


def test_a_new_file_wakes_it() -> None:
    """A ring removes an old file then, and should not keep much more than requested."""
    queue = HandoffQueue(never)
    queue.put_keyframe(job(rotate=False))
    assert not queue._wake.is_set()
    queue.put_keyframe(job(rotate=True))
    assert queue._wake.is_set()


def test_keyframes_wake_it_before_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a keyframe would be skipped only because the writer has not polled."""
    keyframe = job(rotate=False)
    monkeypatch.setattr(handover, "KEYFRAME_BYTES_MAX", 4 * keyframe.size_bytes)
    queue = HandoffQueue(never)
    queue.put_keyframe(keyframe)
    assert not queue._wake.is_set()
    for count in range(2, 6):
        assert queue.has_room_for_keyframe()
        queue._wake.clear()
        queue.put_keyframe(keyframe)
        assert queue._wake.is_set(), count
    assert not queue.has_room_for_keyframe()  # One more than the limit.
    queue.count_keyframe(keyframe)
    assert queue.has_room_for_keyframe()


def test_in_order_and_counted() -> None:
    """Taken items count as waiting until they are counted as processed."""
    queue, keyframe = HandoffQueue(never), job(rotate=False)
    assert queue.is_done
    queue.put(b"one")
    queue.put_keyframe(keyframe)
    queue.put(b"three")
    assert (queue.waiting_bytes, queue.is_done) == (8, False)
    assert queue.take() == [b"one", keyframe, b"three"]
    assert (queue.waiting_bytes, queue.is_done) == (8, False)
    queue.count_taken(8)
    queue.wake()
    queue.rest()
    assert (queue.waiting_bytes, queue.is_done) == (0, True)
    assert queue.take() == []


def test_when_too_much_waits_the_putter_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until half of it is processed."""
    monkeypatch.setattr(handover, "WAITING_BYTES_MAX", 3 * WAKE_BYTES)
    waited: list[Any] = []

    def wait(condition: Callable[[], bool]) -> None:
        waited.append(queue.waiting_bytes)
        while not condition():
            queue.count_taken(len(queue.items.popleft()))  # type: ignore[arg-type]
        waited.append(queue.waiting_bytes)

    queue = HandoffQueue(wait)
    for _ in range(8):
        queue.put(bytes(WAKE_BYTES // 2 + 1))
    assert len(waited) == 2
    assert waited[0] > 3 * WAKE_BYTES >= 2 * waited[1]
    assert WAITING_BYTES_MAX > 3 * WAKE_BYTES


def test_a_rest_ends_after_a_poll_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wake-up is necessary."""
    monkeypatch.setattr(handover, "POLL_S", 0.001)
    queue = HandoffQueue(never)
    resting = threading.Thread(target=queue.rest)
    resting.start()
    resting.join(10)
    assert not resting.is_alive()


def test_a_keyframe_without_changes_counts_until_it_is_encoded() -> None:
    """It has no bytes, but its full keyframe is in use: the memory of that must not be taken meanwhile."""
    layout = State(Schema(Field("x", "u1"))).layout
    nothing = KeyframeJob(2, 3, Baseline(layout), Changes({}, {}), previous=Baseline(layout))
    assert not nothing.size_bytes
    queue = HandoffQueue(never)
    assert queue.has_little()
    queue.put_keyframe(nothing)
    assert not queue.has_little()
    queue.take()
    assert not queue.has_little()
    queue.count_keyframe(nothing)
    assert queue.has_little()
