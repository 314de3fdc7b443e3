"""What ``record run`` and ``record resume`` do alike: make the user's simulation, run it to its end, watched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from recorder.commands.run_loop import run_and_report
from recorder.exit_codes import UsageError
from recorder.factory_spec import load_factory
from recorder.runs.input_source import InputSource
from recorder.scenarios.run_scenario import raced_inputs
from recorder.scenarios.violation_watch import ViolationWatch
from recorder.session.recorder import Recorder


def run_watched(
    recorder: Recorder, input_source: InputSource, last_tick: int, found: ViolationWatch, **how: Any
) -> int:
    """Run up to last_tick, watched for violations; the exit code."""
    found.begin(recorder.simulation, recorder.tick)
    with raced_inputs(recorder.simulation, input_source.inputs) as fed:
        return run_and_report(recorder, attrs.evolve(input_source, inputs=fed), last_tick, watch=found.watch, **how)


def notes_of(ticks: int, players: dict[str, str], inputs: Path | None) -> dict[str, Any]:
    """What a resume has to know of how the run was started."""
    notes: dict[str, Any] = {"ticks": ticks}
    return notes | ({"players": players} if players else {}) | ({"inputs": str(inputs)} if inputs is not None else {})


def simulation_of(sim: str) -> Any:
    """The simulation that --sim names. Raises UsageError, TypeError if it needs arguments."""
    try:
        factory = load_factory(sim)
    except ValueError as error:
        raise UsageError(f"--sim {error}") from None
    return factory()
