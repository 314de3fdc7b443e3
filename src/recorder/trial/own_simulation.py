"""The trial of a simulation that a Recorder was given: silent unless it shows something."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from recorder.ambient.outside.outside_note import NotedReads
from recorder.errors import RecordingWarning
from recorder.recording_options import RecordingOptions
from recorder.trial.check_command import check_command
from sim.kernel.class_names import module_of
from sim.kernel.hooks import HasOrigin, SuggestsInputs, hook
from sim.kernel.registry import ConfigError, UnknownWorldError, find_world
from sim.kernel.simulation import Simulation, inner_of
from sim.user_warning import warn_user

if TYPE_CHECKING:
    from recorder.trial.trial import Player

STATE_BYTES_MAX = 16 << 20  # Copies of a larger state take longer than a trial may.


def warn_of_hidden_state(
    simulation: Simulation, options: RecordingOptions, path: str | os.PathLike[str]
) -> NotedReads | None:
    """Return what the first steps read, if they were tried. Warn with a RecordingWarning if a trial shows that a restored simulation does not run on as before.

    path: of the tape, for messages. Nothing is tried for the worlds of this library, for large states, or if a seek needs no step.
    """
    inner = inner_of(simulation)
    if not options.trial_ms or options.mode == "changes" or module_of(type(inner)).startswith("sim."):
        return None
    if simulation.state.layout.size_bytes > STATE_BYTES_MAX:
        return None
    from recorder.trial.trial import try_simulation  # noqa: PLC0415 - most recordings of this library need no trial

    report = try_simulation(simulation, options.trial_ms, player=player_of(simulation))
    report = report.with_command(check_command(simulation, path))
    for finding in report.findings:
        warn_user(
            f"{type(inner).__qualname__}: {finding} (trial_ms=0 records it without this trial)",
            RecordingWarning,
        )
    return report.reads


def player_of(simulation: Any) -> Player | None:
    """The source of inputs that the simulation suggests, or its world; None if there is none."""
    suggests = hook(inner_of(simulation), SuggestsInputs)
    if suggests is not None:
        return lambda one, seed: inner_of(one).trial_inputs(seed)
    origin = hook(inner_of(simulation), HasOrigin)
    if origin is None or origin.origin is None:
        return None
    try:
        scheduled = find_world(origin.origin.world).inputs(origin.origin.config)
    except (UnknownWorldError, ConfigError):
        return None  # Its world says more when it is needed.

    def player(_: Any, __: int) -> Any:
        ticks = iter(range(1, 1 << 62))
        return lambda: scheduled(next(ticks))

    return player
