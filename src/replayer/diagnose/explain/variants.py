"""The variants that ``replay explain`` compares, and the processes that run them.

A variant is an environment, a version of the code, or an instance that is fresh or used. Everything else is equal on
all variants. Python draws a new hash seed for each process: it is set to 0 if the user has not set it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, cast

import attrs
import msgpack

from recorder.ambient.outside.outside_read import OutsideRead
from recorder.errors import RecordingError
from recorder.location.tape_location import Location
from recorder.processes.interpreter import (
    PythonProcess,
    end_all,
    last_line,
    lines_of,
    module_program,
    start_python,
    with_module_path,
)
from replayer.diagnose.explain.trace_step import Result, TracedStep
from replayer.diagnose.explain.values.given_values import ALIKE, NOT_PUT, GivenValues
from replayer.diagnose.explain.values.process_settings import without_folder
from replayer.playback.work_tree import WorkTree
from replayer.tape.plain_state import snapshot_from_plain, snapshot_to_plain
from sim.kernel.state import Snapshot

_MODULE = "replayer.diagnose.explain.variant_process"
_SHOWN_CHARS_MAX = 300  # Of the last line that a process printed before it died.


class VariantFailedError(RecordingError):
    """A variant could not be run; the text names it and the reason."""


@attrs.frozen
class Replaced:
    """One thing of the outside world that is replaced for a step.

    Attributes:
        what: the thing, and where it is read.
        how: the replacement, in words that follow "where".
        missing: paths of files that the step finds missing.
        emptied: paths of files that the step finds there, and empty.
        times_ns: by path, the time at which the step finds a file changed.
        stands_in: kinds of reads for which the step gets stand-ins; see desync/stand_ins.py.
        number: of the set of stand-ins.
        runs: the number of processes in which the step gave the same state with it.
        counts: by name of a function that counts processors, what it tells the step.
        as_recorded: kinds and names of the reads of which it makes what they were when the recording began.
        arguments: of the program, after its name, while the user's modules are imported and in the step.
    """

    what: str
    how: str
    missing: tuple[str, ...] = ()
    times_ns: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    stands_in: tuple[str, ...] = ()
    number: int = 0
    runs: int = 1
    emptied: tuple[str, ...] = ()
    counts: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    as_recorded: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()


@attrs.frozen
class Variant:
    """One environment, version of the code or instance to run the step in.

    Attributes:
        label: its description.
        environment: variables to set, or to unset (None), in addition to those of this process.
        code: a folder to put in front of sys.path; None for the present code.
        settings: of the whole process, set before the step; see values/process_settings.py.
        start: the tick from which an instance runs up to the bad tick; None for a fresh instance that is put into the
            state before it, negative for one that runs from tick 0 and is never restored.
        replaced: what is replaced of the outside world for the step; None for nothing.
        is_recorded: True if the environment and the settings are those of the recording, where they differ.
        taken: groups of functions of another version of the code: the step runs as it is, and with each group alone. See
            versions/step_with_functions.py.
        sources: modules that are loaded from another source, by name; see versions/mixed_source.py.
        files: pairs of files, in whole paths: the code finds the second one in place of the first.
        separated: pairs of names that lead to one object, and shall lead to two; see answer/split_objects.py.
        joined: pairs of names that lead to two objects, and shall lead to one; see answer/split_objects.py.
    """

    label: str
    environment: Mapping[str, str | None] = attrs.field(factory=dict, hash=False)
    code: str | None = None
    start: int | None = None
    settings: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    replaced: Replaced | None = None
    taken: tuple[tuple[tuple[str, str, str], ...], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    joined: tuple[tuple[str, str], ...] = ()
    separated: tuple[tuple[str, str], ...] = ()
    is_recorded: bool = False

    @property
    def is_present(self) -> bool:
        """True for a fresh instance of the present code in the present environment, but for the seed of hashes."""
        is_changed = self.code is not None or self.start is not None or self.replaced is not None
        return not is_changed and not self.environment.keys() - {"PYTHONHASHSEED"}

    @property
    def is_never_restored(self) -> bool:
        """True for an instance that ran from tick 0 as it was made: what it keeps outside the state is its own."""
        return self.start is not None and self.start < 0

    def error_text(self, error: str) -> str:
        """Prefix an error with the label, unless the variant is the present environment and code."""
        return f"{self.label}: {error}" if self.environment or self.code is not None else error


@attrs.frozen(eq=False)
class VariantOutcome:
    """The outcome of a variant.

    Attributes:
        variant: the variant that was run.
        step: the traced step; None if it was not reached.
        why_not: why it was not reached.
        imported: the environment variables, and the arguments, that the user's modules read on import.
        given: the result of a step with functions of another version, of which nothing else is kept.
        brought: names that these functions use and that only the other version has, which were taken, too.
    """

    variant: Variant
    step: TracedStep | None
    why_not: str | None = None
    imported: tuple[OutsideRead, ...] = ()
    given: Result | None = None
    brought: tuple[str, ...] = ()

    @property
    def result(self) -> Result | None:
        """The hash after the step, and the error that it raised; None if it was not reached."""
        return self.given if self.step is None else self.step.result


def traced_present(outcomes: Sequence[VariantOutcome]) -> VariantOutcome | None:
    """The outcome of the present variant, or else the first one that ran the step, of those with a trace."""
    run = [one for one in outcomes if one.step is not None and one.step.is_traced]
    return next((one for one in run if one.variant.is_present), run[0] if run else None)


@attrs.frozen
class SearchResult:
    """The result of the search for a bad tick.

    Attributes:
        first_bad: the first bad tick; None if there is none.
        problems: why ticks before it could not be verified.
    """

    first_bad: int | None
    problems: list[str]


def _started_text(start: int) -> str:
    if start < 0:
        return "an instance that ran from tick 0 as it was made, never restored"
    return f"an instance that was restored at tick {start:,} and ran from there"


Trees = tuple[WorkTree, WorkTree]  # Of the other version of the code, and of the present one.


class VariantRunner:
    """Runs variants of one tape; a context manager that ends its processes."""

    def __init__(self, tape: Location, sim: str | None, trees: Trees | None = None) -> None:
        """sim: module:factory, or None for a registered world. trees: in which the processes run; None for none."""
        self._tape = tape
        self._trees = trees
        self._sim = sim
        self._folder = tempfile.TemporaryDirectory(prefix="explain-")
        self._waiting: dict[Variant, PythonProcess] = {}
        self._started: list[PythonProcess] = []

    def warm_up(self, variants: Sequence[Variant]) -> None:
        """Start processes for these variants; they load their modules while this process continues."""
        for variant in variants:
            if variant not in self._waiting:
                self._waiting[variant] = self._start(variant)

    def trace(
        self,
        variants: Sequence[Variant],
        tick: int,
        before: Snapshot,
        starts: Sequence[int | None] = (None,),
        known: Iterable[Result] = (),
    ) -> list[VariantOutcome]:
        """Run the step to a tick on these variants, side by side. before: the state at tick - 1.

        starts: for each variant, the ticks from which instances run; None is a fresh one. They are tried until one
        gives the recorded state and one a different state. known: results of earlier variants; a step that gives one of
        them is not traced. Raises VariantFailedError if a variant cannot be run.
        """
        plain = {"tick": tick, "before": snapshot_to_plain(before), "starts": list(starts)}
        plain["known"] = [list(result) for result in known]
        jobs = [self._job("trace", variant) | plain for variant in variants]
        outcomes = []
        for variant, result in zip(variants, self._run(jobs, variants), strict=True):
            imported = tuple(map(OutsideRead.from_plain, result["imported"]))
            for start, outcome in result["steps"]:
                step = TracedStep.from_plain(outcome["step"]) if "step" in outcome else None
                if step is not None and (tree := self._tree(variant)) is not None:
                    without_folder(step.trace.settings, tree.tree)
                label = variant.label if start is None else _started_text(start)
                if start is not None and (variant.code is not None or variant.replaced is not None):
                    label = f"{variant.label}, {label}"
                evolved = attrs.evolve(variant, label=label, start=start)
                given = (outcome["result"][0], outcome["result"][1]) if "result" in outcome else None
                brought = tuple(outcome.get("brought", ()))
                outcomes.append(VariantOutcome(evolved, step, outcome.get("gave_up"), imported, given, brought))
        return outcomes

    def state(self, variant: Variant, tick: int) -> Snapshot | None:
        """The state at a tick on this variant, proved by its hash; None if it gives a different one."""
        try:
            (result,) = self._run([self._job("state", variant) | {"tick": tick}], [variant])
        except VariantFailedError:
            return None
        return snapshot_from_plain(result["state"])

    def give(
        self, variant: Variant, tick: int, before: Snapshot, starts: Sequence[int | None], words: Sequence[str]
    ) -> GivenValues:
        """Give a variant the values outside the state of another instance, and run the step to a tick.

        starts: of the other instance, and of the variant. words: names of the values that a line reads.
        """
        plain = {"tick": tick, "before": snapshot_to_plain(before), "starts": list(starts), "words": list(words)}
        try:
            (result,) = self._run([self._job("give", variant) | plain], [variant])
        except VariantFailedError as error:
            return GivenValues(why_not=str(error).removeprefix(f"{variant.label}: "))
        given = GivenValues.from_plain(result)
        if given.why_not not in (ALIKE, NOT_PUT):
            return given
        with contextlib.suppress(VariantFailedError):  # What was found before is told then.
            (result,) = self._run([self._job("resume", variant) | plain], [variant])
            resumed = GivenValues.from_plain(result)
            return resumed if resumed.proved else given
        return given

    def order(self, variant: Variant, tick: int, before: Snapshot, starts: Sequence[int | None]) -> dict[str, Any]:
        """Run the step to a tick from these starts, through sets in fixed orders; see walked/walk_order.py.

        variant: with the source that asks for that. Raises VariantFailedError if it cannot be run.
        """
        plain = {"tick": tick, "before": snapshot_to_plain(before), "starts": list(starts)}
        # In two processes: the addresses of objects, which may have an effect of their own, differ between them.
        results = self._run([self._job("order", variant) | plain for _ in range(2)], [variant, variant])
        return {"runs": [run for result in results for run in result["runs"]]}

    def change(
        self,
        variant: Variant,
        tick: int,
        before: Snapshot,
        later: tuple[Snapshot, Snapshot] | None,
        known: Sequence[str] = (),
    ) -> dict[str, Any] | None:
        """Try changes of the state before the step to a tick on a variant; see before_step. None if that cannot be done.

        later: the recorded and the replayed state at the next recorded keyframe. known: the names of attributes that are known
        to have been changed: nothing is tried, and the lines that change them are found.
        """
        plain = {"known": list(known), "later": list(map(snapshot_to_plain, later or ()))}
        return self.run_program("change", variant, tick, before, plain)

    def run_program(
        self, what: str, variant: Variant, tick: int, before: Snapshot, plain: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Do a job of program_jobs.OF_PROGRAM on a variant. None if that cannot be done. plain: what the job has besides."""
        job = {"tick": tick, "before": snapshot_to_plain(before), **plain}
        with contextlib.suppress(VariantFailedError):
            return self._run([self._job(what, variant) | job], [variant])[0]
        return None

    def search(self, variant: Variant, progress: Callable[[float], None]) -> SearchResult:
        """Verify the tape on this variant up to the first bad tick. progress: called with a fraction, from 0 to 1.

        Raises VariantFailedError if it cannot be run.
        """
        (result,) = self._run([self._job("verify", variant)], [variant], progress)
        return SearchResult(**result)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end_all(self._started)
        for process in self._started:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    cast(IO[bytes], pipe).close()
        self._folder.cleanup()

    def empty_folder(self) -> str:
        """A new empty folder, which is there until the runner ends."""
        return tempfile.mkdtemp(dir=self._folder.name)

    # --- inside

    def _job(self, what: str, variant: Variant) -> dict[str, Any]:
        job: dict[str, Any] = {"what": what, "sim": self._sim, "code": variant.code}
        job["tape"] = os.fspath(self._tape.absolute())
        if (tree := self._tree(variant)) is not None:
            job["tree"] = [str(tree.checkout), str(tree.tree), list(tree.folders)]
        job["settings"], job["joined"] = dict(variant.settings), [list(pair) for pair in variant.joined]
        job["separated"] = [list(pair) for pair in variant.separated]
        job["taken"] = [[list(one) for one in group] for group in variant.taken]
        job["sources"], job["files"] = dict(variant.sources), [list(pair) for pair in variant.files]
        if (one := variant.replaced) is not None:
            folder = self.empty_folder()
            job["replaced"] = [list(one.missing), dict(one.times_ns), folder, list(one.emptied), dict(one.counts)]
            job |= {"stands_in": list(one.stands_in), "number": one.number, "arguments": list(one.arguments)}
        return job

    def _run(
        self,
        jobs: Sequence[dict[str, Any]],
        variants: Sequence[Variant],
        progress: Callable[[float], None] | None = None,
    ) -> list[dict[str, Any]]:
        running = []
        for job, variant in zip(jobs, variants, strict=True):
            process = self._waiting.pop(variant, None) or self._start(variant)
            path = Path(self._folder.name) / f"job{process.pid}"
            path.write_bytes(msgpack.packb(job))
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # It died already; its output is read below.
                process.stdin.write(f"{path}\n".encode())
                process.stdin.flush()
            running.append((variant, path, process))
        return [self._result(variant, path, process, progress) for variant, path, process in running]

    def _start(self, variant: Variant) -> PythonProcess:
        tree = self._tree(variant)
        environment = {
            **(with_module_path() if tree is None else {"PYTHONPATH": tree.module_path}),
            "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
            **variant.environment,
        }
        with self._stderr_path(len(self._started)).open("wb") as stderr:
            process = start_python(
                module_program(_MODULE),
                environment=environment,
                stderr=stderr.fileno(),
                folder=tree.folder if tree is not None else None,
            )
        self._started.append(process)
        return process

    def _tree(self, variant: Variant) -> WorkTree | None:
        return self._trees[variant.code is None] if self._trees is not None else None

    def _stderr_path(self, number: int) -> Path:
        """The file that a process writes its stderr to."""
        return Path(self._folder.name) / f"stderr{number}"

    def _result(
        self, variant: Variant, path: Path, process: PythonProcess, progress: Callable[[float], None] | None
    ) -> dict[str, Any]:
        for line in lines_of(process):
            if progress is not None:
                progress(float(line))
        code = process.wait()
        answer = Path(f"{path}.result")
        if code or not answer.exists():
            last = last_line(self._stderr_path(self._started.index(process)).read_bytes()) or f"exit code {code}"
            last = last[:_SHOWN_CHARS_MAX]
            raise VariantFailedError(variant.error_text(f"the process that ran the step died: {last}"))
        result: dict[str, Any] = msgpack.unpackb(answer.read_bytes(), strict_map_key=False)
        if "error" in result:
            raise VariantFailedError(variant.error_text(str(result["error"])))
        return result


def reads_of(outcome: VariantOutcome | None) -> list[OutsideRead]:
    """What the step of a variant read of the outside world, if it ran."""
    return outcome.step.reads if outcome is not None and outcome.step is not None else []
