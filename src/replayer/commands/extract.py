"""The command ``replay extract``: training data from recordings."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import NotNegative, Positive
from recorder.console.engine_option import EngineOption, engine_arguments
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.errors import RecordingError
from recorder.exit_codes import UsageError
from recorder.location.tape_location import Location
from recorder.location.tape_url import shown_url
from recorder.processes.interpreter import command_words
from recorder.processes.pool import processor_count
from recorder.storage.os_errors import reading
from recorder.text import bytes_text, counted, shown_path
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, factory_of
from replayer.commands.options import Json, PlacePath, Sim, TapePath
from replayer.datasets.extract import Extraction, extract
from replayer.datasets.request import ExtractionError, ExtractionWarning, Request, list_tapes, read_range, read_splits
from replayer.datasets.stores.store_formats import FileFormat
from replayer.value_text import plain_text, tick_range

LINES_SHOWN = 5  # Of missing ticks.
COLUMNS_SHOWN = 20
_READERS = {"parquet": "parquet", "arrow": "ipc"}

_Names = list[str] | None
_Tapes = Annotated[
    TapePath, Parameter(help="The tapes, or folders of tapes. By default the newest tape in recordings/.")
]
_Output = Annotated[
    PlacePath,
    Parameter(name=["--output", "-o"], help="The folder or URL for the data set, which must not exist yet."),
]
_Stride = Annotated[Positive, Parameter(help="Take one sample every N ticks.")]
_Ticks = Annotated[
    _Names,
    Parameter(
        name="--ticks",
        negative="",
        allow_leading_hyphen=True,
        help="A range FIRST..LAST, both included. Negative ticks count from the end. May be repeated. By default all ticks.",
    ),
]
_Table = Annotated[
    list[Literal["transitions", "states", "pairs", "actions", "events"]] | None,
    Parameter(negative="", help="The tables to write. May be repeated."),
]
_Field = Annotated[
    _Names,
    Parameter(
        negative="",
        help="A field to extract: in transitions a part of the observation, instead of all; in states instead of all fields; "
        "in pairs in addition to the observations. May be repeated.",
    ),
]
_Observe = Annotated[
    _Names,
    Parameter(
        negative="",
        help="The observation in pairs: a name that the world defines, or module:function of (state) or (state, agent). "
        "May be repeated.",
    ),
]
_Agent = Annotated[
    _Names,
    Parameter(
        negative="",
        help="An agent whose transitions, pairs and actions are extracted. May be repeated. By default all.",
    ),
]
_Action = Annotated[
    _Names,
    Parameter(
        negative="",
        help="The encoding of actions as arrays: a name that the world defines, or module:function of (inputs), "
        "(inputs, state) or (inputs, state, agent).",
    ),
]
_NoActions = Annotated[bool, Parameter(negative="", help="Write pairs without actions.")]
_Reward = Annotated[
    _Names,
    Parameter(
        negative="",
        help="A reward: a name that the world defines, or module:function of (before, after) or (before, after, agent). "
        "May be repeated.",
    ),
]
_List = Annotated[
    _Names,
    Parameter(
        name="--list",
        negative="",
        help="A one-dimensional array of your observation whose length changes. May be repeated.",
    ),
]
_Long = Annotated[bool, Parameter(negative="", help="Write states as one row for each entity or cell.")]
_Info = Annotated[bool, Parameter(negative="", help="Add what the environment returned as info to the transitions.")]
_Proof = Annotated[
    Literal["ticks", "sampled"],
    Parameter(
        help="Of environments: compare the state of each tick with the recorded one, or of one in at most 300, which is "
        "faster; for tapes that replay verify has proved here."
    ),
]
_Mode = Annotated[
    Literal["all", "inputs", "winners", "balanced"],
    Parameter(
        help="inputs: only pairs in which the agent sent something; winners: only agents that won; balanced: as many "
        "winners as losers."
    ),
]
_Split = Annotated[
    str | None, Parameter(help="Shares of the runs, such as train=0.8,test=0.2. Each run is in one split.")
]
_Seed = Annotated[NotNegative, Parameter(help="The seed of the random choice of splits and of --mode balanced.")]
_Format = Annotated[
    FileFormat,
    Parameter(
        name="--format",
        help="parquet or arrow: files for each table. zarr: a group for each table, without actions and events. minari: "
        "an episode for each run and agent, only pairs with one reward, or transitions. lerobot: a LeRobotDataset, only "
        "transitions.",
    ),
]
_Fps = Annotated[
    float | None,
    Parameter(
        help="Frames per second of --format lerobot. By default the render_fps of the environment's metadata, or else 30."
    ),
]
_Jobs = Annotated[
    Positive | None,
    Parameter(name=["--jobs", "-j"], help="The number of processes. By default one for each processor."),
]
_Sim = Annotated[Sim, Parameter(help="module:factory of the simulation, for tapes that name no registered world.")]
_Json = Annotated[Json, Parameter(help="Print one JSON object.")]


@attrs.frozen(kw_only=True)
class AgentOptions:
    """Functions of the agents of your own simulation, each as module:function.

    Attributes:
        agent_names, agent_observation, agent_actions, agent_reward: see their help.
    """

    agent_names: Annotated[
        str | None, Parameter(help="Your simulation's agents: module:function of (simulation), in place of its method.")
    ] = None
    agent_observation: Annotated[
        str | None, Parameter(help="What an agent observes: module:function of (simulation, agent).")
    ] = None
    agent_actions: Annotated[
        str | None,
        Parameter(help="The actions by agent: module:function of the simulation and the arguments of its step."),
    ] = None
    agent_reward: Annotated[
        str | None, Parameter(help="An agent's reward of the last step: module:function of (simulation, agent).")
    ] = None


_NO_AGENT_OPTIONS = AgentOptions()
_Append = Annotated[
    bool,
    Parameter(negative="", help="If the folder exists, read only tapes that it does not hold, and add their rows."),
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
    info: _Info = False,
    proof: _Proof = "ticks",
    mode: _Mode = "all",
    split: _Split = None,
    seed: _Seed = 0,
    file_format: _Format = "parquet",
    fps: _Fps = None,
    append: _Append = False,
    jobs: _Jobs = None,
    engine: EngineOption = None,
    sim: _Sim = None,
    functions: Annotated[AgentOptions, Parameter(name="*")] = _NO_AGENT_OPTIONS,
    as_json: _Json = False,
) -> int:
    """Extract a data set from recordings: transitions, training pairs, states, actions, events.

    Try:
    replay extract cart.tape -o data
    replay extract runs/*.tape -o data --observe fog --reward heads
    replay extract runs/*.tape -o data --split train=0.8,test=0.2
    replay extract run.tape -o data --table states --field plants.energy --long
    replay extract run.tape -o data --observe mine.py:look --ticks 1000..2000
    replay extract runs -o data --table pairs --table events --stride 10 --append
    replay extract s3://bucket/runs -o s3://bucket/data

    Without --table: transitions of environments and of simulations with agent_names;
    pairs if the world has agents; else states. The same command continues an
    extraction that was stopped. The folder gets its name when it is complete.

    Exit code: 0 nothing is missing, 1 a replayed state differs from the recorded
    one (its rows are left out), 3 a tape is incomplete, 4 a tape is damaged. The
    manifest lists what is missing.
    """
    try:
        repeated = {"tables": table, "fields": field, "observations": observe, "rewards": reward, "lists": lists}
        one: dict[str, Any] = {"stride": stride, "agents": agent, "long": long, "info": info, "mode": mode}
        one |= {"actions": () if no_actions else action, "proof": proof, "ranges": tuple(map(read_range, ticks or ()))}
        one |= {"splits": read_splits(split) if split is not None else (), "seed": seed, **attrs.asdict(functions)}
        request = Request(**(one | {name: values or () for name, values in repeated.items()}))
        paths = list_tapes(tapes or [choose(None)])
        with (
            warnings.catch_warnings(action="ignore", category=ExtractionWarning),  # They are among the notes.
            progress_bar("inspecting tapes", len(paths), quiet=as_json) as show_tapes,
            progress_bar("extracting", 100, quiet=as_json) as show,
            reading(output),
        ):
            extraction = extract(
                paths,
                output,
                request=request,
                world=factory_of(sim),
                file_format=file_format,
                fps=fps,
                looking=show_tapes,
                progress=lambda done, total: show(100 * done / max(total, 1)),
                command=_repeatable(command_words()),
                **engine_arguments(engine, jobs, processor_count(), append=append),
            )
    except ExtractionError as error:
        raise UsageError(str(error)) from None
    _print(extraction, paths, sim, as_json=as_json)
    return extraction.code


def _repeatable(words: Sequence[str]) -> list[str]:
    """Return the command line without the options that do not change the data set: --jobs, --engine and --json.

    Its URLs are those of messages: a data set is given to others, who must not get a signature or a password.
    """
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("--jobs", "-j", "--engine"):
            skip = True
        elif word != "--json" and not word.startswith(("--jobs=", "-j", "--engine=")):
            kept.append(shown_url(word))
    return ["replay", *kept]


def _print(extraction: Extraction, paths: Sequence[Location], sim: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"path": str(extraction.path), "rows": extraction.rows, "code": extraction.code})
        return
    manifest = extraction.manifest
    if extraction.added_nothing:
        print_visible(f"{extraction.path}: nothing new: it holds the runs of all these tapes already")
    for name, table in manifest["tables"].items():
        size = sum(file["bytes"] for file in table["files"])
        files = counted(len(table["files"]), "file")
        print_visible(f"{extraction.path}/{name}: {counted(table['rows'], 'row')} in {files}, {bytes_text(size)}")
        columns = list(table["columns"])
        more = f" and {len(columns) - COLUMNS_SHOWN} more" if len(columns) > COLUMNS_SHOWN else ""
        print_visible(f"  columns: {', '.join(columns[:COLUMNS_SHOWN])}{more}")
        if "fps" in table:
            print_visible(f"  frames per second: {table['fps']:g} ({table['fps_from']})")
    if not manifest["tables"]:
        print_visible(f"{extraction.path}: no rows")
    _print_left_out(extraction, paths)
    for line in [*manifest["notes"], *manifest["problems"]]:
        print_visible(f"  {plain_text(line)}", file=sys.stderr)
    cut = [tape for tape in manifest["tapes"] if tape["status"] == "incomplete"]
    for tape in cut[:LINES_SHOWN]:
        ticks = tick_range(tape["first_tick"], tape["last_tick"])
        print_visible(f"  warning: {plain_text(tape['path'])} is not complete: it has {ticks}", file=sys.stderr)
    if len(cut) > LINES_SHOWN:
        print_visible(f"  and {len(cut) - LINES_SHOWN} more tapes, see manifest.json", file=sys.stderr)
    for missing in manifest["missing"][:LINES_SHOWN]:
        ticks = tick_range(missing["first_tick"], missing["last_tick"])
        print_visible(f"  missing: {missing['tape']}, {ticks}: {plain_text(missing['why'])}", file=sys.stderr)
    if len(manifest["missing"]) > LINES_SHOWN:
        print_visible(f"  and {len(manifest['missing']) - LINES_SHOWN} more, see manifest.json", file=sys.stderr)
    _print_desync_hint(extraction, paths, sim)
    first = next(iter(manifest["tables"]), None)
    if first is not None:
        print_visible(f"next: {_next_step(extraction, first)}")


def _print_left_out(extraction: Extraction, paths: Sequence[Location]) -> None:
    """Name the attributes of a recorded object that have no column because no fields were named, and how to read them."""
    request, tables = extraction.manifest["request"], extraction.manifest["tables"].values()
    if request["tables"] != ["states"] or request["fields"] or not tables:
        return
    from replayer.desync.object_diff import objects_in  # noqa: PLC0415 - most tapes have no objects
    from replayer.tape.tape import Tape  # noqa: PLC0415

    try:
        with reading(paths[0]), Tape(paths[0]) as tape:
            tree = objects_in(tape.snapshot(tape.keyframes[0])) if tape.keyframes else None
    except (RecordingError, OSError):
        return
    if tree is None:
        return
    columns = [column for table in tables for column in table["columns"]]
    names = [(entry.step, f"{tree.prefix}{entry.step}") for entry in tree.entries]
    left = [step for step, name in names if not any(one == name or one.startswith(f"{name}.") for one in columns)]
    if left:
        more = f" and {len(left) - COLUMNS_SHOWN} more" if len(left) > COLUMNS_SHOWN else ""
        print_visible(
            f"  no columns of {plain_text(', '.join(left[:COLUMNS_SHOWN]))}{more}: what is inside lists, dicts and objects "
            "is read by your own functions, --agent-names, --agent-observation and --agent-actions (docs/extract.md)",
            file=sys.stderr,
        )


def _print_desync_hint(extraction: Extraction, paths: Sequence[Location], sim: str | None) -> None:
    """Print what the first tape with a desync tells of its cause, and the command that looks for it."""
    desync = next((missing for missing in extraction.manifest["missing"] if missing["is_desync"]), None)
    path = next((path for path in paths if desync is not None and str(path) == desync["tape"]), None)
    if desync is None or path is None:
        return
    seen = _seen_between_steps(path, desync["first_tick"])
    if seen is not None:
        print_visible(f"  {seen}", file=sys.stderr)
    option = f" --sim {shlex.quote(sim)}" if sim is not None else ""
    print_visible(f"next: replay verify {shlex.quote(shown_path(path))}{option}", file=sys.stderr)


def _seen_between_steps(path: Location, tick: int) -> str | None:
    """What a tape tells of a change by other code before the step to a tick; None if it tells of none, or cannot be read."""
    from replayer.desync.causes.seen_between import between_steps  # noqa: PLC0415 - needed after a desync only
    from replayer.tape.tape import Tape  # noqa: PLC0415

    try:
        with reading(path), Tape(path) as tape:
            cause = between_steps(tape, tick)
    except (RecordingError, OSError):
        return None
    return cause.found if cause is not None and cause.suspicious else None


def _next_step(extraction: Extraction, table: str) -> str:
    """Return a command that reads a table."""
    file_format, entry = extraction.manifest["format"], extraction.manifest["tables"][table]
    if file_format == "zarr":
        opening = (
            f"xarray.open_zarr('{extraction.path / 'data.zarr'}', group='{entry['groups'][0]}', consolidated=False)"
        )
        return f'python -c "import xarray; print({opening})"'
    if file_format == "minari":
        opening = f"minari.load_dataset('{entry['datasets'][0]}').spec"
        folder = shlex.quote(str(extraction.path))
        return f'MINARI_DATASETS_PATH={folder} python -c "import minari; print({opening})"'
    if file_format == "lerobot":
        opening = f"LeRobotDataset('local/{extraction.path.name}', root='{extraction.path}')"
        return f'python -c "from lerobot.datasets.lerobot_dataset import LeRobotDataset; print({opening})"'
    if find_spec("polars") is None:  # pyarrow has written it.
        data = extraction.path / table
        return f"python -c \"import pyarrow.dataset; print(pyarrow.dataset.dataset('{data}', format='{file_format}').head(5))\""
    pattern = f"{extraction.path / table}/**/*.{file_format}"
    return f"python -c \"import polars; print(polars.read_{_READERS[file_format]}('{pattern}'))\""
