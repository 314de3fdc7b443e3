"""The folder of a batch or sweep: durable records of its finished runs, with the identities of their jobs.

It holds ``manifest.ndjson``, with the number of planned runs and a line for each finished run, in the order of
finishing; ``manifest.json``, with all runs in the order of the jobs, once all have finished; and the tapes.

Invariants:
    1. Only files that a batch made here are deleted or overwritten.
    2. A run counts as finished only if the requested job made it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs

from recorder.scenarios.batch import Job, RunRecord, clear_unfinished, files_of
from recorder.storage.atomic_file import make_folder, sync_folder, write_file

LINES_NAME, MANIFEST_NAME, PICTURE_NAME = "manifest.ndjson", "manifest.json", "survival.png"
_BEGUN, _JOB = "begun", "job"  # Keys: number of planned runs; identity of the job of a finished run.
_HEADER = b'{"begun": '  # The start of every file manifest.ndjson.
_DIFFERENCES = {
    "name": "a different name",
    "scenario": "a different scenario",
    "bindings": "different parameters",
    "ticks": "different ticks",
    "players": "different players",
    "checkpoint_interval": "a different checkpoint interval",
    "tape": "a tape that was not requested, or none where one was",
}
_RECORD_TYPES: Mapping[str, tuple[type, ...]] = {
    "index": (int,),
    "name": (str,),
    "bindings": (dict,),
    "ticks": (int,),
    "scenario_hash": (str,),
    "regime": (str,),
    "final_tick": (int,),
    "final_hash": (str,),
    "violations": (list,),
    "extinctions": (dict,),
    "event_counts": (dict,),
    "productive": (int,),
    "tape": (str, type(None)),
    "error": (str, type(None)),
    "attempts": (int,),
    "disk_error": (int, type(None)),
    "progress": (dict, type(None)),
    "reconfigurations": (dict, type(None)),
    "scheduler": (dict, type(None)),
    "eligibility": (dict, type(None)),
}
_WITNESS_TYPES = (bool, str)
_VIOLATION_TYPES = (str, int, str)  # Property, tick, details.
Read = TypeVar("Read")


def read_as(kind: Callable[..., Read], entry: Any, types: Mapping[str, tuple[type, ...]]) -> Read:
    """Make an instance of kind from an entry whose values have the given types. Raises ValueError."""
    if not isinstance(entry, dict):
        raise ValueError("expected a table")  # noqa: TRY004 - about the content of a file.
    for key, value in entry.items():
        if type(value) not in types.get(key, ()):
            raise ValueError(f"{str(key)[:40]!r}: unexpected value {str(value)[:40]!r}")
    try:
        return kind(**entry)
    except TypeError as error:
        raise ValueError(str(error).partition("() ")[2]) from None


def read_record(entry: Any) -> RunRecord:
    """Read a record of a manifest. Raises ValueError."""
    record = read_as(RunRecord, entry, _RECORD_TYPES)
    if record.index < 0:
        raise ValueError(f"'index': expected 0 or more, got {record.index}")
    for violation in record.violations:
        if not isinstance(violation, list) or tuple(map(type, violation)) != _VIOLATION_TYPES:
            raise ValueError(f"'violations': unexpected value {str(violation)[:40]!r}")
    for by_name in (record.extinctions, record.event_counts, record.reconfigurations or {}):
        unexpected = next((value for value in by_name.values() if type(value) not in {int, type(None)}), None)
        if unexpected is not None:
            raise ValueError(f"expected a whole number or null, got {str(unexpected)[:40]!r}")
    for progress in (*_reports_in(record.progress or {}), record.scheduler or {}):
        if any(type(value) not in {int, str, type(None)} for value in progress.values()):
            raise ValueError(f"'progress': unexpected value {str(progress)[:40]!r}")
    for witness in (record.eligibility or {}).values():
        if not isinstance(witness, list) or tuple(map(type, witness)) != _WITNESS_TYPES:
            raise ValueError(f"'eligibility': unexpected value {str(witness)[:40]!r}")
    return record


def _reports_in(progress: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The progress of a run, and that of each of its choreographies. Raises ValueError for anything else."""
    several = progress.get("choreographies", {})
    if not isinstance(several, dict) or not all(isinstance(one, dict) for one in several.values()):
        raise ValueError(f"'progress': unexpected value {str(several)[:40]!r}")
    yield {key: value for key, value in progress.items() if key != "choreographies"}
    yield from several.values()


