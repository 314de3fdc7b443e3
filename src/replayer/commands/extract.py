"""The command ``replay extract``: training data out of recordings."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from recorder.console.argument_types import NotNegative, Positive
from recorder.console.progress import progress_bar
from recorder.exit_codes import UsageError
from recorder.storage.os_errors import reading
from recorder.text import bytes_text, counted
from replayer.commands.arguments import choose, factory_of
from replayer.commands.options import Json, Sim
from replayer.datasets.extract import Extraction, extract, list_tapes
from replayer.datasets.request import ExtractionError, Request, read_range, read_splits
from replayer.datasets.stores.store_formats import FileFormat
from replayer.diagnose.certify.arithmetic import processor_count
from replayer.value_text import plain_text, tick_range

SHOWN = 5  # Of columns and losses.
_READERS = {"parquet": "parquet", "arrow": "ipc"}

_Names = list[str] | None
_Tapes = Annotated[Path, Parameter(help="The tapes, or folders of tapes; by default the newest tape in recordings/.")]
_Output = Annotated[
    Path, Parameter(name=["--output", "-o"], help="The folder to make, for the data set; it must not exist.")
]
_Stride = Annotated[Positive, Parameter(help="One sample every so many ticks.")]
_Ticks = Annotated[
    _Names,
    Parameter(
        name="--ticks",
        negative="",
        allow_leading_hyphen=True,
        help="FIRST..LAST, both included; negative ticks count from the end. May be repeated; by default all ticks.",
    ),
]
_Table = Annotated[
    list[Literal["states", "pairs", "actions", "events"]] | None,
    Parameter(negative="", help="Which tables; may be repeated."),
]
_Field = Annotated[
    _Names,
    Parameter(
        negative="",
        help="A field: of states which (all by default), in pairs beside what is observed. May be repeated.",
    ),
]
_Observe = Annotated[
    _Names,
    Parameter(
        negative="",
        help="What pairs observe: a name that the world has, or module:function of (state) or (state, agent). May be "
        "repeated.",
    ),
]
_Agent = Annotated[_Names, Parameter(negative="", help="Whose pairs and actions; may be repeated. All by default.")]
_Action = Annotated[
    _Names,
    Parameter(
        negative="",
        help="How actions become arrays: a name that the world has, or module:function of (inputs), (inputs, state) or "
        "(inputs, state, agent).",
    ),
]
_NoActions = Annotated[bool, Parameter(negative="", help="Pairs without actions.")]
_Reward = Annotated[
    _Names,
    Parameter(
        negative="",
        help="A name that the world has, or module:function of (before, after) or (before, after, agent). May be repeated.",
    ),
]
_List = Annotated[
    _Names,
    Parameter(
        name="--list",
        negative="",
        help="A one-dimensional array of your observation whose length changes; may be repeated.",
    ),
]
_Long = Annotated[bool, Parameter(negative="", help="States as one row for each entity or cell.")]
_Mode = Annotated[
    Literal["all", "inputs", "winners", "balanced"],
    Parameter(
        help="inputs: only pairs in which the agent sent something; winners: only of agents that won; balanced: as many "
        "that won as lost."
    ),
]
_Split = Annotated[
    str | None, Parameter(help="Shares of the runs, such as train=0.8,test=0.2; a run is in one split, whole.")
]
_Seed = Annotated[NotNegative, Parameter(help="Of the choice that splits and balancing make.")]
_Format = Annotated[
    FileFormat,
    Parameter(
        name="--format",
        help="parquet or arrow: files of all tables; zarr: a group for each table, but none for actions and events; "
        "minari: an episode for each run and agent, of pairs alone, with one reward.",
    ),
]
_Jobs = Annotated[
    Positive | None, Parameter(name=["--jobs", "-j"], help="Processes; by default one for each processor.")
]


def extract_tapes(
    *tapes: _Tapes,
    output: _Output,
    stride: _Stride = 1,
    ticks: _Ticks = None,
    table: _Table = None,
    field: _Field = None,
    observe: _Observe = None,
    agent: _Agent = None,
    action: _Action = None,
    no_actions: _NoActions = False,
    reward: _Reward = None,
    lists: _List = None,
    long: _Long = False,
    mode: _Mode = "all",
    split: _Split = None,
    seed: _Seed = 0,
    file_format: _Format = "parquet",
    jobs: _Jobs = None,
    sim: Sim = None,
    as_json: Json = False,
) -> int:
    """Cut a data set out of recordings: training pairs, states, actions, events.

    Examples:
    replay extract run.tape -o data
    replay extract runs/*.tape -o data --observe fog --reward heads --split train=0.8,test=0.2
    replay extract run.tape -o states --table states --field plants.energy --stride 10 --long
    replay extract run.tape -o data --observe mine.py:look --ticks 1000..2000 --table pairs --table events

    Without --table: pairs where the world has agents, else states. An extraction that was stopped goes on where it was
    when the same command is given again; the folder has its name only when it is whole. The files are the same for any
    number of jobs.

    Exit code: 0 everything was there, 1 a replayed state was another one than recorded (its rows are left out), 3 a tape
    is not complete, 4 a tape is damaged; what is missing is in the manifest.

    Parameters
    ----------
    sim
        module:factory of the simulation, for tapes that name no registered world.
    as_json
        Say what came of it as one JSON object.
    """
    try:
        wanted: dict[str, Any] = {"stride": stride, "agents": agent, "long": long, "mode": mode, "seed": seed}
        named = {"tables": table, "fields": field, "observations": observe, "rewards": reward, "lists": lists}
        wanted |= {name: given or () for name, given in named.items()}
        wanted |= {"actions": () if no_actions else action, "ranges": tuple(map(read_range, ticks or ()))}
        request = Request(splits=read_splits(split) if split is not None else (), **wanted)
        paths = list_tapes(tapes or [choose(None)])
        with (
            progress_bar("looking at tapes", len(paths), quiet=as_json) as look,
            progress_bar("extracting", 100, quiet=as_json) as show,
            reading(output),
        ):
            found = extract(
                paths,
                output,
                request=request,
                world=factory_of(sim),
                jobs=jobs or processor_count(),
                file_format=file_format,
                looking=look,
                progress=lambda done, total: show(100 * done / max(total, 1)),
                command=_repeatable(sys.argv),
            )
    except ExtractionError as error:
        raise UsageError(str(error)) from None
    _print(found, as_json=as_json)
    return found.code


def _repeatable(words: Sequence[str]) -> list[str]:
    """The command line without what does not change the data set: how many processes, and how it is shown."""
    kept, skip = [], False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("--jobs", "-j"):
            skip = True
        elif word != "--json" and not word.startswith(("--jobs=", "-j")):
            kept.append(word)
    return ["replay", *kept]


def _print(found: Extraction, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"path": str(found.path), "rows": found.rows, "code": found.code}, indent=1))
        return
    manifest = found.manifest
    for name, table in manifest["tables"].items():
        size = sum(file["bytes"] for file in table["files"])
        files = counted(len(table["files"]), "file")
        print(f"{found.path}/{name}: {counted(table['rows'], 'row')} in {files}, {bytes_text(size)}")
        columns = list(table["columns"])
        more = f" and {len(columns) - 4 * SHOWN} more" if len(columns) > 4 * SHOWN else ""
        print(f"  columns: {', '.join(columns[: 4 * SHOWN])}{more}")
    if not manifest["tables"]:
        print(f"{found.path}: no rows")
    for line in [*manifest["notes"], *manifest["problems"]]:
        print(f"  {plain_text(line)}", file=sys.stderr)
    for one in manifest["missing"][:SHOWN]:
        ticks = tick_range(one["first_tick"], one["last_tick"])
        print(f"  missing: {one['tape']}, {ticks}: {plain_text(one['why'])}", file=sys.stderr)
    if len(manifest["missing"]) > SHOWN:
        print(f"  and {len(manifest['missing']) - SHOWN} more, see manifest.json", file=sys.stderr)
    first = next(iter(manifest["tables"]), None)
    if first is not None:
        print(f"next: {_next_step(found, first)}")


def _next_step(found: Extraction, table: str) -> str:
    """A command that reads a table."""
    file_format, told = found.manifest["format"], found.manifest["tables"][table]
    if file_format == "zarr":
        opening = f"xarray.open_zarr('{found.path / 'data.zarr'}', group='{told['groups'][0]}', consolidated=False)"
        return f'python -c "import xarray; print({opening})"'
    if file_format == "minari":
        opening = f"minari.load_dataset('{told['datasets'][0]}').spec"
        folder = shlex.quote(str(found.path))
        return f'MINARI_DATASETS_PATH={folder} python -c "import minari; print({opening})"'
    pattern = f"{found.path / table}/**/*.{file_format}"
    return f"python -c \"import polars; print(polars.read_{_READERS[file_format]}('{pattern}'))\""
