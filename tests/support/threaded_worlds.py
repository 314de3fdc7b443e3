"""Simulations with threads of their own, which a forked child lacks: its step would wait for them forever."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sim import Field, Schema, State

POOL = ThreadPoolExecutor(1)
LOCK = threading.Lock()


class Plain:
    """Without any thread."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (4,))))

    def step(self, inputs: Any) -> None:
        self.state["x"][:] += inputs


class OtherPlain(Plain):
    """A version that differs at tick 13."""

    def step(self, inputs: Any) -> None:
        super().step(inputs + (inputs == 12))


STEPS: list[int] = []


class Counting(Plain):
    """Keeps a count in its module, which the second keyframe lacks."""

    def step(self, inputs: Any) -> None:
        STEPS.append(inputs)
        super().step(inputs + (inputs == 10 and len(STEPS) < 5))


class Slow(Plain):
    """One step takes longer than a worker that hangs is given, and does something."""

    def step(self, inputs: Any) -> None:
        if inputs == 5:
            end_s = time.monotonic() + 3
            while time.monotonic() < end_s:
                sum(range(1000))
        super().step(inputs)


class Lazy(Plain):
    """Its thread is started by the first step: nothing is seen when the simulation is made."""

    def step(self, inputs: Any) -> None:
        self.state["x"][:] += POOL.submit(int, inputs).result()


class Threaded(Lazy):
    """Its thread is started when the simulation is made; the states are those of Plain."""

    def __init__(self) -> None:
        super().__init__()
        POOL.submit(int, 3).result()


class OtherThreaded(Threaded):
    """A version that differs at tick 13."""

    def step(self, inputs: Any) -> None:
        super().step(inputs + (inputs == 12))


class Locked(Plain):
    """Takes a lock in each step from the eighth on, counted by the state."""

    def step(self, inputs: Any) -> None:
        if self.state["x"][0] >= 21:  # 0 + 1 + … + 6
            with LOCK:
                super().step(inputs)
        else:
            super().step(inputs)


class Stuck(Plain):
    """Never ends its eleventh step in a process that has not set a variable."""

    def step(self, inputs: Any) -> None:
        if inputs == 10 and "THREADED_WORLDS_GO" not in os.environ:
            threading.Event().wait()
        super().step(inputs)


def hold_lock_at_fork() -> None:
    """Start a thread that holds the lock until this process has been forked."""
    forked, holds = threading.Event(), threading.Event()
    os.register_at_fork(after_in_parent=forked.set)

    def hold() -> None:
        with LOCK:
            holds.set()
            forked.wait()

    threading.Thread(target=hold, daemon=True).start()
    holds.wait()
