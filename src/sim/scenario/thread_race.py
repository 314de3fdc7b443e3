"""The threaded backend: in which order roles are advanced is decided by threads that race, and becomes an input.

What a step does follows from its inputs alone; so the order in which threads come in is given to the step as part of
them, {"race": [role, ...]}, and a tape of a threaded run replays bit for bit. Which roles go on in a round is still the
scheduler's business: with a concurrency of 1 there is nothing to race for.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import Any, Self

from sim.scenario.config.scenario import Execution


class RacedInputs:
    """Lets the roles of a world race in each round; a context manager, whose threads end with it."""

    def __init__(self, world: Any, roles: Sequence[str], execution: Execution) -> None:
        self._world, self._roles = world, roles
        self._threads = ThreadPoolExecutor(execution.worker_threads, thread_name_prefix="roles")

    def order(self) -> list[str]:
        """The roles in the order in which their threads came in; each looks at the state and changes nothing."""
        racing = {self._threads.submit(self._world.sample, role): role for role in self._roles}
        return [racing[done] for done in as_completed(racing) if done.exception() is None]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown()
