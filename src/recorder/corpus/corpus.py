"""A corpus: a folder of tapes, and descriptions of their runs.

The index is used for tapes that are unchanged since it was written; all other tapes are inspected. So a corpus always
shows the contents of its folder, with an index or without. The folder is listed once, not once for each tape.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import attrs

from recorder.corpus.database import drop_runs, load_index, put_runs, writing_index
from recorder.corpus.folder_listing import FolderListing
from recorder.corpus.inspect_tape import examine, glance, with_world
from recorder.corpus.run import Run
from recorder.corpus.selection import Selection
from recorder.corpus.tape_stamp import stamp_of
from recorder.corpus.url_runs import runs_at
from recorder.errors import RecordingError
from recorder.location.tape_location import Location, tape_location
from recorder.location.tape_url import TapeUrl
from recorder.processes.pool import Report, results_in_order
from recorder.processes.spawn_pool import SpawnPool
from recorder.storage.atomic_file import atomic_file
from recorder.storage.file_names import TAPE_SUFFIX, following_segments, journal_path, segment_path
from recorder.storage.open_tape import is_locked
from recorder.storage.remote.uploads import upload_tape

EXAMINED_A_PROCESS = 16  # Starting a process takes about a second, reading a tape completely some tenths.
GLANCED_A_PROCESS = 1_000  # Reading its headers takes about a millisecond.
GROUPS_A_PROCESS = 8  # Each lists the folder again. With only one, the last process would keep the others waiting.
INDEXED_TAPES_MIN = 100  # Fewer are read in a moment: an index saves nothing.

Progress = Callable[[int, int], None]  # Tapes done, total tapes.
Inspect = Callable[[Path, FolderListing | None], Run]


def order_of(run: Run) -> tuple[Any, ...]:
    """Return the sort key of a corpus: what was recorded, seed, name of the tape."""
    return (run.subject, run.seed if run.seed is not None else -1, run.tape)


@attrs.frozen
class Corpus:
    """The runs of a folder, or a selection of them; iterate over it, or use ``paths()``.

    Attributes:
        folder: the folder of the tapes.
        runs: the runs, sorted by order_of.
    """

    folder: Location
    runs: tuple[Run, ...]

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        examined: bool = False,
        jobs: int = 1,
        progress: Progress | None = None,
    ) -> Self:
        """Describe the runs of a folder, without writing anything; look does the same and keeps what it has read.

        examined: read the tapes that the index does not cover, to determine the quality of each run and scores that are
        not on the tape; otherwise read only headers and indexes. jobs: number of processes.

        Raises FileNotFoundError, NotADirectoryError or another OSError; ForeignIndexError.
        """
        path = tape_location(folder)
        if isinstance(path, TapeUrl):
            runs = runs_at(path, examined=examined, progress=progress)
            return cls(path, tuple(sorted(runs, key=order_of)))
        return cls(path, _look(path, examined=examined, jobs=jobs, progress=progress)[0])

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def paths(self) -> list[Location]:
        """Return the paths of the tapes, in the order of the runs."""
        return [run.path for run in self.runs]

    def select(self, **conditions: Any) -> Self:
        """Return the corpus of the selected runs. conditions: see Selection. Raises ConditionError."""
        return attrs.evolve(self, runs=tuple(Selection(**conditions).choose(self.runs)))


def look(folder: Location, *, examined: bool = False, jobs: int = 1, progress: Progress | None = None) -> Corpus:
    """Describe the runs of a folder as Corpus.open does, and add many that had to be read to the index, if possible.

    A folder that cannot be written is described as well, only not faster the next time; one at a URL, too.
    Raises as Corpus.open does.
    """
    if isinstance(folder, TapeUrl):
        return Corpus.open(folder, examined=examined, progress=progress)
    runs, inspected = _look(folder, examined=examined, jobs=jobs, progress=progress)
    corpus = Corpus(folder, runs)
    if len(inspected) >= INDEXED_TAPES_MIN:
        with contextlib.suppress(OSError):  # The index saves time and nothing else: without it the listing is complete.
            _put(folder, inspected, corpus)
    return corpus


def _look(folder: Path, *, examined: bool, jobs: int, progress: Progress | None) -> tuple[tuple[Run, ...], list[Run]]:
    """Return the runs of a folder in order, and those that were inspected since the index did not hold them."""
    tapes = tapes_in(folder)
    indexed = _unchanged_runs(folder, tapes)
    if examined:
        indexed = _examined_runs(indexed)
    rest = [tape for tape in tapes if tape.name not in indexed]
    inspected = inspect_tapes(rest, examine if examined else glance, jobs=jobs, progress=progress)
    return tuple(sorted([*indexed.values(), *inspected], key=order_of)), inspected


def tapes_in(folder: Path) -> list[Path]:
    """Return the tapes of a folder, sorted by name. Raises OSError."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.name.endswith(TAPE_SUFFIX) and entry.is_file())
    return [folder / name for name in names]


