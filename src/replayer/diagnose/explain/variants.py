"""The sides that ``replay explain`` compares, and the processes that they are run in.

A side is an environment, a version of the code, or an instance that is fresh or used. All else is the same on all
sides; the hash seed, which Python draws anew for each process, is set to 0 where the user has not set it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
import msgpack

from recorder.errors import RecordingError
from recorder.processes.interpreter import PythonProcess, end_all, last_line, module_program, start_python
from replayer.diagnose.explain.step_trace import snapshot_from_plain, snapshot_to_plain
from replayer.diagnose.explain.trace_step import TracedStep
from sim.kernel.state import Snapshot

_MODULE = "replayer.diagnose.explain.variant_process"
_SHOWN_CHARS_MAX = 300  # Of what a process that died had to say.


class SideFailedError(RecordingError):
    """A side could not be run; the text says which and why."""


@attrs.frozen
class Side:
    """One of the things compared.

    Attributes:
        label: what it is, in words.
        environment: variables to set, or to unset (None), beside those of this process.
        code: a folder that goes in front of sys.path; None for the present code.
        start: the tick from which an instance is run up to the bad one; None for a fresh one.
    """

    label: str
    environment: Mapping[str, str | None] = attrs.field(factory=dict, hash=False)
    code: str | None = None
    start: int | None = None

    def said(self, text: str) -> str:
        """What went wrong on it, with its label unless it is just the present environment and code."""
        return f"{self.label}: {text}" if self.environment or self.code is not None else text


@attrs.frozen(eq=False)
class Outcome:
    """What a side gave.

    Attributes:
        side: which.
        step: the traced step; None if it was not come to.
        why_not: why not.
    """

    side: Side
    step: TracedStep | None
    why_not: str | None = None

    @property
    def result(self) -> tuple[int | None, str | None] | None:
        """The hash after the step, or what it raised; None if it was not come to."""
        if self.step is None:
            return None
        return (self.step.state.hash() if self.step.state is not None else None), self.step.raised


@attrs.frozen
class Searched:
    """What the search for a bad tick came to.

    Attributes:
        first_bad: the first bad tick; None if there is none.
        problems: why ticks before it could not be verified.
    """

    first_bad: int | None
    problems: list[str]


@attrs.frozen
class Proved:
    """What verifying a tape without a bad tick came to: of use where it is damaged or not sealed.

    Attributes:
        status: of the tape, as replayer.timeline.verify.Report has it, and so all others.
        verified_ticks, tick_count, dropped_ticks: how many.
        problems: damage.
        unreached: first and last tick that could not be proved, and why.
    """

    status: str
    verified_ticks: int
    tick_count: int
    dropped_ticks: int
    problems: list[str]
    unreached: list[tuple[int, int, str]]


class Laboratory:
    """Runs sides of one tape; a context manager that ends its processes."""

    def __init__(self, tape: Path, sim: str | None) -> None:
        """sim: module:factory, or None for a registered world."""
        self._tape = tape
        self._sim = sim
        self._folder = tempfile.TemporaryDirectory(prefix="explain-")
        self._waiting: dict[Side, PythonProcess] = {}
        self._started: list[PythonProcess] = []

    def warm_up(self, sides: Sequence[Side]) -> None:
        """Start processes for these sides: while they load what they need, something else can be done."""
        for side in sides:
            if side not in self._waiting:
                self._waiting[side] = self._start(side)

    def trace(
        self, sides: Sequence[Side], tick: int, before: Snapshot, starts: Sequence[int | None] = (None,)
    ) -> list[Outcome]:
        """Run the step to a tick on these sides, side by side. before: the state at tick - 1.

        starts: for each side, from where instances are run; None is a fresh one. They are tried until one gives the
        recorded state and one another. Raises SideFailedError if a side cannot be run.
        """
        plain = snapshot_to_plain(before)
        jobs = [self._job("trace", side) | {"tick": tick, "before": plain, "starts": list(starts)} for side in sides]
        found = []
        for side, result in zip(sides, self._run(jobs, sides), strict=True):
            for start, one in result["steps"]:
                step = TracedStep.from_plain(one["step"]) if "step" in one else None
                label = side.label if start is None else f"an instance that ran from tick {start:,}"
                found.append(Outcome(attrs.evolve(side, label=label, start=start), step, one.get("gave_up")))
        return found

    def state(self, side: Side, tick: int) -> Snapshot | None:
        """The state at a tick as this side makes it, proved by its hash; None if it gives another one."""
        try:
            (result,) = self._run([self._job("state", side) | {"tick": tick}], [side])
        except SideFailedError:
            return None
        return snapshot_from_plain(result["state"])

    def search(self, side: Side, progress: Callable[[float], None]) -> Searched:
        """Verify the tape on this side up to the first bad tick. progress: told how far it is, from 0 to 1.

        Raises SideFailedError if it cannot be run.
        """
        (result,) = self._run([self._job("verify", side)], [side], progress)
        return Searched(**result)

    def prove(self, side: Side) -> Proved:
        """Say what this side proves of a tape that is damaged, or not sealed. Raises SideFailedError."""
        (result,) = self._run([self._job("prove", side)], [side])
        return Proved(**result)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end_all(self._started)
        for process in self._started:
            process.communicate()
        self._folder.cleanup()

    # --- inside

    def _job(self, what: str, side: Side) -> dict[str, Any]:
        return {"what": what, "tape": str(self._tape.absolute()), "sim": self._sim, "code": side.code}

    def _run(
        self, jobs: Sequence[dict[str, Any]], sides: Sequence[Side], progress: Callable[[float], None] | None = None
    ) -> list[dict[str, Any]]:
        running = []
        for job, side in zip(jobs, sides, strict=True):
            process = self._waiting.pop(side, None) or self._start(side)
            path = Path(self._folder.name) / f"job{process.pid}"
            path.write_bytes(msgpack.packb(job))
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # It died already; what it said is read below.
                process.stdin.write(f"{path}\n".encode())
                process.stdin.flush()
            running.append((side, path, process))
        return [self._result(side, path, process, progress) for side, path, process in running]

    def _start(self, side: Side) -> PythonProcess:
        environment = {
            "PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path),
            "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
            **side.environment,
        }
        with self._said(len(self._started)).open("wb") as said:
            process = start_python(module_program(_MODULE), environment=environment, stderr=said.fileno())
        self._started.append(process)
        return process

    def _said(self, number: int) -> Path:
        """Where a process's words go."""
        return Path(self._folder.name) / f"said{number}"

    def _result(
        self, side: Side, path: Path, process: PythonProcess, progress: Callable[[float], None] | None
    ) -> dict[str, Any]:
        assert process.stdout is not None
        for line in process.stdout:
            if progress is not None:
                progress(float(line))
        code = process.wait()
        answer = Path(f"{path}.result")
        if code or not answer.exists():
            last = last_line(self._said(self._started.index(process)).read_bytes()) or f"exit code {code}"
            last = last[:_SHOWN_CHARS_MAX]
            raise SideFailedError(side.said(f"the process that ran the step died: {last}"))
        result: dict[str, Any] = msgpack.unpackb(answer.read_bytes(), strict_map_key=False)
        if "error" in result:
            raise SideFailedError(side.said(str(result["error"])))
        return result
