"""The engine of the work: processes of this machine by default, or Ray. The one place where a name becomes a pool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from recorder.processes.engines.engine_error import EngineError
from recorder.processes.pool import Pool

PROCESSES, RAY = "processes", "ray"


class Engine(Protocol):
    """A kind of pool, and where it is."""

    def pool(self, workers: int | None = None) -> AbstractContextManager[Pool]:
        """Start or connect to it, and end that with the block.

        workers: the number of items at a time; None for as many as there are processors. Raises EngineError.
        """


def find_engine(engine: str | Engine | None) -> Engine | None:
    """The engine of a name; None for processes of this machine.

    engine: "processes", "ray" for a Ray that is started here for this work alone, "ray:ADDRESS" for a cluster, or an
    engine. Raises EngineError for another name.
    """
    if engine is None or engine == PROCESSES:
        return None
    if not isinstance(engine, str):
        return engine
    from recorder.processes.engines.ray_engine import RayEngine  # noqa: PLC0415 - most work goes to no cluster

    name, _, address = engine.partition(":")
    if name != RAY or engine == "ray:":
        raise EngineError(f"engine {engine!r}: expected processes, ray, or ray:ADDRESS, such as ray:10.0.0.1:6379")
    return RayEngine("ray:" + address) if address.startswith("//") else RayEngine(address or None)


@contextmanager
def engine_pool(
    engine: str | Engine | None, workers: int | None = None, *, other: Pool | None = None
) -> Iterator[Pool | None]:
    """The pool of an engine for the block; None for processes of this machine: the caller chooses which kind.

    engine: see find_engine. workers: see Engine.pool. other: a pool that the caller was given; with it there must be no engine.
    Raises EngineError; ValueError for an engine and a pool.
    """
    found = find_engine(engine)
    if found is None:
        yield other
        return
    if other is not None:
        raise ValueError("expected an engine or a pool, got both")
    with found.pool(workers) as pool:
        yield pool
