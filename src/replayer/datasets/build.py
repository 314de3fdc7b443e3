"""The folder of a data set: begun under a temporary name, built part by part, renamed when it is complete.

    DIR/manifest.json                              the contents and their origin
    DIR/README.md                                  the same for people and for datasets.load_dataset, see stores/card
    DIR/pairs/part-00000.parquet                   or, with splits, DIR/pairs/split=train/part-00000.parquet
    DIR.unfinished/plan.json, done/part-00000.json the plan, and a record of each finished part

Invariant: a folder with the final name holds all files that its manifest lists, complete.
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

from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, SAME, UNREADABLE
from recorder.storage.atomic_file import PART_SUFFIX, atomic_file, is_part_of, write_file
from recorder.storage.atomic_folder import publish_folder
from replayer.datasets.manifest import FORMAT_VERSION, MANIFEST, described_file
from replayer.datasets.parts.inspect_tapes import InspectedTapes
from replayer.datasets.parts.worker import FileRecord, PartRecord
from replayer.datasets.plan import LOST_KEYFRAME, DatasetPart, TapeInput
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.records import BATCH_ROWS, column_forms, read_rows
from replayer.datasets.stores.store_formats import Store
from replayer.datasets.task import Task
from replayer.playback.sampled_states import Missing
from replayer.status import STATUS_CODES, worst_code

UNFINISHED_SUFFIX = ".unfinished"
COLUMNS = "columns"  # The entry of the plan for the columns of transitions, which are found before the first row.
FILE_FORMATS = ("parquet", "arrow")  # Those with a file for each part.
GROWING_FORMATS = (*FILE_FORMATS, "zarr", "minari")

Manifest = Mapping[str, Any]


class Building:
    """A data set that is being built."""

    def __init__(self, target: Path) -> None:
        """Raises ExtractionError if target exists."""
        if os.path.lexists(target):
            raise ExtractionError(
                f"{target} exists already: give a different name, remove it, or add new tapes to it by append (--append)"
            )
        self.target = target
        self.folder = target.with_name(target.name + UNFINISHED_SUFFIX)
        self._is_begun = False

    def begin(self, plan: Mapping[str, Any]) -> dict[int, PartRecord]:
        """Begin the data set, or continue it; return the parts that are done already, by number.

        Raises ExtractionError if a different data set was begun here, OSError.
        """
        done = self._begin(plan)
        self._is_begun = True
        return done

    def _begin(self, plan: Mapping[str, Any]) -> dict[int, PartRecord]:
        as_stored = json.loads(json.dumps(plan))
        path = self.folder / "plan.json"
        if path.exists():
            has_changed = json.loads(path.read_text(encoding="utf-8")) != as_stored
            if has_changed and not any((self.folder / "done").iterdir()):
                shutil.rmtree(self.folder)  # It was stopped in its first part, and the request was different.
                return self._begin(plan)
            if has_changed:
                raise ExtractionError(
                    f"{self.folder} was begun with a different request, or its tapes have changed since: "
                    "remove it, or give a different name"
                )
            return self._done()
        if (self.folder / MANIFEST).exists():
            shutil.rmtree(self.folder)  # Complete but for the rename. Without its plan, its origin cannot be checked.
        if self.folder.exists() and not self._is_only_begun():
            raise ExtractionError(f"{self.folder} holds something else: remove it, or give a different name")
        done = self.folder / "done"
        done.mkdir(parents=True, exist_ok=True)
        try:
            _write_state(path, as_stored)
        except BaseException:
            done.rmdir()  # Without a plan the next call would refuse the folder.
            self.folder.rmdir()
            raise
        return {}

    def _is_only_begun(self) -> bool:
        """Return True for a folder without contents, as a kill or a power cut leaves it before there is a plan."""
        names = {path.name for path in self.folder.rglob("*")} - {"done"}
        return all(is_part_of(name, "plan.json") for name in names)

    def begun_columns(self, plan: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the columns of a data set that was begun here; None if there is none, or it was of a different plan."""
        path = self.folder / "plan.json"
        if not path.exists():
            return None
        begun = json.loads(path.read_text(encoding="utf-8"))
        columns = begun.pop(COLUMNS, None)
        begun.pop("parts", None)
        return columns if begun == json.loads(json.dumps(plan)) else None

    def _done(self) -> dict[int, PartRecord]:
        records = {}
        for path in sorted((self.folder / "done").glob("part-*.json")):
            record = _to_record(json.loads(path.read_text(encoding="utf-8")))
            if all(_is_complete(self.folder, file) for file in record.files.values()):
                records[record.number] = record
        return records

    def keep(self, record: PartRecord) -> None:
        """Store the record of a finished part."""
        _write_state(self.folder / "done" / f"part-{record.number:05d}.json", attrs.asdict(record))

    def abandon(self) -> None:
        """Remove what begin made: the plan can never be carried out, so nothing is left to continue. Raises OSError."""
        if self._is_begun:  # Otherwise the folder is another extraction's, or there is none.
            self._is_begun = False
            shutil.rmtree(self.folder)

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest and give the folder its final name. Raises OSError."""
        if manifest["format"] in (*FILE_FORMATS, "lerobot"):
            from replayer.datasets.stores.card.dataset_card import write_card  # noqa: PLC0415 - pyarrow is an extra

            write_card(self.folder, manifest)
        _write_json(self.folder / MANIFEST, manifest)
        (self.folder / "plan.json").unlink()  # First: with a plan, the next call would look for the parts.
        shutil.rmtree(self.folder / "done")
        for path in [*self.folder.rglob("*.ndjson"), *self.folder.rglob(f"*{PART_SUFFIX}")]:
            path.unlink()  # Rows that are in typed files now, and leftovers of killed workers.
        publish_folder(self.folder, self.target)


def _write_json(path: Path, value: Any) -> None:
    write_file(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n", existing="replace")


def _write_state(path: Path, value: Any) -> None:
    """Write what only this module reads: in one line, which takes a fraction of the time."""
    write_file(path, json.dumps(value, ensure_ascii=False) + "\n", existing="replace")


def _is_complete(folder: Path, file: FileRecord) -> bool:
    path = folder / file.path
    return path.is_file() and path.stat().st_size == file.bytes


def _to_record(plain: dict[str, Any]) -> PartRecord:
    files = {table: FileRecord(**file) for table, file in plain["files"].items()}
    missing = [Missing(**entry) for entry in plain["missing"]]
    return PartRecord(plain["number"], files, plain["columns"], missing, plain["problems"])


def write_record_tables(task: Task, records: Sequence[PartRecord]) -> dict[str, dict[str, Any]]:
    """Write the tables of records, a file for each part that has rows; return their entries for the manifest."""
    from replayer.datasets.stores.arrow_files import write_records  # noqa: PLC0415 - pyarrow is an extra

    entries: dict[str, dict[str, Any]] = {}
    for table in task.record_tables:
        row_files = [record.files[table] for record in records if table in record.files]
        if not row_files:
            continue
        sources = [task.folder / file.path for file in row_files]
        forms = column_forms(lambda sources=sources: read_rows(sources))  # type: ignore[misc]
        files = []
        for file, source in zip(row_files, sources, strict=True):
            path = source.with_suffix(f".{task.format}")
            with atomic_file(path, existing="replace") as part:
                write_records(part, task.format, forms, read_rows([source]), BATCH_ROWS)
            files.append({"rows": file.rows, "run": file.run} | described_file(task.folder, path))
        entries[table] = {
            "rows": sum(file.rows for file in row_files),
            "columns": {name: {"form": form} for name, form in forms.items()},
            "files": files,
        }
    return entries


def assemble_store(
    store: Store, building: Building, tables: dict[str, dict[str, Any]], task: Task
) -> dict[str, dict[str, Any]]:
    """Build a store from the Arrow files of the parts, delete these, and return its entries for the manifest.

    Raises ExtractionError, OSError.
    """
    built = store.assemble(building.folder, building.target.name, tables, task)
    for table in tables:
        shutil.rmtree(building.folder / table)
    return built


def table_entry(
    table: str, records: Sequence[PartRecord], parts: Sequence[DatasetPart], sources: Sequence[TapeInput]
) -> dict[str, Any]:
    """Return a table's entry for the manifest. Raises ExtractionError if its parts have different columns."""
    with_table = [record for record in records if table in record.files]
    columns = with_table[0].columns[table]
    for record in with_table:
        if record.columns[table] != columns:
            one, other = (sources[parts[number].source].name for number in (with_table[0].number, record.number))
            differing = sorted(
                name
                for name in {*columns, *record.columns[table]}
                if columns.get(name) != record.columns[table].get(name)
            )
            raise ExtractionError(
                f"{one} and {other} have different columns in table {table} ({', '.join(differing[:4])}): "
                "extract them into separate data sets"
            )
    files = [attrs.asdict(record.files[table]) for record in with_table]
    return {"rows": sum(file["rows"] for file in files), "columns": columns, "files": files}


