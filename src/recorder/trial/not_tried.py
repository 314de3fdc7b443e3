"""Why nothing was tried before a recording, in a sentence."""

from __future__ import annotations

import math

from recorder.processes.isolated_fork import ForkedRun
from recorder.text import counted
from recorder.trial.trajectory import Trajectory

NEEDED_MS_PER_S = 3000  # Of the budget, for each second of a run that is too slow to be repeated.


def ended_text(ended: ForkedRun, limit_s: float) -> str:
    """Why a copy has no answer. limit_s: the time that it had."""
    if ended.exit_code is None:
        if ended.was_waiting:
            return (
                f"after {limit_s:.2g} s a copy of the process was waiting: for time to pass, or for a thread or a "
                "device, which only the process itself has"
            )
        return f"its first steps were not over after {limit_s:.2g} s; a larger trial_ms gives them more time"
    if ended.error is not None:
        return f"it raised {ended.error}"
    return f"a copy of the process died with exit code {ended.exit_code}"


def slow_text(run: Trajectory) -> str:
    """That a run left no time to repeat it, and how much time a trial needs."""
    needed_ms = math.ceil(run.seconds * NEEDED_MS_PER_S / 100) * 100
    took = f"{counted(run.ticks, 'step')} took {run.seconds:.2g} s"
    return f"{took}, which left no time to repeat that; trial_ms={needed_ms} gives a trial enough"
