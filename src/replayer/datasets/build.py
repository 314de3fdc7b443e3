"""A data set as a folder: begun under another name, finished part by part, renamed when it is whole.

    DIR/manifest.json                              what it holds and where that comes from
    DIR/pairs/part-00000.parquet                   or, with splits, DIR/pairs/split=train/part-00000.parquet
    DIR.unfinished/plan.json, done/part-00000.json what is being done, and what is done already

Invariant: a folder of the name that was asked for holds all files that its manifest lists, whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from recorder.storage.atomic_file import PART_SUFFIX, atomic_file, write_file
from recorder.storage.atomic_folder import publish_folder
from replayer.datasets.manifest import MANIFEST, described_file
from replayer.datasets.plan import DatasetPart, TapeInput
from replayer.datasets.request import RECORDS, ExtractionError
from replayer.datasets.rows.records import BATCH_ROWS, column_forms, read_rows
from replayer.datasets.stores.store_formats import Store
from replayer.datasets.task import Task
from replayer.datasets.worker import FileRecord, PartRecord
from replayer.playback.sampled_states import Missing

UNFINISHED_SUFFIX = ".unfinished"


class Building:
    """A data set that is being made."""

    def __init__(self, target: Path) -> None:
        """Raises ExtractionError if there is something at target."""
        if os.path.lexists(target):
            raise ExtractionError(f"{target} exists already: give another name, or remove it")
        self.target = target
        self.folder = target.with_name(target.name + UNFINISHED_SUFFIX)

    def begin(self, plan: Mapping[str, Any]) -> dict[int, PartRecord]:
        """Begin, or go on; the parts that are done already, by number.

        Raises ExtractionError if something else was begun here, OSError.
        """
        whole = json.loads(json.dumps(plan))
        path = self.folder / "plan.json"
        if path.exists():
            is_other = json.loads(path.read_text(encoding="utf-8")) != whole
            if is_other and not any((self.folder / "done").iterdir()):
                shutil.rmtree(self.folder)  # It failed at its first part, and was asked for otherwise then.
                return self.begin(plan)
            if is_other:
                raise ExtractionError(
                    f"{self.folder} was begun with another request, or its tapes have changed since: "
                    "remove it, or give another name"
                )
            return self._done()
        if (self.folder / MANIFEST).exists():
            shutil.rmtree(self.folder)  # Only its name was missing; what it was made from nobody knows any more.
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ExtractionError(f"{self.folder} holds something else: remove it, or give another name")
        done = self.folder / "done"
        done.mkdir(parents=True)
        try:
            _write_json(path, whole)
        except BaseException:
            done.rmdir()  # Without a plan the next call would take the folder for something else.
            self.folder.rmdir()
            raise
        return {}

    def _done(self) -> dict[int, PartRecord]:
        found = {}
        for path in sorted((self.folder / "done").glob("part-*.json")):
            record = _to_record(json.loads(path.read_text(encoding="utf-8")))
            if all(_is_there(self.folder, file) for file in record.files.values()):
                found[record.number] = record
        return found

    def keep(self, record: PartRecord) -> None:
        """Note that a part is done."""
        _write_json(self.folder / "done" / f"part-{record.number:05d}.json", attrs.asdict(record))

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest and give the folder its name. Raises OSError."""
        _write_json(self.folder / MANIFEST, manifest)
        shutil.rmtree(self.folder / "done")
        for path in [*self.folder.rglob("*.ndjson"), *self.folder.rglob(f"*{PART_SUFFIX}")]:
            path.unlink()  # Rows that are in typed files now; what a killed worker left.
        (self.folder / "plan.json").unlink()
        publish_folder(self.folder, self.target)


def _write_json(path: Path, value: Any) -> None:
    write_file(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n", existing="replace")


def _is_there(folder: Path, file: FileRecord) -> bool:
    path = folder / file.path
    return path.is_file() and path.stat().st_size == file.bytes


def _to_record(plain: dict[str, Any]) -> PartRecord:
    files = {table: FileRecord(**file) for table, file in plain["files"].items()}
    missing = [Missing(**one) for one in plain["missing"]]
    return PartRecord(plain["number"], files, plain["columns"], missing, plain["problems"])


def write_record_tables(task: Task, records: Sequence[PartRecord]) -> dict[str, dict[str, Any]]:
    """Write the tables of records, a file for each part that has rows; what the manifest says of them."""
    from replayer.datasets.stores.arrow_files import write_records  # noqa: PLC0415 - pyarrow is an extra

    found: dict[str, dict[str, Any]] = {}
    for table in RECORDS:
        told = [record.files[table] for record in records if table in record.files]
        if not told:
            continue
        sources = [task.folder / file.path for file in told]
        forms = column_forms(lambda sources=sources: read_rows(sources))  # type: ignore[misc]
        files = []
        for file, source in zip(told, sources, strict=True):
            path = source.with_suffix(f".{task.format}")
            with atomic_file(path, existing="replace") as part:
                write_records(part, task.format, forms, read_rows([source]), BATCH_ROWS)
            files.append({"rows": file.rows} | described_file(task.folder, path))
        found[table] = {
            "rows": sum(file.rows for file in told),
            "columns": {name: {"form": form} for name, form in forms.items()},
            "files": files,
        }
    return found


def assembled(
    store: Store, building: Building, tables: dict[str, dict[str, Any]], task: Task
) -> dict[str, dict[str, Any]]:
    """Build a store out of the Arrow files of the parts, which are gone then; what the manifest says of its tables.

    Raises ExtractionError, OSError.
    """
    built = store.assemble(building.folder, building.target.name, tables, task)
    for table in tables:
        shutil.rmtree(building.folder / table)
    return built


def table_of(
    table: str, records: Sequence[PartRecord], parts: Sequence[DatasetPart], sources: Sequence[TapeInput]
) -> dict[str, Any]:
    """What the manifest says of a table of columns. Raises ExtractionError if parts have other columns."""
    told = [record for record in records if table in record.files]
    columns = told[0].columns[table]
    for record in told:
        if record.columns[table] != columns:
            one, other = (sources[parts[each.number].source].name for each in (told[0], record))
            differing = sorted(
                name
                for name in {*columns, *record.columns[table]}
                if columns.get(name) != record.columns[table].get(name)
            )
            raise ExtractionError(
                f"{one} and {other} give other columns in table {table} ({', '.join(differing[:4])}): "
                "extract them into data sets of their own"
            )
    files = [attrs.asdict(record.files[table]) for record in told]
    return {"rows": sum(file["rows"] for file in files), "columns": columns, "files": files}


def versions() -> dict[str, str]:
    """Of the packages that decide what the files hold."""
    return {"simulation-flight-recorder": metadata.version("simulation-flight-recorder"), "numpy": np.__version__}
