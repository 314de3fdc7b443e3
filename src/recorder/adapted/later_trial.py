"""Try an object whose step needs arguments with those of its first recorded steps.

Nothing can be known about such a step before its first call. The trial restores the state at the start in a copy of
the process, makes the recorded steps there, restores and makes them again. The recording itself is not touched.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import attrs

from recorder.adapted.named_differences import differing_paths
from recorder.errors import RecordingWarning
from recorder.processes.isolated_fork import NotIsolatedError, ensure_can_isolate
from recorder.recording_options import RecordingOptions
from recorder.trial.check_command import check_command
from recorder.trial.trajectory import ALL_KEPT_BYTES_MAX, Trajectory
from recorder.trial.trial import try_simulation
from recorder.trial.trial_report import TrialReport
from sim.adapters.plain_object.adapter import PlainObjectSimulation
from sim.kernel.plain_data import encode_plain
from sim.kernel.simulation import Simulation, as_simulation
from sim.user_warning import warn_user

STEPS = 8


def can_be_tried_later() -> bool:
    """Return True if a copy of this process can be made."""
    try:
        ensure_can_isolate()
    except NotIsolatedError:
        return False
    return True


class LaterTrial:
    """The first steps of a recording, and their trial."""

    def __init__(
        self, simulation: PlainObjectSimulation, options: RecordingOptions, path: str | os.PathLike[str], *, quiet: bool
    ) -> None:
        """simulation: as it is recorded, in the state of tick 0. path: of the tape, for messages."""
        self._object = simulation
        self._simulation: Simulation = as_simulation(simulation)
        self._options = options
        self._path = os.fspath(path)
        self._quiet = quiet
        self._begin()

    def _begin(self) -> None:
        state = self._simulation.state
        self._run = Trajectory(0, [], [state.hash()], [], {0: state.snapshot()})

    @property
    def is_due(self) -> bool:
        """True once there are enough steps."""
        return self._run.ticks >= STEPS

    def add(self, inputs: Any) -> None:
        """Add a step that was made with these inputs and recorded."""
        self._run.inputs.append(encode_plain(inputs))
        state = self._simulation.state
        self._run.hashes.append(state.hash())
        if state.layout.size_bytes * STEPS <= ALL_KEPT_BYTES_MAX:
            self._run.states[self._run.ticks] = state.snapshot()  # To name the fields of a difference.

    def begin_again(self) -> bool:
        """After a step that raised: begin with the present state, and return True, if there is no other step."""
        if self._run.ticks:
            return False
        self._begin()
        return True

    def run(self) -> TrialReport | None:
        """Try the steps, print one line unless quiet, and warn of each difference; None if there are no steps."""
        run = self._run
        if not run.ticks:
            return None
        self._object.pending = None  # The call that has just been made; the trial makes those in its inputs.
        report = try_simulation(self._simulation, self._options.trial_ms, name_fields=differing_paths, recorded=run)
        command = check_command(self._object, self._path)
        report = attrs.evolve(report, given="with the recorded arguments").with_command(command)
        for finding in report.findings:
            warn_user(
                f"{finding}. The recording continues, and may not replay exactly: replay verify compares every tick "
                "(trial_ms=0 records without this trial)",
                RecordingWarning,
            )
        if not self._quiet:
            print(f"recording {self._path}: {report.line(is_warned=True)}", file=sys.stderr)
        return report
