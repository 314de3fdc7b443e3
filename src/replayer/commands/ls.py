"""The command ``replay ls``: which runs a folder holds, who played, how they ended; and what they are taken together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

from cyclopts import Parameter

from recorder.console.argument_types import Positive
from recorder.console.progress import progress_bar
from recorder.corpus.corpus import Corpus, add_tape, order_of, refresh_index
from recorder.corpus.run import TIERS, Run
from recorder.corpus.run_statistics import Statistics, statistics_of
from recorder.corpus.selection import ConditionError
from recorder.exit_codes import SAME, UNREADABLE, UsageError
from recorder.storage.os_errors import writing
from replayer.commands.arguments import RECORDINGS_FOLDER
from replayer.commands.export import PICTURES, load_drawing
from replayer.commands.ls_filters import RunFilters
from replayer.commands.ls_table import run_facts, run_lines, statistics_facts, statistics_lines
from replayer.commands.options import Json
from replayer.diagnose.certify.arithmetic import processor_count
from replayer.status import STATUS_CODES
from replayer.value_text import plain_text

Key = Literal["name", "seed", "ticks", "bytes", "finished", "inputs", "quality"]
Flag = Annotated[bool, Parameter(negative="")]
CODES = {**STATUS_CODES, "unreadable": UNREADABLE}


def ls(
    folder: Path = Path(RECORDINGS_FOLDER),
    /,
    *,
    wanted: Annotated[RunFilters | None, Parameter(name="*")] = None,
    sort: Key = "name",
    reverse: Flag = False,
    paths: Flag = False,
    stats: Flag = False,
    plot: Path | None = None,
    add: Annotated[list[Path] | None, Parameter(negative="")] = None,
    rebuild: Flag = False,
    jobs: Annotated[Positive | None, Parameter(name=["--jobs", "-j"])] = None,
    as_json: Json = False,
) -> int:
    """List the runs of a folder, all or some of them, or say what they are taken together.

    Examples:
    replay ls runs --won caterpillar --sort ticks --reverse
    replay ls runs --player beetle=random --seed 0..9 --stats --plot runs.png
    replay verify $(replay ls runs --quality scripted --paths | head -1)

    The index of the folder is believed of tapes that have not changed since. Exit code: 0 all tapes that are listed are
    sealed and whole, 3 one is incomplete, 4 corrupt, 5 unreadable; the worst of them.

    Parameters
    ----------
    folder
        Where the tapes are.
    sort
        In this order; by default by scenario, seed and name.
    reverse
        The other way round.
    paths
        Print the paths of the tapes and nothing else, one a line.
    stats
        Statistics instead of a list: ends, lengths, inputs, quality, how each policy fared.
    plot
        Draw these statistics; the name ends in .png, .svg or .pdf.
    add
        Copy this tape into the folder and note it in the index; may be repeated.
    rebuild
        Make the index anew, from the tapes alone.
    jobs
        Processes that read tapes which the index does not know; by default one for each processor.
    as_json
        Print one JSON object.
    """
    if paths and (stats or as_json or plot is not None):
        raise UsageError("--paths prints paths and nothing else: leave --stats, --plot and --json out")
    selection, drawing = (wanted or RunFilters()).selection(), _drawing(plot)
    if not folder.is_dir():
        made = "record run quiet-meadow" if str(folder) == RECORDINGS_FOLDER else f"record generate … -o {folder}"
        raise UsageError(f"there is no folder {folder}; make one with: {made}")
    for tape in add or []:
        add_tape(folder, tape)
    examined = stats or plot is not None or sort in {"inputs", "quality"} or selection.needs_examination
    corpus = _look(folder, jobs, writes=bool(add) or rebuild, anew=rebuild, examined=examined, quiet=as_json or paths)
    try:
        runs = _sorted(selection.choose(corpus.runs), sort, reverse=reverse)
    except ConditionError as error:
        raise UsageError(f"--where {error}") from None
    found = statistics_of(runs) if stats or plot is not None else None
    if drawing is not None and plot is not None:
        with writing(plot):
            drawing.save(drawing.draw_corpus(runs, found, str(folder)), plot)
    if paths:
        print("\n".join(str(run.path) for run in runs), end="\n" if runs else "")
    elif as_json:
        print(json.dumps(_facts(folder, runs, found, stats=stats, plot=plot), indent=1))
    else:
        lines = statistics_lines(found) if found is not None and stats else run_lines(runs)
        print("\n".join(plain_text(line) for line in [f"{folder}: {lines[0]}", *lines[1:]]))
        print(f"  drawn: {plot}" if plot is not None else "", end="\n" if plot is not None else "")
    return max((CODES[run.status] for run in runs), default=SAME)


def _drawing(plot: Path | None) -> ModuleType | None:
    """What draws, if something is to be drawn. Raises UsageError."""
    if plot is None:
        return None
    if plot.suffix not in PICTURES:
        raise UsageError(f"{plot}: a name that ends in {', '.join(PICTURES)} was expected")
    load_drawing()
    import replayer.commands.ls_plot  # noqa: PLC0415 - matplotlib is an extra, and takes long to import

    return replayer.commands.ls_plot


def _look(folder: Path, jobs: int | None, *, writes: bool, anew: bool, examined: bool, quiet: bool) -> Corpus:
    """What the folder holds; the index is brought up to date if that was asked for."""
    count = jobs or processor_count()
    with progress_bar("reading tapes", 100, quiet=quiet) as show:
        progress = lambda done, total: show(100 * done / total)  # noqa: E731
        if writes:
            return refresh_index(folder, rebuild=anew, jobs=count, progress=progress)[0]
        return Corpus.open(folder, examined=examined, jobs=count, progress=progress)


def _sorted(runs: Sequence[Run], key: Key, *, reverse: bool) -> list[Run]:
    """In order of a key, and of the corpus where that is the same; what is not known comes first."""

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
                found = run.seed if key == "seed" else run.ticks
                return found if found is not None else -1
        return ""

    return sorted(sorted(runs, key=order_of), key=value, reverse=reverse)


def _facts(folder: Path, runs: Sequence[Run], found: Statistics | None, *, stats: bool, plot: Path | None) -> object:
    facts: dict[str, object] = {"folder": str(folder)}
    if found is not None and stats:
        facts |= statistics_facts(found)
    else:
        facts["runs"] = [run_facts(run) for run in runs]
    return facts | ({"plot": str(plot)} if plot is not None else {})
