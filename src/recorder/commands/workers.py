"""The options of ``record run`` for a server and workers, and the cluster beside a run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import attrs
from cyclopts import Parameter

from recorder.cluster.organism_cluster import ClusterError, OrganismCluster
from recorder.console.argument_types import LocalPath, Positive
from recorder.console.output import say, say_on_stderr
from recorder.exit_codes import INCOMPLETE, UsageError
from recorder.text import counted
from sim.scenario.scenario_file import Scenario
from sim.worlds.organisms.simulation import WORLD_NAME

INTERVAL_TICKS = 100

Workers = Annotated[
    Positive | None,
    Parameter(help="Run the world organisms by a server and this many workers; the tape is that of one process."),
]
CheckpointsFolder = Annotated[
    LocalPath | None,
    Parameter(
        name="--checkpoints",
        help="With --workers: write checkpoints of the whole to this folder, and begin at the newest one that is there. "
        "kill -USR1 writes one on demand.",
    ),
]
CheckpointInterval = Annotated[
    Positive | None, Parameter(help=f"With --checkpoints: ticks from one to the next; by default {INTERVAL_TICKS}.")
]


def ensure_workers(
    loaded: Scenario, workers: int | None, folder: Path | None, interval: int | None, start: Path | None, blame: str
) -> None:
    """Raise UsageError if these options do not fit together, or not to the scenario."""
    if workers is None:
        if folder is not None or interval is not None:
            raise UsageError(
                "--checkpoints and --checkpoint-interval need --workers: they are checkpoints of the whole"
            )
        return
    if loaded.world.name != WORLD_NAME:
        named = f"the world {loaded.world.name}" if loaded.world.name else "your simulation"
        raise UsageError(f"--workers {workers}: {named} has no server and workers, only the world {WORLD_NAME} does")
    if loaded.provocation is not None:
        raise UsageError(
            f"--workers {workers}: the scenario {loaded.name} has a table [scenario], which runs in one process"
        )
    if start is not None:
        raise UsageError(f"--from {start}: with --workers, a run begins at the newest checkpoint of --checkpoints")
    if blame == "phases":
        raise UsageError("--blame phases: with --workers the phases of a step run in another process")
    if interval is not None and folder is None:
        raise UsageError("--checkpoint-interval needs --checkpoints: the folder for them")


@contextmanager
def workers_beside(
    loaded: Scenario, workers: int | None, folder: Path | None, interval: int | None, last_tick: int, *, quiet: bool
) -> Iterator[tuple[Scenario, int]]:
    """Run the world of a scenario by workers in this context, if there are any.

    Yields the scenario, whose world is then the cluster, and the tick at which it begins. Raises UsageError, OSError.
    """
    if workers is None:
        yield loaded, 0
        return
    interval = (interval or INTERVAL_TICKS) if folder is not None else None
    with OrganismCluster(
        loaded.config,
        workers,
        folder=folder,
        interval_ticks=interval,
        on_notice=lambda text: say_on_stderr(f"cluster: {text}"),
    ) as cluster:
        if cluster.resumed is not None:
            path, tick = cluster.resumed.path, cluster.tick
            if last_tick <= tick:
                raise UsageError(f"{path} is of tick {tick:,}: expected a later last tick, got {last_tick:,}")
            if not quiet:
                say(f"resumed {cluster.simulation_id} from {path} at tick {tick:,}, {counted(workers, 'worker')}")
        with _checkpoints_on_demand(cluster):
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
def _checkpoints_on_demand(cluster: OrganismCluster) -> Iterator[None]:
    def request(_: int, __: FrameType | None) -> None:
        cluster.request_checkpoint()

    before = signal.signal(signal.SIGUSR1, request)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
