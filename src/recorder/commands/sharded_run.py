"""The shards of ``record run --shards``, by the engine of --engine; or the workers of --workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recorder.commands.workers import WorkerOptions, workers_beside
from recorder.console.output import say_on_stderr
from recorder.scenarios.shards.sharded_scenario import in_shards
from sim.scenario.scenario_file import Scenario

if TYPE_CHECKING:
    from sim.sharding import ShardEngine


@contextmanager
def processes_beside(
    loaded: Scenario,
    shards: int | None,
    options: WorkerOptions | None,
    last_tick: int,
    output: Path | None,
    *,
    quiet: bool,
) -> Iterator[tuple[Scenario, int]]:
    """Run the world of a scenario in shards, or by workers, in this context, if that is wanted.

    output: the tape, which must not exist. Yields the scenario, and the tick at which its world begins. Raises UsageError,
    OSError.
    """
    with workers_beside(loaded, options, last_tick, output, quiet=quiet) as (with_workers, first):
        if shards is None:
            yield with_workers, first
            return
        in_shards(loaded, shards, _no_engine)  # A world that does not run in shards is refused before an engine starts.
        with _engines(options.engine if options is not None else None) as make_engine:
            yield in_shards(loaded, shards, make_engine), first


@contextmanager
def _engines(name: str | None) -> Iterator[Callable[[], ShardEngine]]:
    """What makes the engine of a name, which is connected in the context. Raises UsageError."""
    from recorder.cluster.named_engine import named_engine  # noqa: PLC0415 - most runs need none of these
    from recorder.cluster.process_actors import ProcessEngine  # noqa: PLC0415
    from recorder.cluster.shard_actors import ShardActors  # noqa: PLC0415
    from recorder.processes.shards.shard_processes import ShardProcesses  # noqa: PLC0415

    with named_engine(name) as engine:
        if isinstance(engine, ProcessEngine):
            yield lambda: ShardProcesses(on_notice=_notice)
        else:
            yield lambda: ShardActors(engine, on_notice=_notice)


def _no_engine() -> ShardEngine:
    raise AssertionError


def _notice(text: str) -> None:
    say_on_stderr(f"shards: {text}")
