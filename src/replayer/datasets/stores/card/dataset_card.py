"""The card of a data set: a README.md that tells people what was recorded, and ``datasets.load_dataset`` how to read it.

It is made of the manifest and the schemas of the files alone, so it is the same for the same files, and it is written
again whenever the manifest is. A change by hand lasts until then.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from recorder.storage.atomic_file import write_file
from recorder.text import counted
from replayer.datasets.dataset import SCHEMAS
from replayer.datasets.request import SAMPLED_TICKS
from replayer.datasets.stores.card.card_columns import column_rows
from replayer.datasets.stores.card.card_features import features_of
from replayer.datasets.transitions.transition_rows import TRANSITIONS
from replayer.value_text import plain_text, tick_range

CARD = "README.md"
TAPES_SHOWN = 100  # The manifest lists all.
_MAIN = (TRANSITIONS, "pairs", "states")  # load_dataset without a name opens the first of these.
_LEARNED = (TRANSITIONS, "pairs")
_COMPLEX = ("c8", "c16", "c32")
_RESERVED = ("all",)  # Of datasets, for all splits together.

Manifest = Mapping[str, Any]


def write_card(folder: Path, manifest: Manifest) -> None:
    """Write the card of the data set in folder, whose files are there already. Raises OSError."""
    write_file(folder / CARD, card_text(folder, manifest), existing="replace")


def card_text(folder: Path, manifest: Manifest) -> str:
    """Return the card. Reads the schema of the first file of each table, or LeRobot's description of the frames."""
    if manifest["format"] == "lerobot":
        return "\n".join(_lerobot_lines(folder, manifest)) + "\n"
    tables = sorted(manifest["tables"], key=lambda name: (_MAIN.index(name) if name in _MAIN else len(_MAIN), name))
    lines = ["---", *_front_matter(folder, manifest, tables), "---", "", f"# {_title(manifest, tables)}", ""]
    lines += _about(manifest, tables)
    for table in tables:
        lines += _columns(manifest, table)
    lines += _recorded(manifest)
    lines += _made_by(manifest)
    return "\n".join(lines) + "\n"


def _front_matter(folder: Path, manifest: Manifest, tables: Sequence[str]) -> Iterator[str]:
    """Yield lines of YAML, in which each value is written as JSON, which YAML includes."""
    if tables:
        yield "configs:"
    for table in tables:
        yield f"- config_name: {_quoted(table)}"
        if table == tables[0]:
            yield "  default: true"
        yield "  data_files:"
        for split, pattern in _data_files(manifest, table):
            yield f"  - split: {_quoted(split)}"
            yield f"    path: {_quoted(pattern)}"
    if tables:
        yield "dataset_info:"
    for table in tables:
        entry = manifest["tables"][table]
        schema = SCHEMAS[manifest["format"]](folder / entry["files"][0]["path"])
        yield f"- config_name: {_quoted(table)}"
        yield "  features:"
        for feature in features_of(schema, entry["columns"]):
            yield f"  - {_quoted(feature)}"
    if any(table in tables for table in _LEARNED):
        yield "task_categories:"
        yield "- reinforcement-learning"
    yield "tags:"
    yield "- simulation"


def _quoted(value: Any) -> str:
    """A value as JSON in which YAML accepts every character."""
    return _visible(json.dumps(value, ensure_ascii=False))


def _visible(text: str) -> str:
    """Escape the characters that YAML refuses or that end a line of Markdown."""
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)


def _data_files(manifest: Manifest, table: str) -> Iterator[tuple[str, str]]:
    """Yield each split that has files with a pattern of their paths. Without splits, all rows are of the split train."""
    paths = [PurePosixPath(file["path"]) for file in manifest["tables"][table]["files"]]
    names: dict[str, str] = {}
    for split, _ in manifest["request"]["splits"]:
        name = split.replace("-", "_")  # datasets allows no hyphen.
        while name in names.values() or name in _RESERVED:
            name += "_"
        names[split] = name
    for split, name in names.items():
        folder = f"split={split}"
        if any(folder in path.parts for path in paths):
            yield name, f"{table}/{folder}/*.{manifest['format']}"
    if not names:
        yield "train", f"{table}/*.{manifest['format']}"


