"""Start the processes of parties, side by side, and read their answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import attrs
import msgpack

from recorder.errors import RecordingError
from recorder.exception_text import comparable_error
from recorder.processes.interpreter import finish, module_program, start_python
from replayer.diagnose.explain.trace_step import TracedStep
from replayer.diagnose.parties.party import Made, Party
from replayer.tape.plain_state import snapshot_from_plain, snapshot_to_plain
from sim.kernel.state import Snapshot

_MODULE = "replayer.diagnose.parties.party_process"
_SHOWN_CHARS_MAX = 300  # Of the last line that a process printed before it died.
PROCESSES_MAX = 2  # At a time: each may need as much memory as a recording.

StepResult = tuple[int | None, str | None] | None


class PartyFailedError(RecordingError):
    """A party's simulation could not be made or run; the text names the party and the reason."""


@attrs.frozen(eq=False)
class PartyRun:
    """The step to the tick, run on one instance of a party's simulation.

    Attributes:
        start: the tick from which the instance ran; None for a fresh one, put into the state before the tick.
        state_hash: after the step; None if it raised, or was not reached.
        raised: the error of the step; None without one.
        why_not: why the step was not reached; None if it was.
        made: how the simulation was made; None if the step was not reached.
    """

    start: int | None
    state_hash: int | None
    raised: str | None
    why_not: str | None
    made: Made | None

    @property
    def result(self) -> StepResult:
        """The hash after the step and its error, as it is compared; None if it was not reached."""
        return None if self.why_not is not None else (self.state_hash, comparable_error(self.raised))


@attrs.frozen(eq=False)
class PartyAnswer:
    """What a process of a party found.

    Attributes:
        runs: one for each requested start.
        before: the state before the tick; None at the first tick of a tape.
        step: the traced step; None if none was requested, or if it could not be traced.
        traced_from: the start of the traced instance.
        not_traced: why it could not be traced; None otherwise.
    """

    runs: list[PartyRun]
    before: Snapshot | None = None
    step: TracedStep | None = None
    traced_from: int | None = None
    not_traced: str | None = None

    def run_from(self, start: int | None) -> PartyRun | None:
        """The run of an instance from this start; None without one."""
        return next((run for run in self.runs if run.start == start), None)


@attrs.frozen(eq=False)
class PartyJob:
    """What a process of a party does.

    Attributes:
        party: whose simulation it is.
        tick: the tick to explain.
        before: the state before it; None to make it from the party's own tape.
        starts: of the instances, see PartyRun.
        traces: True to trace the step as well.
        class_name: of the simulation, to replace arguments of its constructor.
        early: the modules that processes load before the simulation; they come from other places by links.
        watched: the settings and values whose lines are searched, while the simulation is made.
    """

    party: Party
    tick: int
    before: Snapshot | None = None
    starts: Sequence[int | None] = (None,)
    traces: bool = False
    class_name: str | None = None
    early: Sequence[str] = ()
    watched: tuple[Sequence[str], Sequence[str]] = ((), ())


class PartyRunner:
    """Runs jobs; a context manager that removes its folder of links."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="explain-parties-")
        self._link_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, jobs: Sequence[PartyJob]) -> list[PartyAnswer | PartyFailedError]:
        """Run jobs, PROCESSES_MAX at a time; an error takes the place of an answer."""
        prepared = [(job, self._links(job)) for job in jobs]
        with ThreadPoolExecutor(PROCESSES_MAX) as pool:
            return list(pool.map(lambda entry: _answered(*entry), prepared))

    def _links(self, job: PartyJob) -> list[str]:
        """A folder with links to the early modules that come from other places, and to what lies beside them."""
        early = {name: place for name, place in job.party.modules.items() if name in job.early}
        if not early:
            return []
        self._link_count += 1
        folder = Path(self._folder.name) / str(self._link_count)
        folder.mkdir()
        for name, place in early.items():
            for path in Path(place).parent.iterdir():  # Also NAME.libs, in which compiled packages keep libraries.
                if path.name.partition(".")[0] == name and not path.name.endswith("-info"):
                    (folder / path.name).symlink_to(path)
        return [str(folder)]


def _answered(job: PartyJob, links: list[str]) -> PartyAnswer | PartyFailedError:
    party = job.party
    plain = {
        "tape": os.fspath(party.tape.absolute()),
        "frames": os.fspath(party.frames.absolute()),
        "sim": party.sim,
        "paths": list(party.paths),
        "links": links,
        "work_tree": _tree_of(party),
        "arguments": dict(party.arguments),
        "config": dict(party.config),
        "modules": {name: place for name, place in party.modules.items() if name not in job.early},
        "lent": dict(party.lent),
        "hidden": sorted(party.hidden),
        "files": dict(party.files),
        "settings": dict(party.settings),
        "values": dict(party.values),
        "watched": [list(names) for names in job.watched],
        "class_name": job.class_name,
        "tick": job.tick,
        "before": snapshot_to_plain(job.before) if job.before is not None else None,
        "starts": list(job.starts),
        "traces": job.traces,
    }
    try:
        process = start_python(
            module_program(_MODULE),
            interpreter=party.python,
            environment={
                "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
                **party.environment,
                "PYTHONPATH": os.pathsep.join([*links, *party.paths, *_module_path(party)]),
            },
            stdout=subprocess.PIPE,
            folder=party.work_tree.folder if party.work_tree is not None else None,
        )
    except OSError as error:
        return PartyFailedError(f"{party.label}: {party.python}: {error.strerror}")
    finished = finish(process, msgpack.packb(plain))
    if finished.exit_code or not finished.output:
        last = (finished.last_words or f"exit code {finished.exit_code}")[:_SHOWN_CHARS_MAX]
        return PartyFailedError(f"{party.label}: its process died: {last}")
    result = msgpack.unpackb(finished.output, strict_map_key=False)
    if "error" in result:
        return PartyFailedError(f"{party.label}: {result['error']}")
    return _answer(result)


def _tree_of(party: Party) -> list[Any] | None:
    tree = party.work_tree
    return [str(tree.checkout), str(tree.tree), [*party.paths, *tree.folders]] if tree is not None else None


def _module_path(party: Party) -> list[str]:
    """The entries of PYTHONPATH behind the party's own folders."""
    if party.work_tree is not None:
        return [party.work_tree.module_path]
    if party.python != sys.executable:  # The packages of this interpreter are not those of another one.
        return [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return [entry or str(Path.cwd()) for entry in sys.path]


def _answer(result: dict[str, Any]) -> PartyAnswer:
    runs = [
        PartyRun(
            run["start"],
            run.get("hash"),
            run.get("raised"),
            run.get("gave_up"),
            Made(**run["made"]) if "made" in run else None,
        )
        for run in result["runs"]
    ]
    trace = result.get("trace") or {}
    return PartyAnswer(
        runs,
        snapshot_from_plain(result["before"]) if "before" in result else None,
        TracedStep.from_plain(trace["step"]) if "step" in trace else None,
        trace.get("start"),
        trace.get("why"),
    )