def ensure_growing(folder: Path, manifest: Manifest) -> None:
    """Raise ExtractionError unless rows of other runs can be added to a data set."""
    if manifest["format"] not in GROWING_FORMATS:
        raise ExtractionError(
            f"{folder} is a data set of format {manifest['format']}, to which nothing can be added: extract all tapes again"
        )
    if manifest["request"]["mode"] == "balanced":
        raise ExtractionError(
            f"{folder}: the mode balanced depends on all runs, so other runs would change which of its rows stay: extract "
            "all tapes again"
        )


def ensure_same_request(folder: Path, manifest: Manifest, other: Manifest) -> None:
    """Raise ExtractionError unless both were made by the same request, which can be met run by run."""
    ensure_growing(folder, manifest)
    ones, others = ({"format": made["format"], **_plain(made["request"])} for made in (manifest, other))
    differing = [name for name in {**ones, **others} if ones.get(name) != others.get(name)]
    if differing:
        name = differing[0]
        raise ExtractionError(
            f"{folder} was made with a different request ({name}: {ones.get(name)}, now {others.get(name)}): "
            "give the same options, or a different name"
        )


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def versions() -> dict[str, str]:
    """Return the versions of the packages that decide the contents of the files."""
    return {"simulation-flight-recorder": metadata.version("simulation-flight-recorder"), "numpy": np.__version__}


