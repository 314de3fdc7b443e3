"""Shared steps of ``record run`` and ``record resume``: make the user's simulation, run it and watch for violations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from recorder.commands.run_loop import run_and_report
from recorder.exit_codes import UsageError
from recorder.factory_spec import load_factory
from recorder.runs.input_source import InputSource
from recorder.scenarios.run_scenario import raced_inputs
from recorder.scenarios.shards.shard_tapes import shard_tapes_beside
from recorder.scenarios.violation_watch import ViolationWatch
from recorder.session.recorder import Recorder
from sim.kernel.plain_data import encode_plain
from sim.kernel.state import State

if TYPE_CHECKING:
    from recorder.scenarios.shards.shard_checkpoints import ShardCheckpoints


def run_watched(
    recorder: Recorder,
    input_source: InputSource,
    last_tick: int,
    violations: ViolationWatch,
    checkpoints: ShardCheckpoints | None = None,
    **options: Any,
) -> int:
    """Run up to last_tick and watch for violations; return the exit code.

    checkpoints: of a simulation in shards, written when they are due. options: of run_and_report.
    """
    violations.begin(recorder.simulation, recorder.tick)
    with (
        raced_inputs(recorder.simulation, input_source.inputs) as inputs,
        shard_tapes_beside(recorder) as watch_shards,
    ):
        encoded = b""

        def noted_inputs(tick: int, state: State) -> Any:
            nonlocal encoded
            found = inputs(tick, state)
            encoded = encode_plain(found) if watch_shards is not None else b""  # A step may change its inputs.
            return found

        def watch(simulation: Any, tick: int) -> None:
            violations.watch(simulation, tick)
            if watch_shards is not None:
                watch_shards(tick, encoded)
            if checkpoints is not None:
                checkpoints.write_if_due(simulation.shards, simulation.state, tick, recorder.meta)

        input_source = attrs.evolve(input_source, inputs=noted_inputs)
        return run_and_report(recorder, input_source, last_tick, watch=watch, **options)


def notes_of(ticks: int, players: dict[str, str], inputs: Path | None, shards: int | None = None) -> dict[str, Any]:
    """Return the notes that a resume needs: how the run was started."""
    notes: dict[str, Any] = {"ticks": ticks} | ({"shards": shards} if shards else {})
    return notes | ({"players": players} if players else {}) | ({"inputs": str(inputs)} if inputs is not None else {})


def simulation_of(sim: str) -> Any:
    """Make the simulation that --sim names. Raises UsageError, TypeError if it needs arguments."""
    try:
        factory = load_factory(sim)
    except ValueError as error:
        raise UsageError(f"--sim {error}") from None
    return factory()
