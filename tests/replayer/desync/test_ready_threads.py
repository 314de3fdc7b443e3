"""Threads that are ready at once, or late: a step that takes what is ready by then gives two states, and one that waits gives one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from recorder.ambient.outside.outside_read import THREADS
from recorder.processes.fork_call import in_a_copy
from replayer.desync.stand_ins import LATE, READY, use_stand_ins


def polls() -> int:
    """Take the result of a thread that outlives this, if it is there."""
    asked, made = queue.Queue[int](), dict[int, int]()

    def work() -> None:
        while True:
            one = asked.get()
            made[one] = sum(range(one * 20_000))

    threading.Thread(target=work, daemon=True).start()
    asked.put(7)
    return int(7 in made)


def waits() -> int:
    """Wait for a thread, and take its result."""
    made = dict[int, int]()
    thread = threading.Thread(target=lambda: made.setdefault(7, 1))
    thread.start()
    thread.join()
    return made.get(7, 0)


@pytest.mark.parametrize(("step", "ready", "late"), [(polls, 1, 0), (waits, 1, 1)])
def test_only_a_step_that_does_not_wait_depends_on_it(step: Callable[[], int], ready: int, late: int) -> None:
    def run(number: int) -> dict[str, Any]:
        use_stand_ins((THREADS,), lambda _: False, number)
        return {"found": step()}

    for number, found in ((READY, ready), (LATE, late)):
        for _ in range(2):
            assert in_a_copy(lambda number=number: run(number)) == {"found": found}  # type: ignore[misc]
