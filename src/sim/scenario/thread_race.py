"""The threaded backend: racing threads decide the order in which roles advance, and this order becomes an input.

A step depends on its inputs alone. The order in which the threads finish is therefore one of them, {"race": [role,
...]}, and the tape of a threaded run replays bit for bit. The scheduler still picks the roles that advance in a round:
with a concurrency of 1 there is no race.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import Any, Self

from sim.scenario.config.scenario import Execution


class RacedInputs:
    """A race between the roles of a world, once per round; a context manager that owns the threads."""

    def __init__(self, world: Any, roles: Sequence[str], execution: Execution) -> None:
        self._world, self._roles = world, roles
        self._threads = ThreadPoolExecutor(execution.worker_threads, thread_name_prefix="roles")

    def order(self) -> list[str]:
        """The roles in the order in which their threads finish. Each thread reads the state and changes nothing."""
        racing = {self._threads.submit(self._world.sample, role): role for role in self._roles}
        return [racing[done] for done in as_completed(racing) if done.exception() is None]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown()
