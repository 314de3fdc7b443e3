"""Append tapes to a data set: extract the new ones into a folder inside it, then join the two."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from recorder.errors import RecordingError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from replayer.datasets.build import FILE_FORMATS, Manifest, ensure_growing
from replayer.datasets.dataset import Dataset
from replayer.datasets.grow import is_of_records, merge
from replayer.datasets.grow_store import remove_replaced
from replayer.datasets.manifest import ADDED, MANIFEST
from replayer.datasets.remote.url_growth import grow_at_url
from replayer.datasets.request import ExtractionError
from replayer.tape.digest import tape_digest
from replayer.tape.tape import Tape


def append_tapes(
    folder: Path, tapes: Sequence[Location], extract_into: Callable[[list[Location], Path, Manifest], Any]
) -> Any:
    """Extract the tapes that the data set does not hold yet, and add their rows; return the extraction, or None.

    extract_into: extracts tapes into a folder, for the data set with a manifest. Without new tapes it is not called. Raises
    as it does, ExtractionError if the rows do not fit; the data set is then unchanged.
    """
    added = folder / ADDED
    remove_replaced(folder)
    if (added / MANIFEST).exists():  # A call was killed before the rows were in the manifest, or just after that.
        _take(folder, added)
    elif added.exists():
        shutil.rmtree(added)  # Its rows are in the manifest; a call was killed while it was being removed.
    manifest = Dataset(folder).manifest
    paths = new_tapes(tapes, folder, manifest)
    if not paths:
        return None
    ensure_growing(folder, manifest)  # Before anything is simulated.
    extraction = extract_into(paths, added, manifest)
    _take(folder, added)
    return extraction


def append_tapes_at_url(
    url: TapeUrl, tapes: Sequence[Location], extract_into: Callable[..., Any]
) -> tuple[Manifest, Any]:
    """Add the rows of tapes to a data set at a URL, as append_tapes does; return its manifest with the extraction, or None.

    Raises as append_tapes and grow_at_url do.
    """
    return grow_at_url(url, _files_to_append, lambda folder: append_tapes(folder, tapes, extract_into))


def _files_to_append(folder: Path, manifest: Manifest) -> list[str]:
    """The files that appending reads: the first one of each table, for its schema, and all of records, whose columns may grow.

    Raises ExtractionError for data sets whose files change as rows are added.
    """
    ensure_growing(folder, manifest)
    if manifest["format"] not in FILE_FORMATS:
        raise ExtractionError(
            f"{folder} is a data set of format {manifest['format']}, whose files change as rows are added, and readers of a URL "
            "would see a part of that: copy it here, append, and upload it under a new name"
        )
    tables = manifest["tables"].values()
    return [file["path"] for table in tables for file in table["files"][: None if is_of_records(table) else 1]]


def _take(folder: Path, added: Path) -> None:
    """Add the rows of a data set that then is removed. Raises ExtractionError if they do not fit; it is removed then, too."""
    manifest, waiting = Dataset(folder).manifest, Dataset(added).manifest
    try:
        if {tape["run"] for tape in waiting["tapes"]}.isdisjoint(tape["run"] for tape in manifest["tapes"]):
            merge(folder, manifest, added, waiting)
    except ExtractionError:
        shutil.rmtree(added)
        raise
    (added / MANIFEST).unlink(missing_ok=True)  # A rebuilt folder has none.
    shutil.rmtree(added)


def new_tapes(paths: Sequence[Location], folder: Path, manifest: Manifest) -> list[Location]:
    """Return the tapes whose runs the data set does not hold. Only the index of the others is read.

    Raises ExtractionError for a known run that has other ticks now.
    """
    known = {tape["run"]: tape for tape in manifest["tapes"]}
    chosen = []
    for path in paths:
        try:
            with Tape(path) as tape:
                run, last_tick = tape.run_id or tape_digest(path)[:32], tape.last_tick
        except RecordingError:
            chosen.append(path)  # The extraction reports it.
            continue
        if run not in known:
            chosen.append(path)
        elif last_tick != known[run]["last_tick"]:
            raise ExtractionError(
                f"{path} has ticks to {last_tick:,}, and {folder} has its run to {known[run]['last_tick']:,}: remove the "
                f'run first, by replayer.datasets.remove_runs("{folder}", "{run}")'
            )
    return chosen