def _unchanged_runs(folder: Path, tapes: Sequence[Path]) -> dict[str, Run]:
    """Return the indexed runs of unchanged tapes, by name of the tape. Raises OSError, ForeignIndexError."""
    indexed, listing = load_index(folder), FolderListing(folder)
    return {
        path.name: run
        for path in tapes
        if (run := indexed.get(path.name)) is not None and _is_unchanged(path, run, listing)
    }


def _examined_runs(runs: Mapping[str, Run]) -> dict[str, Run]:
    """Return the runs whose tapes were read completely, or cannot be read."""
    return {name: run for name, run in runs.items() if run.quality is not None or run.status == "unreadable"}


def _is_unchanged(path: Path, run: Run, listing: FolderListing) -> bool:
    try:
        stamp = stamp_of(path, listing).text
    except OSError:
        return False
    return bool(stamp) and run.stamp == with_world(stamp, run.world, run.version)


def inspect_tapes(
    paths: Sequence[Path], inspect: Inspect, *, jobs: int = 1, progress: Progress | None = None
) -> list[Run]:
    """Describe the runs of tapes in one folder, in their order, in this many processes. inspect: glance or examine."""
    inspected: list[Run] = []
    on_progress = progress or (lambda *_: None)

    def keep(runs: Iterable[Run]) -> None:
        for run in runs:
            inspected.append(run)
            on_progress(len(inspected), len(paths))

    workers = min(jobs, len(paths) // (GLANCED_A_PROCESS if inspect is glance else EXAMINED_A_PROCESS))
    if workers <= 1:
        keep(_inspect_all(inspect, paths))
        return inspected
    size = -(-len(paths) // (workers * GROUPS_A_PROCESS))
    groups = [paths[start : start + size] for start in range(0, len(paths), size)]
    work = partial(_inspect_group, inspect)
    for runs in results_in_order(SpawnPool(workers), work, groups, name=lambda group: f"inspected {group[0]}"):
        keep(runs)
    return inspected


def _inspect_group(inspect: Inspect, paths: Sequence[Path], _: Report) -> list[Run]:
    return list(_inspect_all(inspect, paths))


def _inspect_all(inspect: Inspect, paths: Sequence[Path]) -> Iterator[Run]:
    listing = FolderListing(paths[0].parent) if paths else None
    return (inspect(path, listing) for path in paths)


def refresh_index(
    folder: Path, *, rebuild: bool = False, jobs: int = 1, progress: Progress | None = None
) -> tuple[Corpus, int]:
    """Update or create the index of a folder. Returns the corpus, and the number of tapes that were examined.

    rebuild: ignore the existing index. Raises OSError, ForeignIndexError.
    """
    tapes = tapes_in(folder)
    current = {} if rebuild else _examined_runs(_unchanged_runs(folder, tapes))
    rest = [path for path in tapes if path.name not in current]
    examined = inspect_tapes(rest, examine, jobs=jobs, progress=progress)
    corpus = Corpus(folder, tuple(sorted([*current.values(), *examined], key=order_of)))
    _put(folder, examined, corpus)
    return corpus, len(examined)


def _put(folder: Path, inspected: Sequence[Run], corpus: Corpus) -> None:
    """Write the inspected runs of a corpus to the index, and drop those of tapes that are gone."""
    names = {run.tape for run in corpus}
    with writing_index(folder) as connection:
        indexed = {row[0] for row in connection.execute("SELECT tape FROM runs")}
        drop_runs(connection, indexed - names)
        put_runs(connection, inspected)


def note_run(folder: Path, run: Run) -> None:
    """Write one run to the index. Raises OSError, ForeignIndexError."""
    with writing_index(folder) as connection:
        put_runs(connection, [run])


def upload_whole(tape: Path, url: TapeUrl) -> None:
    """Upload a tape that is not being recorded. Raises RecordingError if it is, FileExistsError or another OSError."""
    if is_locked(tape):
        raise RecordingError(f"{tape} is being recorded: add it after its run has ended")
    upload_tape(tape, url)


def add_tape(folder: Path, tape: Path) -> Path:
    """Copy a tape into the folder and return its new path. The index is not changed.

    Raises FileExistsError if the folder has a different file of that name, RecordingError if the tape is being recorded
    or its name does not end in .tape, OSError.
    """
    target = folder / tape.name
    if not tape.name.endswith(TAPE_SUFFIX):
        raise RecordingError(f"{tape}: expected a name that ends in {TAPE_SUFFIX}: rename the tape")
    if target.exists() and target.samefile(tape):
        return target
    if is_locked(tape):
        raise RecordingError(f"{tape} is being recorded: add it after its run has ended")
    if target.exists():
        raise FileExistsError(errno.EEXIST, "exists already: rename the tape", str(target))
    pairs = [(segment_path(tape, number), segment_path(target, number)) for number in following_segments(tape)]
    if journal_path(tape).exists():
        pairs.append((journal_path(tape), journal_path(target)))
    copied = []
    try:
        for source, copy in [*pairs, (tape, target)]:  # The first file last: a tape exists only with it.
            with atomic_file(copy, existing="refuse" if copy == target else "replace") as part:
                shutil.copy2(source, part)  # With its times: they tell when the run finished.
            copied.append(copy)
    except BaseException:
        for copy in copied:
            copy.unlink(missing_ok=True)
        raise
    return target
