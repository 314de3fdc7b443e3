"""The processes of ``record run``: shards, by the engine of --engine and with --checkpoints, or the workers of --workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from recorder.commands.workers import INTERVAL_TICKS, WorkerOptions, checkpoints_on_demand, workers_beside
from recorder.console.output import say, say_on_stderr
from recorder.exit_codes import UsageError
from recorder.scenarios.shards.sharded_scenario import in_shards
from recorder.text import counted
from sim.kernel.registry import Config, Origin
from sim.kernel.simulation import Simulation, restore
from sim.scenario.scenario_file import Scenario

if TYPE_CHECKING:
    from recorder.scenarios.shards.newest_checkpoint import ResumedShards
    from recorder.scenarios.shards.shard_checkpoints import ShardCheckpoints
    from sim.sharding import ShardEngine


@attrs.frozen
class RunInProcesses:
    """A scenario whose world runs in processes, if that is wanted.

    Attributes:
        scenario: makes it. first_tick: at which it begins. checkpoints: writes those of shards; None if none are wanted.
    """

    scenario: Scenario
    first_tick: int
    checkpoints: ShardCheckpoints | None = None


@contextmanager
def processes_beside(
    loaded: Scenario,
    shards: int | None,
    options: WorkerOptions | None,
    last_tick: int,
    output: Path | None,
    notes: Mapping[str, Any],
    *,
    quiet: bool,
) -> Iterator[RunInProcesses]:
    """Run the world of a scenario in shards, or by workers, in this context, if that is wanted.

    output: the tape, which must not exist. notes: of the run. Raises UsageError, OSError.
    """
    options = options if options is not None else WorkerOptions()
    with workers_beside(loaded, options, last_tick, output, quiet=quiet) as (with_workers, first):
        if shards is None:
            yield RunInProcesses(with_workers, first)
            return
        in_shards(loaded, shards, _no_engine)  # A world that does not run in shards is refused before an engine starts.
        with _engines(options.engine) as make_engine:
            sharded = in_shards(loaded, shards, make_engine)
            if options.checkpoints is None:
                yield RunInProcesses(sharded, 0)
                return
            with _with_checkpoints(sharded, shards, options, last_tick, output, notes, quiet=quiet) as run:
                yield run


@contextmanager
def _with_checkpoints(
    sharded: Scenario,
    shards: int,
    options: WorkerOptions,
    last_tick: int,
    output: Path | None,
    notes: Mapping[str, Any],
    *,
    quiet: bool,
) -> Iterator[RunInProcesses]:
    """Begin at the newest checkpoint of the folder, which is locked, and write further ones. Raises UsageError, OSError."""
    from recorder.cluster.checkpoint_folder import CheckpointFolder  # noqa: PLC0415 - most runs need none of these
    from recorder.scenarios.shards.newest_checkpoint import newest_checkpoint  # noqa: PLC0415
    from recorder.scenarios.shards.shard_checkpoints import ShardCheckpoints  # noqa: PLC0415

    assert options.checkpoints is not None
    if output is not None and output.exists():  # Before a checkpoint is read.
        raise UsageError(f"{output} already exists: choose a different name with -o")
    with ExitStack() as stack:
        folder = CheckpointFolder(options.checkpoints)
        stack.callback(folder.close)
        resumed = newest_checkpoint(folder.path, _origin_of(sharded, last_tick), notes, _notice)
        first = 0
        if resumed is not None:
            first, path = resumed.checkpoint.tick, resumed.checkpoint.path
            if last_tick <= first:
                raise UsageError(f"{path} is of tick {first:,}: expected a later last tick, got {last_tick:,}")
            if not quiet:
                say(
                    f"resumed {resumed.checkpoint.simulation_id} from {path} at tick {first:,}, "
                    f"{counted(shards, 'shard')}"
                )
            sharded = _resumed_scenario(sharded, resumed)
        interval = options.checkpoint_interval or INTERVAL_TICKS
        started_at = resumed.checkpoint if resumed is not None else None
        checkpoints = ShardCheckpoints(folder.path, interval, started_at, _notice)
        with checkpoints_on_demand(checkpoints.request):
            yield RunInProcesses(sharded, first, checkpoints)
        if checkpoints.written and not quiet:
            say(f"{counted(len(checkpoints.written), 'checkpoint')} in {folder.path}")


def _origin_of(sharded: Scenario, last_tick: int) -> Origin:
    """The origin of a world in shards. Raises UsageError if there are too many of them, before anything is said."""
    simulation: Any = sharded.make(last_tick)
    origin: Origin = simulation.origin
    return origin


def _resumed_scenario(sharded: Scenario, resumed: ResumedShards) -> Scenario:
    make = sharded.world.make

    def make_resumed(config: Config) -> Simulation:
        simulation = make(config)
        restore(simulation, resumed.snapshot)
        return simulation

    return attrs.evolve(sharded, world=attrs.evolve(sharded.world, make=make_resumed))


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
