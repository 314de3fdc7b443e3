"""The threaded backend: in which order roles are advanced is decided by threads that race, and becomes an input.

What a step does follows from its inputs alone; so the order in which threads come in is given to the step as part of
them, and a tape of a threaded run replays bit for bit. With a concurrency of 1 there is nothing to race for: the order
is the canonical one.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import Any, Self

from sim.scenario.config import Execution


class RacedOrders:
    """Lets the roles of a world race in each round; a context manager, whose threads end with it."""

    def __init__(self, world: Any, roles: Sequence[str], execution: Execution) -> None:
        self._world, self._roles = world, roles
        self._concurrency = execution.scheduler_concurrency
        self._threads = ThreadPoolExecutor(execution.worker_threads, thread_name_prefix="roles")

    def order(self) -> list[str]:
        """The roles in the order in which their threads came in; each look at the state and change nothing."""
        found: list[str] = []
        for start in range(0, len(self._roles), self._concurrency):
            group = self._roles[start : start + self._concurrency]
            racing = {self._threads.submit(self._world.sample, role): role for role in group}
            found += [racing[done] for done in as_completed(racing) if done.result() is not None]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown()
