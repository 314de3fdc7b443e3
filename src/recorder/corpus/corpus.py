"""A corpus: a folder of tapes, and what is known of the runs on them.

The index is believed of those tapes that are as they were when it was written; at all others there is a look. So a
corpus is what lies in its folder, with an index or without.
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
TAPES_A_PROCESS = 16  # Starting a process takes about a second; reading a tape, some tenths.

Progress = Callable[[int, int], None]  # Tapes done, tapes in all.


def order_of(run: Run) -> tuple[Any, ...]:
    """The order of a corpus: by scenario, seed, and the name of the tape."""
    return (run.scenario or "", run.seed if run.seed is not None else -1, run.tape)


@attrs.frozen
class Corpus:
    """The runs of a folder, or some of them; iterate over it, or ask for ``paths()``.

    Attributes:
        folder: where the tapes are.
        runs: in order.
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
        """Look at a folder; nothing is written.

        examined: read the tapes that the index does not know, so that the quality of each run is known, and the scores
        of those that have none on the tape; else there is only a glance at them. jobs: processes for that.

        Raises FileNotFoundError, NotADirectoryError or another OSError; ForeignIndexError.
        """
        place = Path(folder)
        known = _believed(place)
        rest = [path for path in tapes_in(place) if path.name not in known]
        found = look_at(rest, examine if examined else glance, jobs=jobs, progress=progress)
        return cls(place, tuple(sorted([*known.values(), *found], key=order_of)))

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def paths(self) -> list[Path]:
        """Of the tapes, in order."""
        return [run.path for run in self.runs]

    def select(self, **wanted: Any) -> Self:
        """The corpus of those runs that are meant; wanted: see Selection. Raises ConditionError."""
        return attrs.evolve(self, runs=tuple(Selection(**wanted).choose(self.runs)))


def tapes_in(folder: Path) -> list[Path]:
    """The tapes of a folder, by name. Raises OSError."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(TAPE_SUFFIX) and path.is_file())


def _believed(folder: Path) -> dict[str, Run]:
    """What the index says of the tapes that are as they were, by their names. Raises OSError, ForeignIndexError."""
    names = {path.name for path in tapes_in(folder)}
    return {name: run for name, run in load_index(folder).items() if name in names and _is_unchanged(run)}


def _is_unchanged(run: Run) -> bool:
    try:
        return stamp_of(run.path) == (run.size_bytes, run.changed_ns)
    except OSError:
        return False


def look_at(
    paths: Sequence[Path], how: Callable[[Path], Run], *, jobs: int = 1, progress: Progress | None = None
) -> list[Run]:
    """What there is to know of tapes, in their order, by so many processes."""
    found: list[Run] = []
    tell = progress or (lambda *_: None)

    def keep(runs: Iterable[Run]) -> list[Run]:
        for run in runs:
            found.append(run)
            tell(len(found), len(paths))
        return found

    workers = min(jobs, len(paths) // TAPES_A_PROCESS)
    if workers <= 1:
        return keep(map(how, paths))
    work = partial(_look_at_one, how)
    return keep(results_in_order(SpawnPool(workers), work, paths, name=lambda path: f"looked at {path}"))


def _look_at_one(how: Callable[[Path], Run], path: Path, _: Report) -> Run:
    return how(path)


def refresh_index(
    folder: Path, *, anew: bool = False, jobs: int = 1, progress: Progress | None = None
) -> tuple[Corpus, int]:
    """Bring the index up to what lies in the folder; make it if there is none. The corpus, and how many were looked at.

    anew: believe nothing that the index says. Raises OSError, ForeignIndexError.
    """
    known = {} if anew else _believed(folder)
    known = {name: run for name, run in known.items() if run.quality is not None or run.status == "unreadable"}
    rest = [path for path in tapes_in(folder) if path.name not in known]
    found = look_at(rest, examine, jobs=jobs, progress=progress)
    runs = [*known.values(), *found]
    with writing_index(folder) as connection:
        there = {row[0] for row in connection.execute("SELECT tape FROM runs")}
        drop_runs(connection, there - set(known))
        put_runs(connection, found)
    return Corpus(folder, tuple(sorted(runs, key=order_of))), len(found)


def note_run(folder: Path, run: Run) -> None:
    """Put one run into the index. Raises OSError, ForeignIndexError."""
    with writing_index(folder) as connection:
        put_runs(connection, [run])


def add_tape(folder: Path, tape: Path) -> Path:
    """Copy a tape into the folder; its new path. The index is not touched.

    Raises FileExistsError if there is another file of that name, RecordingError if the tape is being recorded or has a
    name that no tape of a corpus has, OSError.
    """
    target = folder / tape.name
    if not tape.name.endswith(TAPE_SUFFIX):
        raise RecordingError(f"{tape}: the tapes of a corpus have names that end in {TAPE_SUFFIX}")
    if target.exists() and target.samefile(tape):
        return target
    if is_locked(tape):
        raise RecordingError(f"{tape} is being recorded: add it when it has ended")
    if target.exists():
        raise FileExistsError(errno.EEXIST, "exists already: give the tape another name", str(target))
    pairs = [(segment_path(tape, number), segment_path(target, number)) for number in following_segments(tape)]
    if journal_path(tape).exists():
        pairs.append((journal_path(tape), journal_path(target)))
    copied = []
    try:
        for source, copy in [*pairs, (tape, target)]:  # The first file last: before that, there is no tape.
            with atomic_file(copy, existing="refuse" if copy == target else "replace") as part:
                shutil.copy2(source, part)  # With its times: when the run finished is not when it was copied.
            copied.append(copy)
    except BaseException:
        for copy in copied:
            copy.unlink(missing_ok=True)
        raise
    return target
