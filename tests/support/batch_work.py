"""The work of the workers in tests of batches, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tiny_roles import Ring
from waiting import wait_until

from recorder.scenarios.batch import Job, RunRecord, run_job
from sim.scenario.results.result import ScenarioResult


def dies_once(job: Job) -> RunRecord:
    """Run the job; the worker of job 3 dies the first time, leaving a file next to the tape's path."""
    if job.index == 3 and job.tape is not None:
        mark = job.tape.with_suffix(".died")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return run_job(job)


def always_dies(job: Job) -> RunRecord:
    """Run the job; the worker of job 3 always dies."""
    if job.index == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_job(job)


def dies_with_a_begun_tape(job: Job) -> RunRecord:
    """Run the job; the worker of job 1 dies the first time, when it has begun the tape."""
    assert job.tape is not None
    mark = job.tape.with_suffix(".begun")
    if job.index == 1 and not mark.exists():
        mark.touch()
        job.tape.write_bytes(b"begun")
        os.kill(os.getpid(), signal.SIGKILL)
    return run_job(job)


class Rings:
    """A host with three scenarios: one violates a property, one violates the host's own rule."""

    def scenarios(self) -> Mapping[str, Mapping[str, Any]]:
        """The scenarios by name."""
        quiet = [{"name": "quiet", "kind": "always", "when": "in_flight < 4"}]
        return {
            "plain": {"steps": 21},
            "slow": {"steps": 21, "network": {"latency_ms": 3}, "properties": quiet},
            "short": {"steps": 3},
        }

    def make(self, name: str) -> Ring:  # noqa: ARG002
        """Make a ring."""
        return Ring()

    def inputs(self, name: str) -> None:  # noqa: ARG002
        """Return no inputs."""
        return

    def functions(self, name: str) -> Mapping[str, Any]:  # noqa: ARG002
        """Return no functions."""
        return {}

    def failures(self, name: str, result: ScenarioResult) -> Sequence[str]:
        """A run of fewer than 10 rounds fails."""
        return [f"{name} has {result.final_tick} rounds"] if result.final_tick < 10 else []


def tapes_in(folder: Path) -> dict[str, bytes]:
    """The tapes of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tape"))}


def always_dies_late(job: Job) -> RunRecord:
    """Run the job; the worker of job 3 always dies, after some others are done."""
    if job.index == 3:
        assert job.tape is not None
        folder = job.tape.parent
        wait_until(lambda: len(list(folder.glob("*.tape"))) >= 3)  # At most one of them is still being written.
        os.kill(os.getpid(), signal.SIGKILL)
    return run_job(job)


def first_alone(job: Job) -> RunRecord:
    """Run job 0; the others write the process id of their worker, and never end."""
    assert job.tape is not None
    if job.index > 0:
        job.tape.write_bytes(b"begun")
        job.tape.with_suffix(".pid").write_text(f"{os.getpid()}\n")
        wait_until(lambda: False, seconds=600)  # A signal right before signal.pause() would be lost.
    return run_job(job)
