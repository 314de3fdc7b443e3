"""Run one or many scenarios: with or without a tape, with checkpoints, in processes, in sweeps of parameters."""

from recorder.scenarios.batch import run_many
from recorder.scenarios.checkpoints import Checkpoint, discover_checkpoints, resume_checkpoint
from recorder.scenarios.nested_run import NestedResult, SiteResult, run_nested
from recorder.scenarios.run_scenario import run, run_with_scenario

__all__ = [
    "Checkpoint",
    "NestedResult",
    "SiteResult",
    "discover_checkpoints",
    "resume_checkpoint",
    "run",
    "run_many",
    "run_nested",
    "run_with_scenario",
]


def __dir__() -> list[str]:
    return sorted(__all__)