def identity_of(job: Job) -> dict[str, Any]:
    """Return the identity of a job, as JSON gives it back from a manifest. Raises UnknownWorldError."""
    described = {
        "name": job.name,
        "scenario": job.scenario_hash,
        "bindings": dict(job.bindings),
        "ticks": job.ticks,
        "players": dict(job.players),
        "checkpoint_interval": (job.scenario or {}).get("checkpoint_interval"),
        "tape": job.tape is not None,
    }
    return json.loads(json.dumps(described))  # type: ignore[no-any-return]


@attrs.frozen
class _Contents:
    """The contents of a folder.

    Attributes:
        finished: records of finished runs by index.
        begun: number of runs of the largest batch that was started here.
        half_bytes: size of an incomplete last line, which a kill has left.
    """

    finished: dict[int, RunRecord]
    begun: int
    half_bytes: int


@attrs.frozen
class BatchFolder:
    """The folder in which a batch or sweep keeps its finished runs."""

    path: Path

    @contextmanager
    def locked(self, jobs: Sequence[Job]) -> Iterator[dict[int, RunRecord]]:
        """Create or read the folder, lock it against other batches, and give the finished records by index.

        Raises OSError; ValueError if it holds a different batch, or foreign files at the paths of this one, or another
        process runs a batch in it. Nothing is written or deleted then.
        """
        self.inspect(jobs)
        make_folder(self.path)
        with (self.path / LINES_NAME).open("a", encoding="utf-8") as file:
            sync_folder(self.path)  # The first records may come after hours: their file must be there then.
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{self.path}: another process runs a batch in this folder") from None
            yield self._begin(jobs)

    def inspect(self, jobs: Sequence[Job]) -> _Contents:
        """Read and check the folder without changing it. Raises like locked, except for a batch in progress."""
        begun, finished = 0, dict[int, RunRecord]()
        entries, half_bytes = self._entries()
        for number, entry in enumerate(entries, 1):
            if set(entry) == {_BEGUN} and type(entry[_BEGUN]) is int:
                begun = max(begun, entry[_BEGUN])
                continue
            record, identity = self._finished(number, entry)
            self._ensure_same(record, identity, jobs)
            if record.error is None:
                finished[record.index] = record
        self._ensure_free(jobs, begun)
        return _Contents(finished, begun, half_bytes)

    def _begin(self, jobs: Sequence[Job]) -> dict[int, RunRecord]:
        contents = self.inspect(jobs)
        if contents.half_bytes:
            _cut_off(self.path / LINES_NAME, contents.half_bytes)
        if len(jobs) > contents.begun:
            self._append({_BEGUN: len(jobs)})
        for job in jobs:
            if job.index not in contents.finished and job.tape is not None:
                clear_unfinished(job.tape)
        return contents.finished

    def _entries(self) -> tuple[list[dict[str, Any]], int]:
        """Return the entries of all lines, and the size of an incomplete last line. Raises ValueError.

        A power cut may leave zeros in place of the line that was not yet on the disk, also in front of its end.
        """
        path = self.path / LINES_NAME
        if not path.exists():
            return [], 0
        *complete, half = path.read_bytes().split(b"\n")
        if complete and not half and b"\0" in complete[-1]:
            half = complete.pop() + b"\n"
        entries = []
        for number, line in enumerate(complete, 1):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                entry = None
            if not isinstance(entry, dict) or (number == 1 and set(entry) != {_BEGUN}):
                raise ValueError(f"{path} is not a manifest: line {number} is not an entry of a manifest")
            entries.append(entry)
        if half.strip(b"\0") and not entries and half[: len(_HEADER)] != _HEADER[: len(half)]:
            raise ValueError(f"{path} is not a manifest: line 1 is not an entry of a manifest")
        return entries, len(half)

    def _finished(self, number: int, entry: dict[str, Any]) -> tuple[RunRecord, Any]:
        try:
            return read_record({key: value for key, value in entry.items() if key != _JOB}), entry.get(_JOB)
        except ValueError as error:
            name = self.path / LINES_NAME
            raise ValueError(f"{name} is not a manifest: line {number} is not a run: {error}") from None

    def _ensure_same(self, record: RunRecord, identity: Any, jobs: Sequence[Job]) -> None:
        """Raise ValueError if a record does not belong to the job with its index."""
        if record.index >= len(jobs):
            raise ValueError(
                f"{self.path} holds a different batch, with a run {record.index} that this one lacks: use a different folder with -o"
            )
        expected = identity_of(jobs[record.index])
        if identity != expected:
            actual = identity if isinstance(identity, dict) else {}
            keys = (text for key, text in _DIFFERENCES.items() if actual.get(key) != expected[key])
            difference = next(keys, "unknown settings")
            raise ValueError(
                f"{self.path} holds a different batch: its run {record.index} has {difference}: "
                "use a different folder with -o"
            )

    def _ensure_free(self, jobs: Sequence[Job], begun: int) -> None:
        """Raise ValueError for files that no batch made here. begun: the first index without files of a batch."""
        paths = [self.path / MANIFEST_NAME, self.path / PICTURE_NAME] if begun == 0 else []
        existing = next((path for path in paths if os.path.lexists(path)), None)
        for job in jobs:
            if existing is None and job.tape is not None and job.index >= begun:
                existing = next(iter(files_of(job.tape)), None)
        if existing is not None:
            raise ValueError(f"{existing} exists already, and no batch made it: use a different folder with -o")

    def add(self, record: RunRecord, job: Job) -> None:
        """Write the record of a finished run durably. Raises OSError with the name of the folder."""
        self._append({_JOB: identity_of(job), **attrs.asdict(record)})

    def _append(self, entry: Mapping[str, Any]) -> None:
        with _naming(self.path), (self.path / LINES_NAME).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self, records: Sequence[RunRecord], more: Mapping[str, Any]) -> Path:
        """Write the manifest atomically. Raises OSError."""
        target = self.path / MANIFEST_NAME
        manifest = {**more, "runs": [attrs.asdict(record) for record in records]}
        write_file(target, json.dumps(manifest, indent=1) + "\n", existing="replace")
        return target


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Add the folder to an OSError that names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(folder)
        raise


def _cut_off(path: Path, size_bytes: int) -> None:
    """Truncate a file by this many bytes. Raises OSError."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - size_bytes)


def read_manifest(folder: Path) -> list[RunRecord]:
    """Read the runs of a finished batch or sweep. Raises OSError; ValueError without a valid or complete manifest."""
    path = folder / MANIFEST_NAME
    if not path.exists() and (folder / LINES_NAME).exists():
        raise ValueError(f"{folder} holds an unfinished batch: repeat the command that started it to continue")
    runs = manifest_content(path).get("runs")
    if not isinstance(runs, list):
        raise ValueError(f"{path} is not a manifest: it has no runs")  # noqa: TRY004 - about the content of a file.
    records = []
    for number, entry in enumerate(runs):
        try:
            records.append(read_record(entry))
        except ValueError as error:
            raise ValueError(f"{path} is not a manifest: run {number}: {error}") from None
    return records


def manifest_content(path: Path) -> dict[str, Any]:
    """Read a finished manifest. Raises OSError; ValueError if it is not a JSON object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a manifest: expected a JSON object")  # noqa: TRY004
    return content
