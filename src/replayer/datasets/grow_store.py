"""Grow a data set whose files hold rows of many tapes: build the larger one beside it, and exchange the two folders.

Nothing is simulated: the rows come from the files of both data sets.

Invariant: the folder holds the old data set or the new one, complete, at any time. The one beside it, NAME.grown, has the
folder ADDED in it from its first to its last moment, so that the next call knows whose it is and removes it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recorder.storage.atomic_file import write_file
from recorder.storage.atomic_folder import exchange_folders, link_or_copy
from replayer.datasets.build import Manifest
from replayer.datasets.dataset import Dataset
from replayer.datasets.manifest import ADDED, MANIFEST, JoinedStore
from replayer.datasets.request import ExtractionError
from replayer.datasets.stores.store_formats import find_join

GROWN_SUFFIX = ".grown"


def merge_stores(folder: Path, manifest: Manifest, other: Path, added: Manifest, joined: Mapping[str, Any]) -> Manifest:
    """Add the rows of the store in the folder other; return the manifest written.

    joined: the entries of the new manifest that are not those of files. Raises ExtractionError if the stores do not fit
    together, DatasetError if the old files differ from the manifest, OSError; the data set is then unchanged.
    """
    folder = folder.resolve()  # Of a link, the folder itself is exchanged.
    Dataset(folder).verify()
    join = find_join(manifest["format"])
    remove_replaced(folder)
    grown = _grown(folder)
    if os.path.lexists(grown):
        raise ExtractionError(f"{grown} is needed for a moment and exists: remove or rename it")
    (grown / ADDED).mkdir(parents=True)
    try:
        tables = join(JoinedStore(folder, manifest), JoinedStore(other, added), grown)
        after = {**manifest, **joined, "tables": dict(sorted(tables.items()))}
        _keep_own_files(folder, manifest, grown)
        write_file(grown / MANIFEST, json.dumps(after, indent=1, ensure_ascii=False) + "\n", existing="replace")
        (folder / ADDED).mkdir(exist_ok=True)
        exchange_folders(grown, folder)
    except Exception:
        _remove(grown)
        raise
    _remove(grown)
    return after


def remove_replaced(folder: Path) -> None:
    """Remove the folder beside a data set that a killed call left. Raises OSError."""
    grown = _grown(folder.resolve())
    if (grown / ADDED).is_dir() and not grown.is_symlink():
        _remove(grown)


def _grown(folder: Path) -> Path:
    return folder.with_name(folder.name + GROWN_SUFFIX)


def _remove(grown: Path) -> None:
    for path in grown.iterdir():
        if path.name != ADDED:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.rmtree(grown)


def _keep_own_files(folder: Path, manifest: Manifest, grown: Path) -> None:
    """Take over files that the manifest does not list: the user put them there."""
    listed = {file["path"] for table in manifest["tables"].values() for file in table["files"]} | {MANIFEST}
    for place, _, names in os.walk(folder):
        within = Path(place).relative_to(folder)
        for name in names if within.parts[:1] != (ADDED,) else ():
            target = grown / within / name
            if (within / name).as_posix() not in listed and not os.path.lexists(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(Path(place, name), target)
