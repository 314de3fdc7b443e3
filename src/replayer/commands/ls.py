"""The command ``replay ls``: the runs of a folder, their players, how they ended, and statistics of all of them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Positive, local_paths
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.corpus.corpus import Corpus, add_tape, look, order_of, refresh_index, upload_whole
from recorder.corpus.run import TIERS, Run
from recorder.corpus.run_statistics import Statistics, statistics_of
from recorder.corpus.selection import ConditionError
from recorder.exit_codes import SAME, UNREADABLE, UsageError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from recorder.processes.pool import processor_count
from recorder.storage.os_errors import writing
from recorder.visible_text import print_visible, visible
from replayer.commands.arguments import RECORDINGS_FOLDER
from replayer.commands.export import PICTURES, load_drawing
from replayer.commands.ls_filters import RunFilters
from replayer.commands.ls_table import run_facts, run_lines, statistics_facts, statistics_lines
from replayer.commands.options import Json, PlacePath
from replayer.status import STATUS_CODES
from replayer.value_text import plain_text

Key = Literal["name", "seed", "ticks", "bytes", "finished", "inputs", "quality"]
Flag = Annotated[bool, Parameter(negative="")]
CODES = {**STATUS_CODES, "unreadable": UNREADABLE}


def ls(
    folder: PlacePath = Path(RECORDINGS_FOLDER),
    /,
    *,
    filters: Annotated[RunFilters | None, Parameter(name="*")] = None,
    sort: Key = "name",
    reverse: Flag = False,
    paths: Flag = False,
    stats: Flag = False,
    plot: LocalPath | None = None,
    add: Annotated[list[Path] | None, Parameter(negative="", converter=local_paths)] = None,
    rebuild: Flag = False,
    jobs: Annotated[Positive | None, Parameter(name=["--jobs", "-j"])] = None,
    as_json: Json = False,
) -> int:
    """List the runs of a folder, all or some of them, or print their statistics.

    Examples:
    replay ls runs --won caterpillar --sort ticks --reverse
    replay ls runs --player beetle=random --seed 0..9 --stats --plot runs.png
    replay verify $(replay ls runs --quality scripted --paths | head -1)
    replay ls s3://bucket/runs

    Tapes that have not changed since the folder was indexed are not read again; reading 100 or more updates the index.

    Exit code of the worst tape: 0 not checked (no fault is visible; info reads all), 3 incomplete, 4 corrupt, 5 unreadable.

    Parameters
    ----------
    folder
        The folder of the tapes.
    sort
        The order of the runs. "name", the default, sorts by scenario, seed and name.
    reverse
        Reverse the order.
    paths
        Print only the paths of the tapes, one per line.
    stats
        Print statistics instead of a list: ends, lengths, inputs, quality, results of each policy.
    plot
        Draw these statistics into a file: a name that ends in .png, .svg or .pdf.
    add
        Copy this tape into the folder, which may be at a URL, and add it to the index. A missing folder is made. May be
        repeated.
    rebuild
        Rebuild the index from the tapes.
    jobs
        The number of processes that read tapes that are not in the index. By default one for each processor.
    as_json
        Print one JSON object.
    """
    if paths and (stats or as_json or plot is not None):
        raise UsageError("--paths prints only paths: leave out --stats, --plot and --json")
    selection, drawing = (filters or RunFilters()).selection(), _drawing(plot)
    _prepare(folder, add or [], rebuild=rebuild)
    examined = stats or plot is not None or sort in {"inputs", "quality"} or selection.needs_examination
    corpus = _open(folder, jobs, update=bool(add), rebuild=rebuild, examined=examined, quiet=as_json or paths)
    try:
        runs = _sorted(selection.choose(corpus.runs), sort, reverse=reverse)
    except ConditionError as error:
        raise UsageError(f"--where {error}") from None
    statistics = statistics_of(runs) if stats or plot is not None else None
    if drawing is not None and plot is not None:
        with writing(plot):
            drawing.save(drawing.draw_corpus(runs, statistics, str(folder)), plot)
    if paths:
        _print_paths(runs)
    elif as_json:
        print_json(_facts(folder, runs, statistics, stats=stats, plot=plot))
    else:
        lines = statistics_lines(statistics) if statistics is not None and stats else run_lines(runs)
        print_visible("\n".join(plain_text(line) for line in [f"{folder}: {lines[0]}", *lines[1:]]))
        print_visible(f"  drawn: {plot}" if plot is not None else "", end="\n" if plot is not None else "")
    return max((CODES[run.status] for run in runs), default=SAME)


def _prepare(folder: Location, added: Sequence[Path], *, rebuild: bool) -> None:
    """Copy tapes into the folder, which is made for them. Raises UsageError if there is no folder to list, or it cannot be written."""
    if isinstance(folder, TapeUrl):
        if rebuild:
            raise UsageError("--rebuild writes an index: name a folder of this machine")
        for tape in added:
            upload_whole(tape, folder / tape.name)
        return
    if added and not os.path.lexists(folder):
        with writing(folder):
            folder.mkdir()
        try:
            _add(folder, added)
        except BaseException:
            with contextlib.suppress(OSError):
                folder.rmdir()  # Of a failed command nothing is left, unless a tape was added.
            raise
        return
    if not folder.is_dir():
        command = "record run quiet-meadow" if str(folder) == RECORDINGS_FOLDER else f"record generate … -o {folder}"
        raise UsageError(f"there is no folder {folder}; make one with: {command}")
    _add(folder, added)


def _add(folder: Path, tapes: Sequence[Path]) -> None:
    for tape in tapes:
        add_tape(folder, tape)


def _print_paths(runs: Sequence[Run]) -> None:
    """Print the paths for other programs as they are, and those on a terminal so that they cannot steer it."""
    paths = "".join(f"{os.fspath(run.path)}\n" for run in runs)
    sys.stdout.write(visible(paths) if sys.stdout.isatty() else paths)


def _drawing(plot: Path | None) -> ModuleType | None:
    """Import the module that draws, if --plot is given. Raises UsageError."""
    if plot is None:
        return None
    if plot.suffix not in PICTURES:
        raise UsageError(f"{plot}: expected a name that ends in {', '.join(PICTURES)}")
    load_drawing()
    import replayer.commands.ls_plot  # noqa: PLC0415 - matplotlib is an extra, and takes long to import

    return replayer.commands.ls_plot


def _open(folder: Location, jobs: int | None, *, update: bool, rebuild: bool, examined: bool, quiet: bool) -> Corpus:
    """Open the corpus in the folder; update its index on disk first, or rebuild it, if asked for."""
    count = jobs or processor_count()
    with progress_bar("reading tapes", 100, quiet=quiet) as show:
        progress = lambda done, total: show(100 * done / total)  # noqa: E731
        if isinstance(folder, Path) and (update or rebuild):
            return refresh_index(folder, rebuild=rebuild, jobs=count, progress=progress)[0]
        return look(folder, examined=examined, jobs=count, progress=progress)


def _sorted(runs: Sequence[Run], key: Key, *, reverse: bool) -> list[Run]:
    """Sort runs by a key, equal ones in the order of the corpus; runs whose value is unknown come first."""

    def value(run: Run) -> float | str:
        match key:
            case "inputs":
                return run.quality.inputs if run.quality is not None else -1
            case "quality":
                return TIERS.index(run.quality.tier) if run.quality is not None else -1
            case "finished":
                return run.changed_ns
            case "bytes":
                return run.size_bytes
            case "seed" | "ticks":
                number = run.seed if key == "seed" else run.ticks
                return number if number is not None else -1
        return ""

    return sorted(sorted(runs, key=order_of), key=value, reverse=reverse)


def _facts(
    folder: Location, runs: Sequence[Run], statistics: Statistics | None, *, stats: bool, plot: Path | None
) -> object:
    facts: dict[str, object] = {"folder": str(folder)}
    if statistics is not None and stats:
        facts |= statistics_facts(statistics)
    else:
        facts["runs"] = [run_facts(run) for run in runs]
    return facts | ({"plot": str(plot)} if plot is not None else {})
