"""A corpus: a folder of tapes, and descriptions of their runs.

The index is used for tapes that are unchanged since it was written; all other tapes are inspected. So a corpus always
shows the contents of its folder, with an index or without.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import attrs

from recorder.corpus.database import drop_runs, load_index, put_runs, writing_index
from recorder.corpus.inspect_tape import examine, glance, stamp_of
from recorder.corpus.run import Run
from recorder.corpus.selection import Selection
from recorder.errors import RecordingError
from recorder.processes.pool import Report, results_in_order
from recorder.processes.spawn_pool import SpawnPool
from recorder.storage.atomic_file import atomic_file
from recorder.storage.file_names import following_segments, journal_path, segment_path
from recorder.storage.open_tape import is_locked

TAPE_SUFFIX = ".tape"
TAPES_A_PROCESS = 16  # Starting a process takes about a second, reading a tape some tenths.

Progress = Callable[[int, int], None]  # Tapes done, total tapes.


def order_of(run: Run) -> tuple[Any, ...]:
    """Return the sort key of a corpus: scenario, seed, name of the tape."""
    return (run.scenario or "", run.seed if run.seed is not None else -1, run.tape)


@attrs.frozen
class Corpus:
    """The runs of a folder, or a selection of them; iterate over it, or use ``paths()``.

    Attributes:
        folder: the folder of the tapes.
        runs: the runs, sorted by order_of.
    """

    folder: Path
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
        """Describe the runs of a folder, without writing anything.

        examined: read the tapes that the index does not cover, to determine the quality of each run and scores that are
        not on the tape; otherwise read only headers and indexes. jobs: number of processes.

        Raises FileNotFoundError, NotADirectoryError or another OSError; ForeignIndexError.
        """
        path = Path(folder)
        indexed = _unchanged_runs(path)
        rest = [tape for tape in tapes_in(path) if tape.name not in indexed]
        inspected = inspect_tapes(rest, examine if examined else glance, jobs=jobs, progress=progress)
        return cls(path, tuple(sorted([*indexed.values(), *inspected], key=order_of)))

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def paths(self) -> list[Path]:
        """Return the paths of the tapes, in the order of the runs."""
        return [run.path for run in self.runs]

    def select(self, **conditions: Any) -> Self:
        """Return the corpus of the selected runs. conditions: see Selection. Raises ConditionError."""
        return attrs.evolve(self, runs=tuple(Selection(**conditions).choose(self.runs)))


def tapes_in(folder: Path) -> list[Path]:
    """Return the tapes of a folder, sorted by name. Raises OSError."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(TAPE_SUFFIX) and path.is_file())


def _unchanged_runs(folder: Path) -> dict[str, Run]:
    """Return the indexed runs of unchanged tapes, by name of the tape. Raises OSError, ForeignIndexError."""
    names = {path.name for path in tapes_in(folder)}
    return {name: run for name, run in load_index(folder).items() if name in names and _is_unchanged(run)}


def _is_unchanged(run: Run) -> bool:
    try:
        return stamp_of(run.path) == (run.size_bytes, run.changed_ns)
    except OSError:
        return False


def inspect_tapes(
    paths: Sequence[Path], inspect: Callable[[Path], Run], *, jobs: int = 1, progress: Progress | None = None
) -> list[Run]:
    """Describe the runs of tapes, in their order, in this many processes. inspect: glance or examine."""
    inspected: list[Run] = []
    on_progress = progress or (lambda *_: None)

    def keep(runs: Iterable[Run]) -> list[Run]:
        for run in runs:
            inspected.append(run)
            on_progress(len(inspected), len(paths))
        return inspected

    workers = min(jobs, len(paths) // TAPES_A_PROCESS)
    if workers <= 1:
        return keep(map(inspect, paths))
    work = partial(_inspect_one, inspect)
    return keep(results_in_order(SpawnPool(workers), work, paths, name=lambda path: f"inspected {path}"))


def _inspect_one(inspect: Callable[[Path], Run], path: Path, _: Report) -> Run:
    return inspect(path)


def refresh_index(
    folder: Path, *, rebuild: bool = False, jobs: int = 1, progress: Progress | None = None
) -> tuple[Corpus, int]:
    """Update or create the index of a folder. Returns the corpus, and the number of tapes that were examined.

    rebuild: ignore the existing index. Raises OSError, ForeignIndexError.
    """
    current = {} if rebuild else _unchanged_runs(folder)
    current = {name: run for name, run in current.items() if run.quality is not None or run.status == "unreadable"}
    rest = [path for path in tapes_in(folder) if path.name not in current]
    examined = inspect_tapes(rest, examine, jobs=jobs, progress=progress)
    runs = [*current.values(), *examined]
    with writing_index(folder) as connection:
        indexed = {row[0] for row in connection.execute("SELECT tape FROM runs")}
        drop_runs(connection, indexed - set(current))
        put_runs(connection, examined)
    return Corpus(folder, tuple(sorted(runs, key=order_of))), len(examined)


def note_run(folder: Path, run: Run) -> None:
    """Write one run to the index. Raises OSError, ForeignIndexError."""
    with writing_index(folder) as connection:
        put_runs(connection, [run])


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
