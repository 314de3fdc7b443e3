"""Grow and shrink a data set: join another one to it, or remove runs, by rewriting its manifest.

Invariant: the manifest lists complete files at any time. New files are in place before it is replaced; files that it lists
no more are removed after that. A kill in between leaves files that no manifest lists: the same call, made again, replaces
or removes them. Stores, whose files hold rows of many tapes, are rebuilt, see grow_store.py.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.dataset

from recorder.storage.atomic_file import atomic_file, make_folder, write_file
from replayer.datasets.build import FILE_FORMATS, Manifest, ensure_same_request
from replayer.datasets.dataset import Dataset
from replayer.datasets.grow_store import merge_stores
from replayer.datasets.manifest import ADDED, MANIFEST, described_file
from replayer.datasets.plan_transitions import LABELS_SHOWN, labels_of
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.records import BATCH_ROWS, Row, joined_forms, parsed
from replayer.datasets.stores.arrow_files import write_records
from replayer.datasets.stores.card.dataset_card import write_card
from replayer.datasets.transitions.transition_rows import ENVIRONMENT, TRANSITIONS

NAMES_SHOWN = 4  # Of columns, and of tapes, in a message.
_PART = re.compile(r"part-(\d+)")


def merge_datasets(folder: str | os.PathLike[str], other: str | os.PathLike[str]) -> Dataset:
    """Add all rows of the data set in the folder other, of the same request, to the one in folder; return it.

    The files of other are copied. Raises DatasetError if they differ from its manifest, ExtractionError if the two do not
    fit together, OSError; the data set is then unchanged.
    """
    data, added = Dataset(folder), Dataset(other)
    _of_this_machine(data)
    added.verify()
    merge(_of_this_machine(data), data.manifest, _of_this_machine(added), added.manifest)
    return Dataset(folder)


def remove_runs(folder: str | os.PathLike[str], *runs: str) -> Dataset:
    """Remove all rows of these runs, by run id, from the data set in folder; return it.

    Raises ExtractionError for an unknown run, and if no other is left, OSError; the data set is then unchanged.
    """
    data = Dataset(folder)
    _remove(_of_this_machine(data), data.manifest, runs)
    return Dataset(folder)


def _of_this_machine(data: Dataset) -> Path:
    """The folder of a data set. Raises ExtractionError for one at a URL."""
    if not isinstance(data.path, Path):
        raise ExtractionError(f"{data.path} is not on this machine: copy it here, change it, and upload it")
    return data.path


def merge(folder: Path, manifest: Manifest, other: Path, added: Manifest) -> Manifest:
    """Add the rows of the data set in the folder other; return the manifest written.

    Raises ExtractionError if the data sets do not fit together, OSError; the data set is then unchanged.
    """
    ensure_same_request(folder, manifest, added)
    runs = {tape["run"] for tape in manifest["tapes"]}
    twin = next((tape for tape in added["tapes"] if tape["run"] in runs), None)
    if twin is not None:
        raise ExtractionError(f"both data sets hold the run {twin['run']} ({twin['name']}): remove it from one of them")
    _ensure_same_columns(folder, manifest, other, added)
    joined = _joined(manifest, added)
    if manifest["format"] not in FILE_FORMATS:
        return merge_stores(folder, manifest, other, added, joined)
    tables = _copied(folder, manifest, other, added)
    return _replace(folder, manifest, {**manifest, **joined, "tables": tables})


def _joined(manifest: Manifest, added: Manifest) -> dict[str, Any]:
    """The entries of the joined manifest that are not those of files."""
    joined = {key: [*manifest[key], *added[key]] for key in ("tapes", "notes", "missing", "problems")}
    if "environments" in manifest:
        joined["environments"] = [*manifest["environments"], *added["environments"]]
    history = {"command": added["command"], "versions": added["versions"], "runs": [t["run"] for t in added["tapes"]]}
    return joined | {"appended": [*manifest.get("appended", ()), history, *added.get("appended", ())]}


def _copied(folder: Path, manifest: Manifest, other: Path, added: Manifest) -> dict[str, Any]:
    """Copy the files of other beside those of folder; return the entries of the tables of both."""
    number = 1 + max((int(_PART.findall(path)[-1]) for path in _paths(manifest)), default=-1)
    numbers = itertools.count(number)
    tables: dict[str, Any] = {}
    for name in sorted({**manifest["tables"], **added["tables"]}):
        ours, theirs = (made["tables"].get(name, {"rows": 0, "files": []}) for made in (manifest, added))
        columns = ours.get("columns", theirs.get("columns"))
        if is_of_records(ours) and is_of_records(theirs) and ours["files"] and theirs["files"]:
            columns = _joined_columns(ours["columns"], theirs["columns"])
        files = []
        for source, entry in ((folder, ours), (other, theirs)):
            for file in entry["files"]:
                if source == folder and entry["columns"] == columns:
                    files.append(file)
                    continue
                place = PurePosixPath(file["path"])
                path = folder / place.with_name(_PART.sub(f"part-{next(numbers):05d}", place.name))
                make_folder(path.parent)
                if entry["columns"] == columns:
                    with atomic_file(path, existing="replace") as part:
                        shutil.copyfile(source / file["path"], part)
                else:
                    _rewrite(source / file["path"], manifest["format"], entry["columns"], path, columns)
                files.append({**file, **described_file(folder, path)})
        tables[name] = {"rows": ours["rows"] + theirs["rows"], "columns": columns, "files": files}
    return tables


def _remove(folder: Path, manifest: Manifest, runs: Sequence[str]) -> Manifest:
    known = [tape["run"] for tape in manifest["tapes"]]
    unknown = next((run for run in runs if run not in known), None)
    if unknown is not None:
        raise ExtractionError(f"{folder} has no run {unknown}; runs: {', '.join(known)}")
    if set(known) <= set(runs):
        raise ExtractionError(f"{folder} has no other runs: remove the folder")
    files = [file for table in manifest["tables"].values() for file in table["files"]]
    if manifest["format"] not in FILE_FORMATS or not all(file.get("run") for file in files):
        raise ExtractionError(f"{folder} does not state which files belong to a run: extract the other tapes again")
    tables = {}
    for name, table in manifest["tables"].items():
        kept = [file for file in table["files"] if file["run"] not in runs]
        if kept:
            tables[name] = {**table, "rows": sum(file["rows"] for file in kept), "files": kept}
    gone = {tape["name"] for tape in manifest["tapes"] if tape["run"] in runs}
    changed = {
        "tables": tables,
        "tapes": [tape for tape in manifest["tapes"] if tape["run"] not in runs],
        "missing": [entry for entry in manifest["missing"] if entry["tape"] not in gone],
        "removed": [*manifest.get("removed", ()), *runs],
    }
    if "environments" in manifest:
        changed["environments"] = [one for one in manifest["environments"] if one["tape"] not in gone]
    return _replace(folder, manifest, {**manifest, **changed})


def _paths(manifest: Manifest) -> list[str]:
    return [file["path"] for table in manifest["tables"].values() for file in table["files"]]


def _replace(folder: Path, before: Manifest, after: Manifest) -> Manifest:
    write_card(folder, after)  # First: after a kill, the same call writes both again.
    write_file(folder / MANIFEST, json.dumps(after, indent=1, ensure_ascii=False) + "\n", existing="replace")
    for path in sorted({*_paths(before)} - {*_paths(after)}):
        (folder / path).unlink(missing_ok=True)
    return after


def _ensure_same_columns(folder: Path, manifest: Manifest, other: Path, added: Manifest) -> None:
    for name in manifest["tables"].keys() & added["tables"].keys():
        if is_of_records(manifest["tables"][name]) and is_of_records(added["tables"][name]):
            continue
        one, two = manifest["tables"][name]["columns"], added["tables"][name]["columns"]
        differing = sorted(column for column in {**one, **two} if one.get(column) != two.get(column))
        if differing and (name, differing) != (TRANSITIONS, [ENVIRONMENT]):
            raise ExtractionError(
                f"{folder} and {_added_text(other, added)} have different columns in table {name} "
                f"({_listed(differing)}): extract them into separate data sets"
            )
    tables = [made["tables"][TRANSITIONS]["columns"] for made in (manifest, added) if TRANSITIONS in made["tables"]]
    labels = sorted(labels_of(manifest) | labels_of(added))
    has_column = [ENVIRONMENT in columns for columns in tables]
    if not all(has_column) and (any(has_column) or len(labels) > 1):
        raise ExtractionError(
            f"{folder} would have rows of different environments ({', '.join(labels[:LABELS_SHOWN])}), and no column that "
            "tells which: extract all tapes again, together"
        )


def _added_text(other: Path, added: Manifest) -> str:
    """The data set that is added, or the tapes that are: of these, the folder is one of ours inside the data set."""
    return _listed([tape["name"] for tape in added["tapes"]]) if other.name == ADDED else str(other)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")


def is_of_records(entry: Mapping[str, Any]) -> bool:
    """Return True for a table of records, whose columns have a form, and for one without columns."""
    return all("form" in about for about in entry.get("columns", {}).values())


def _joined_columns(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    forms = joined_forms(*({name: column["form"] for name, column in columns.items()} for columns in (ours, theirs)))
    return {name: {"form": form} for name, form in forms.items()}


def _rewrite(
    source: Path, file_format: str, before: Mapping[str, Any], target: Path, columns: Mapping[str, Any]
) -> None:
    """Write the rows of a file of records with other columns."""
    forms = {column: about["form"] for column, about in columns.items()}
    json_columns = [column for column, about in before.items() if about["form"] == "json"]
    batches = pyarrow.dataset.dataset(source, format=file_format).to_batches()
    rows = (_without_nulls(row, json_columns) for batch in batches for row in batch.to_pylist())
    with atomic_file(target, existing="replace") as part:
        write_records(part, file_format, forms, rows, BATCH_ROWS)


def _without_nulls(row: Row, json_columns: Sequence[str]) -> Row:
    known = {name: value for name, value in row.items() if value is not None}
    return known | {name: parsed(known[name]) for name in json_columns if name in known}
