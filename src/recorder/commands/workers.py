"""The options of ``record run`` for a server and workers, and the cluster beside a run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Positive
from recorder.console.output import say, say_on_stderr
from recorder.exit_codes import INCOMPLETE, UsageError
from recorder.text import counted
from sim.scenario.scenario_file import Scenario

INTERVAL_TICKS = 100
WORLD_NAME = "organisms"  # The world and its cluster are imported where they are used: most runs need neither.


@Parameter(name="*")
@attrs.frozen
class WorkerOptions:
    """The options for a server and workers.

    Attributes:
        workers: their number; None runs the world in this process.
        checkpoints: the folder of checkpoints of the whole. checkpoint_interval: ticks from one to the next.
        engine: see named_engine.
    """

    workers: Annotated[
        Positive | None,
        Parameter(help="Run the world organisms by a server and this many workers; the tape is that of one process."),
    ] = None
    checkpoints: Annotated[
        LocalPath | None,
        Parameter(
            help="With --workers or --shards: write checkpoints of the whole to this folder, and begin at the newest one "
            "that is there. kill -USR1 writes one on demand."
        ),
    ] = None
    checkpoint_interval: Annotated[
        Positive | None, Parameter(help=f"With --checkpoints: ticks from one to the next; by default {INTERVAL_TICKS}.")
    ] = None

    engine: Annotated[
        str | None,
        Parameter(
            help="With --workers or --shards: where they run: processes (the default; of this machine), ray (a Ray that is "
            "started here for this command), or ray:ADDRESS (a cluster; workers need a folder of --checkpoints that its "
            "machines share)."
        ),
    ] = None

    def ensure_fit(self, loaded: Scenario, shards: int | None, start: Path | None, blame: str) -> None:
        """Raise UsageError if the options do not fit together, or not to the scenario, --from and --blame."""
        if self.checkpoint_interval is not None and self.checkpoints is None:
            raise UsageError("--checkpoint-interval needs --checkpoints: the folder for them")
        if self.workers is None:
            if shards is None and (self.checkpoints, self.engine) != (None, None):
                raise UsageError("--checkpoints and --engine need --workers or --shards: add one of them")
            if self.checkpoints is not None:
                self._ensure_checkpoints_fit(loaded, start)
            return
        given = f"--workers {self.workers}"
        if loaded.world.name != WORLD_NAME:
            named = f"the world {loaded.world.name}" if loaded.world.name else "your simulation"
            raise UsageError(f"{given}: {named} has no server and workers, only the world {WORLD_NAME} does")
        if loaded.provocation is not None:
            raise UsageError(f"{given}: the scenario {loaded.name} has a table [scenario], which runs in one process")
        if start is not None:
            raise UsageError(f"--from {start}: with --workers, a run begins at the newest checkpoint of --checkpoints")
        if blame == "phases":
            raise UsageError("--blame phases: with --workers the phases of a step run in another process")

    def _ensure_checkpoints_fit(self, loaded: Scenario, start: Path | None) -> None:
        """Raise UsageError if a world in shards has no checkpoints in this scenario, or with --from."""
        if loaded.provocation is not None:
            raise UsageError(
                f"--checkpoints: the scenario {loaded.name} has a table [scenario], whose state is not divided: "
                "set its checkpoint_interval"
            )
        if start is not None:
            raise UsageError(f"--from {start}: with --checkpoints, a run begins at the newest checkpoint there")


@contextmanager
def workers_beside(
    loaded: Scenario, options: WorkerOptions | None, last_tick: int, output: Path | None, *, quiet: bool
) -> Iterator[tuple[Scenario, int]]:
    """Run the world of a scenario by workers in this context, if there are any.

    output: the tape, which must not exist. Yields the scenario, whose world is then the cluster, and the tick at which it
    begins. Raises UsageError, OSError.
    """
    if options is None or options.workers is None:
        yield loaded, 0
        return
    if output is not None and output.exists():  # Before processes are started, and a checkpoint is read.
        raise UsageError(f"{output} already exists: choose a different name with -o")
    from recorder.cluster.named_engine import named_engine  # noqa: PLC0415 - see WORLD_NAME
    from recorder.cluster.organism_cluster import ClusterError, OrganismCluster  # noqa: PLC0415

    workers, folder = options.workers, options.checkpoints
    interval = (options.checkpoint_interval or INTERVAL_TICKS) if folder is not None else None
    with (
        named_engine(options.engine) as engine,
        OrganismCluster(
            loaded.config,
            workers,
            folder=folder,
            interval_ticks=interval,
            engine=engine,
            on_notice=lambda text: say_on_stderr(f"cluster: {text}"),
        ) as cluster,
    ):
        if cluster.resumed is not None:
            path, tick = cluster.resumed.path, cluster.tick
            if last_tick <= tick:
                raise UsageError(f"{path} is of tick {tick:,}: expected a later last tick, got {last_tick:,}")
            if not quiet:
                say(f"resumed {cluster.simulation_id} from {path} at tick {tick:,}, {counted(workers, 'worker')}")
        with checkpoints_on_demand(cluster.request_checkpoint):
            try:
                yield (
                    attrs.evolve(loaded, world=attrs.evolve(loaded.world, make=lambda _: cluster.simulation)),
                    cluster.tick,
                )
            except ClusterError as error:
                raise UsageError(str(error), INCOMPLETE) from None
        if cluster.checkpoints and not quiet:
            say(f"{counted(len(cluster.checkpoints), 'checkpoint')} in {folder}")


@contextmanager
def checkpoints_on_demand(request: Callable[[], None]) -> Iterator[None]:
    """Have SIGUSR1 ask for a checkpoint in this context; one that came while the command began asks, too."""
    before = signal.signal(signal.SIGUSR1, lambda *_: request())
    if getattr(before, "came", False):  # See simulation_flight_recorder.
        request()
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