def begun_manifest(sources: Sequence[TapeInput], task: Task, notes: list[str]) -> dict[str, Any]:
    """Make the part of the manifest that is known before the work begins."""
    tapes = []
    for source, agents in zip(sources, task.agents, strict=True):
        plain = attrs.asdict(source) | {"path": source.path.name, "agents": list(agents)}
        plain["outcomes"] = {agent: source.outcome(agent) for agent in agents}
        tapes.append(plain)
    request = task.request.plain() | {"tables": list(task.tables), "actions": list(task.encodings)}
    return {
        "version": FORMAT_VERSION,
        "format": task.format,
        "versions": versions(),
        "request": request,
        "tapes": tapes,
        "notes": notes,
    }


def listed_losses(
    sources: Sequence[TapeInput], parts: Sequence[DatasetPart], records: Sequence[PartRecord]
) -> list[dict[str, Any]]:
    """List the samples that are missing, by tape, for the manifest."""
    losses: dict[tuple[int, Missing], None] = {}
    for number, source in enumerate(sources):
        if source.lost_ticks is not None:
            losses[number, Missing(*source.lost_ticks, LOST_KEYFRAME)] = None
    for part, record in zip(parts, records, strict=True):
        for missing in record.missing:
            losses[part.source, missing] = None
    return [{"tape": sources[source].name, **attrs.asdict(missing)} for source, missing in losses]


def code_of(inspected: InspectedTapes, records: Sequence[PartRecord]) -> int:
    """The exit code of an extraction, see Extraction."""
    codes = inspected.codes + [STATUS_CODES[source.status] for source in inspected.sources]
    for record in records:
        codes += [DIFFERS if missing.is_desync else CORRUPT for missing in record.missing]
        codes += [INCOMPLETE] * bool(record.problems)
    if UNREADABLE in codes and worst_code(codes) == SAME:
        return UNREADABLE
    return worst_code(codes)
