"""The folder of a batch or sweep: what has finished in it, durably, and of which jobs.

It holds ``manifest.ndjson``: how many runs were begun with, and a line for each that has finished, in the order in which
they did; ``manifest.json``, all of them in the order of the jobs, once all have; and the tapes.

Invariants:
    1. Only files that a batch has made here are taken away or written over.
    2. What counts as finished was made by the very job that is asked for.
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
from recorder.storage.atomic_file import write_file

LINES_NAME, MANIFEST_NAME, PICTURE_NAME = "manifest.ndjson", "manifest.json", "survival.png"
_BEGUN, _JOB = "begun", "job"  # Keys: how many runs were begun with; what a finished run is of.
_HEADER = b'{"begun": '  # What a file of ours begins with.
_OTHER = {
    "name": "another name",
    "scenario": "another scenario",
    "bindings": "other parameters",
    "ticks": "other ticks",
    "players": "other players",
    "checkpoint_interval": "another checkpoint interval",
    "tape": "a tape where none is asked for, or none where one is",
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
}
_VIOLATION_TYPES = (str, int, str)  # Property, tick, details.
Read = TypeVar("Read")


def read_as(kind: Callable[..., Read], entry: Any, types: Mapping[str, tuple[type, ...]]) -> Read:
    """What a manifest says of one thing, if each key has a value of one of its types. Raises ValueError."""
    if not isinstance(entry, dict):
        raise ValueError("a table was expected")  # noqa: TRY004 - of whatever stands in a file.
    for key, value in entry.items():
        if type(value) not in types.get(key, ()):
            raise ValueError(f"{str(key)[:40]!r}: found {str(value)[:40]!r}")
    try:
        return kind(**entry)
    except TypeError as error:
        raise ValueError(str(error).partition("() ")[2]) from None


def read_record(entry: Any) -> RunRecord:
    """A record as it stands in a manifest. Raises ValueError."""
    record = read_as(RunRecord, entry, _RECORD_TYPES)
    if record.index < 0:
        raise ValueError(f"'index': found {record.index}")
    for one in record.violations:
        if not isinstance(one, list) or tuple(map(type, one)) != _VIOLATION_TYPES:
            raise ValueError(f"'violations': found {str(one)[:40]!r}")
    for by_name in (record.extinctions, record.event_counts):
        wrong = next((value for value in by_name.values() if type(value) not in {int, type(None)}), None)
        if wrong is not None:
            raise ValueError(f"found {str(wrong)[:40]!r}")
    return record


def identity_of(job: Job) -> dict[str, Any]:
    """What makes a job the same job, as it is read back from a manifest. Raises UnknownWorldError."""
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
class _Found:
    """What a folder holds.

    Attributes:
        finished: records by index.
        begun: with how many runs a batch was begun here.
        half_bytes: of the line at the end of its file that a kill has left.
    """

    finished: dict[int, RunRecord]
    begun: int
    half_bytes: int


@attrs.frozen
class BatchFolder:
    """Where a batch or sweep keeps what has finished."""

    path: Path

    @contextmanager
    def held(self, jobs: Sequence[Job]) -> Iterator[dict[int, RunRecord]]:
        """Make the folder, or read what has finished in it, by index; nobody else runs a batch in it meanwhile.

        Raises OSError; ValueError if it holds another batch, files that no batch has made where this one's belong, or
        another process is at work in it. Nothing is written or taken away then.
        """
        self.look(jobs)
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LINES_NAME).open("a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{self.path}: another process runs a batch in this folder") from None
            yield self._begin(jobs)

    def look(self, jobs: Sequence[Job]) -> _Found:
        """What has finished, without changing anything. Raises as held does, but for what is at work."""
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
        return _Found(finished, begun, half_bytes)

    def _begin(self, jobs: Sequence[Job]) -> dict[int, RunRecord]:
        found = self.look(jobs)
        if found.half_bytes:
            _cut_off(self.path / LINES_NAME, found.half_bytes)
        if len(jobs) > found.begun:
            self._append({_BEGUN: len(jobs)})
        for job in jobs:
            if job.index not in found.finished and job.tape is not None:
                clear_unfinished(job.tape)
        return found.finished

    def _entries(self) -> tuple[list[dict[str, Any]], int]:
        """What the lines hold, and how many bytes of half a line a kill has left at the end. Raises ValueError."""
        path = self.path / LINES_NAME
        if not path.exists():
            return [], 0
        *whole, half = path.read_bytes().split(b"\n")
        entries = []
        for number, line in enumerate(whole, 1):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                entry = None
            if not isinstance(entry, dict) or (number == 1 and set(entry) != {_BEGUN}):
                raise ValueError(f"{path} is no manifest: line {number} is none of its lines")
            entries.append(entry)
        if half and not entries and half[: len(_HEADER)] != _HEADER[: len(half)]:
            raise ValueError(f"{path} is no manifest: line 1 is none of its lines")
        return entries, len(half)

    def _finished(self, number: int, entry: dict[str, Any]) -> tuple[RunRecord, Any]:
        try:
            return read_record({key: value for key, value in entry.items() if key != _JOB}), entry.get(_JOB)
        except ValueError as error:
            name = self.path / LINES_NAME
            raise ValueError(f"{name} is no manifest: line {number} is no run: {error}") from None

    def _ensure_same(self, record: RunRecord, identity: Any, jobs: Sequence[Job]) -> None:
        """Raise ValueError if a record is not of the job that has its index."""
        if record.index >= len(jobs):
            raise ValueError(f"{self.path} holds another batch: it has a run {record.index}, this one has none")
        wanted = identity_of(jobs[record.index])
        if identity != wanted:
            found = identity if isinstance(identity, dict) else {}
            other = next((what for key, what in _OTHER.items() if found.get(key) != wanted[key]), "something else")
            raise ValueError(
                f"{self.path} holds another batch: its run {record.index} has {other}; name another folder with -o"
            )

    def _ensure_free(self, jobs: Sequence[Job], begun: int) -> None:
        """Raise ValueError for files that no batch has made here. begun: of which index on that is so."""
        others = [self.path / MANIFEST_NAME, self.path / PICTURE_NAME] if begun == 0 else []
        found = next((path for path in others if os.path.lexists(path)), None)
        for job in jobs:
            if found is None and job.tape is not None and job.index >= begun:
                found = next(iter(files_of(job.tape)), None)
        if found is not None:
            raise ValueError(f"{found} is there already, and no batch has made it here: name another folder with -o")

    def add(self, record: RunRecord, job: Job) -> None:
        """Write down that a run has finished, durably. Raises OSError, naming the folder."""
        self._append({_JOB: identity_of(job), **attrs.asdict(record)})

    def _append(self, entry: Mapping[str, Any]) -> None:
        with _naming(self.path), (self.path / LINES_NAME).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self, records: Sequence[RunRecord], more: Mapping[str, Any]) -> Path:
        """Write the manifest, whole or not at all. Raises OSError."""
        target = self.path / MANIFEST_NAME
        manifest = {**more, "runs": [attrs.asdict(record) for record in records]}
        write_file(target, json.dumps(manifest, indent=1) + "\n", existing="replace")
        return target


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Let what the system refuses without saying where be said of the folder."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(folder)
        raise


def _cut_off(path: Path, size_bytes: int) -> None:
    """Take so many bytes off the end of a file. Raises OSError."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - size_bytes)


def read_manifest(folder: Path) -> list[RunRecord]:
    """The runs of a finished batch or sweep. Raises OSError; ValueError if it is no manifest, or not yet one."""
    path = folder / MANIFEST_NAME
    if not path.exists() and (folder / LINES_NAME).exists():
        raise ValueError(f"{folder} holds a batch that has not finished: the command that made it goes on with it")
    found = manifest_content(path)
    runs = found.get("runs")
    if not isinstance(runs, list):
        raise ValueError(f"{path} is no manifest: it has no runs")  # noqa: TRY004 - of what stands in a file.
    records = []
    for number, entry in enumerate(runs):
        try:
            records.append(read_record(entry))
        except ValueError as error:
            raise ValueError(f"{path} is no manifest: run {number}: {error}") from None
    return records


def manifest_content(path: Path) -> dict[str, Any]:
    """What a finished manifest holds. Raises OSError; ValueError if it is no table of JSON."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no manifest: it is no table of JSON")  # noqa: TRY004
    return found