def _title(manifest: Manifest, tables: Sequence[str]) -> str:
    what = list(dict.fromkeys(_subjects(manifest).values()))
    subject = what[0] if len(what) == 1 else f"{len(what)} simulations"
    return _cell(f"{tables[0].capitalize() if tables else 'Nothing'} of {subject}")


def _subjects(manifest: Manifest) -> dict[str, str]:
    """What each tape recorded, by the names of the tapes."""
    environments = {one["tape"]: _environment_name(one) for one in manifest.get("environments", ())}
    return {tape["name"]: environments.get(tape["name"]) or _simulation_name(tape) for tape in manifest["tapes"]}


def _environment_name(environment: Mapping[str, Any]) -> str:
    """The id of an environment; without a specification, or with one that is no Gymnasium's, the name of its class."""
    try:
        return str(json.loads(environment["env_spec"])["id"])
    except (KeyError, TypeError, ValueError):  # The text is the tape's, which may hold anything.
        return str(environment.get("name", ""))  # Manifests of older versions have none.


def _simulation_name(tape: Mapping[str, Any]) -> str:
    if tape["world"] is not None:
        name = tape["world"]["config"].get("name")
        return f"{tape['world']['name']} {name}" if isinstance(name, str) else str(tape["world"]["name"])
    return f"a {tape['environment']} environment" if tape["environment"] else "a simulation"


