"""The runs of a folder of tapes at a URL: one listing, then a few reads of each tape, of several tapes at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from recorder.corpus.inspect_tape import inspect_url
from recorder.corpus.run import Run
from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import TAPE_SUFFIX
from recorder.storage.remote.url_folder import list_folder

AT_A_TIME = 8  # Tapes: a thread waits for the store nearly all of its time.


def runs_at(
    folder: TapeUrl, *, examined: bool = False, progress: Callable[[int, int], None] | None = None
) -> tuple[Run, ...]:
    """Describe the runs of a folder, in the order of their names; nothing is written and nothing is kept.

    Raises FileNotFoundError or another OSError if the folder cannot be listed; a tape that cannot be read is a Run.
    """
    listed = list_folder(folder)
    tapes = [folder / name for name in sorted(listed) if name.endswith(TAPE_SUFFIX)]
    runs = []
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        for run in threads.map(lambda tape: inspect_url(tape, listed, examined=examined), tapes):
            runs.append(run)
            if progress is not None:
                progress(len(runs), len(tapes))
    return tuple(runs)