def _lerobot_lines(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield the lines of a card as LeRobot writes its own: the frames are one table, which it describes."""
    path = folder / "meta" / "info.json"
    yield from ("---", "task_categories:", "- robotics", "tags:", "- LeRobot", "- simulation")
    if path.exists():
        yield from ("configs:", "- config_name: default", "  data_files: data/*/*.parquet")
    yield from ("---", "", f"# {_title(manifest, sorted(manifest['tables']))}", "")
    yield from _proof(manifest)
    if path.exists():
        info = json.loads(path.read_text(encoding="utf-8"))
        episodes, frames = counted(info["total_episodes"], "episode"), counted(info["total_frames"], "frame")
        yield f"A LeRobotDataset {info['codebase_version']} of {episodes} and {frames}, with {info['fps']} frames per second."
        yield "`meta/info.json` describes it."
        yield from ("", "```python", "from lerobot.datasets.lerobot_dataset import LeRobotDataset", "")
        yield from ('frames = LeRobotDataset("local/frames", root="PATH/OF/THIS/FOLDER")', "```", "", "## Features", "")
        features = info["features"].items()
        rows = ((name, about["dtype"], str(tuple(about["shape"]))) for name, about in features)
        yield from _table(("feature", "dtype", "shape"), rows)
    yield from _recorded(manifest)
    yield from _made_by(manifest)


def _proof(manifest: Manifest) -> Iterator[str]:
    """Yield what made the rows, and what it compared."""
    version = manifest["versions"]["simulation-flight-recorder"]
    is_sampled = manifest["request"].get("proof") == "sampled"
    compared = f"one replayed state in at most {SAMPLED_TICKS}" if is_sampled else "the replayed states"
    yield f"`replay extract` of simulation-flight-recorder {version} made these rows by replaying recordings. It compared"
    yield f"{compared} with the recorded hashes. `manifest.json` lists all files with their SHA-256."
    yield ""


def _about(manifest: Manifest, tables: Sequence[str]) -> Iterator[str]:
    yield from _proof(manifest)
    if not tables:
        yield "The data set has no rows."
        yield ""
        return
    yield from _table(
        ("table", "rows", "files", "splits"),
        (
            (
                name,
                f"{manifest['tables'][name]['rows']:,}",
                str(len(manifest["tables"][name]["files"])),
                ", ".join(split for split, _ in _data_files(manifest, name)),
            )
            for name in tables
        ),
    )
    yield "```python"
    yield "import datasets"
    yield ""
    yield f'{tables[0]} = datasets.load_dataset("PATH/OF/THIS/FOLDER", "{tables[0]}")'
    yield "```"
    yield ""
    yield 'Rows have the exact values, and so has `with_format("arrow")`. `with_format("numpy")` changes the dtypes of lists,'
    yield "such as float64 to float32."
    yield ""


def _columns(manifest: Manifest, table: str) -> Iterator[str]:
    yield f"## Columns of {table}"
    yield ""
    yield from _table(("column", "dtype", "shape", "unit, values"), column_rows(manifest, table))
    columns = [column for column in manifest["tables"][table]["columns"].values() if "dtype" in column]
    if table != TRANSITIONS and any(column["shape"] and not column["is_list"] for column in columns):
        yield "Values with a shape are Arrow's tensors. `datasets` reads them as flat lists, in C order."
        yield ""
    if any(column["dtype"].endswith(_COMPLEX) for column in columns):
        yield "A complex number is two values, its real and its imaginary part."
        yield ""


def _recorded(manifest: Manifest) -> Iterator[str]:
    environments = {one["tape"]: one for one in manifest.get("environments", ())}
    subjects, tapes = _subjects(manifest), manifest["tapes"]
    yield "## Recorded"
    yield ""
    yield from _table(
        ("tape", "run", "of", "ticks", "episodes", "seeds", "split"),
        (
            (
                tape["name"],
                tape["run"],
                subjects[tape["name"]],
                f"{tape['first_tick']:,} to {tape['last_tick']:,}",
                _number(environments.get(tape["name"], {}).get("episodes")),
                _seeds(tape, environments.get(tape["name"], {})),
                tape["split"],
            )
            for tape in tapes[:TAPES_SHOWN]
        ),
    )
    if len(tapes) > TAPES_SHOWN:
        yield f"`manifest.json` lists {counted(len(tapes) - TAPES_SHOWN, 'more tape')}."
        yield ""
    if manifest["missing"]:
        yield "Missing, since the recording is damaged or a replayed state differed:"
        yield ""
        for loss in manifest["missing"][:TAPES_SHOWN]:
            yield f"- {_cell(loss['tape'])}, {tick_range(loss['first_tick'], loss['last_tick'])}: {_cell(loss['why'])}"
        if len(manifest["missing"]) > TAPES_SHOWN:
            yield f"- and {len(manifest['missing']) - TAPES_SHOWN} more, see `manifest.json`"
        yield ""


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _seeds(tape: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    if "seeds" in environment:
        first, count = environment["seeds"]["first"], environment["seeds"]["count"]
        more = f" and {count - len(first):,} more" if count > len(first) else ""
        return f"{', '.join(map(str, first))}{more}" if count else "none"
    seed = tape["world"]["config"].get("seed") if tape["world"] is not None else None
    return "" if seed is None else str(seed)


def _made_by(manifest: Manifest) -> Iterator[str]:
    yield "## Made by"
    yield ""
    commands = [manifest["command"], *(entry["command"] for entry in manifest.get("appended", ()))]
    shown = list(dict.fromkeys(plain_text(shlex.join(command)) for command in commands if command))
    if shown:
        yield "```console"
        for command in shown:
            yield f"$ {command}"
        yield "```"
    else:
        yield "`replayer.extract` in Python, with the request in `manifest.json`."
    if manifest["request"]["splits"]:
        shares = ", ".join(f"{name} {share:g}" for name, share in manifest["request"]["splits"])
        yield ""
        yield f"Each run is in one split ({shares}), which the seed {manifest['request']['seed']} and its id decide."
    if manifest.get("removed"):
        yield ""
        yield f"Removed afterwards: the runs {', '.join(manifest['removed'])}."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""


def _cell(text: str) -> str:
    return _visible(plain_text(text)).replace("|", "\\|")
