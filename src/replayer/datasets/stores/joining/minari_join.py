"""Join two Minari data sets, for each split: the episodes of the second one come after those of the first.

The HDF5 file of the first one is copied, and the groups of the episodes of the second one are copied into it.

Invariant: an episode has the same data, types and attributes as before, but for its number.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py

from recorder.storage.atomic_file import write_file
from replayer.datasets.manifest import JoinedStore, Tables, described_file, split_names
from replayer.datasets.request import ExtractionError
from replayer.datasets.stores.minari_metadata import NOTES, dataset_id

_DATA, _METADATA, _EPISODES = "data", "metadata.json", "main_data.hdf5"
_SAME = {  # Entries that one data set has once.
    "observation_space": "observation space",
    "action_space": "action space",
    "env_spec": "specification of the environment",
    "data_format": "format",
    "jpeg_encoding": "encoding of pixels",
}
_COUNTS = re.compile(r"\b(\d+) episodes of (\d+) runs\b")


def join_minari(ours: JoinedStore, theirs: JoinedStore, target: Path) -> Tables:
    """Build the joined data sets below target, and return their entries for the manifest.

    Raises ExtractionError if their spaces or environments differ, OSError.
    """
    built: Tables = {}
    for table in sorted({*ours.manifest["tables"], *theirs.manifest["tables"]}):
        one, other = ours.table(table), theirs.table(table)
        before, added = _by_split(ours, one["datasets"]), _by_split(theirs, other["datasets"])
        identities = []
        for split in split_names(ours.manifest):
            if split not in before and split not in added:
                continue
            identity = before.get(split, dataset_id(ours.folder.name, split))
            identities.append(identity)
            place = target / identity / _DATA
            first = ours.folder / before[split] if split in before else theirs.folder / added[split]
            shutil.copytree(first / _DATA, place)
            if split not in before:
                metadata = _read_metadata(place)
                _write_metadata(place, {**metadata, "dataset_id": identity})
            elif split in added:
                _append(place, theirs.folder / added[split] / _DATA, ours.folder)
        files = sorted(file for identity in identities for file in (target / identity).rglob("*") if file.is_file())
        built[table] = {
            "rows": one["rows"] + other["rows"],
            "columns": one["columns"] or other["columns"],
            "datasets": identities,
            "files": [described_file(target, file) for file in files],
        }
    return built


def _by_split(store: JoinedStore, identities: list[str]) -> dict[str, str]:
    """The names of the data sets by split: that of the run of the first episode."""
    splits = {tape["run"]: tape["split"] for tape in store.manifest["tapes"]}
    found = {}
    for identity in identities:
        with h5py.File(store.folder / identity / _DATA / _EPISODES, "r") as file:
            found[splits[file["episode_0"].attrs["run"]]] = identity
    return found


def _append(place: Path, other: Path, folder: Path) -> None:
    """Append the episodes of the data set at other to the one at place. Raises ExtractionError if they do not fit."""
    ours, theirs = _read_metadata(place), _read_metadata(other)
    differing = next((text for name, text in _SAME.items() if ours.get(name) != theirs.get(name)), None)
    if differing is not None:
        raise ExtractionError(
            f"{folder} and the tapes to add have a different {differing}, and Minari has one for all episodes: extract "
            "them into separate data sets"
        )
    with h5py.File(place / _EPISODES, "a", track_order=True) as file, h5py.File(other / _EPISODES, "r") as source:
        count = len(file)
        for number in range(len(source)):
            name = f"episode_{count + number}"
            source.copy(f"episode_{number}", file, name)
            file[name].attrs["id"] = count + number
    joined = _joined_metadata(ours, theirs)
    _write_metadata(place, joined)
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    _write_metadata(place, {**joined, "dataset_size": round(size / 1_000_000, 1)})  # As Minari counts, in MB.


def _joined_metadata(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**ours, **{name: ours[name] + theirs[name] for name in ("total_episodes", "total_steps")}}
    for name in NOTES:
        one, other = ours.get(name), theirs.get(name)
        if isinstance(one, list) or isinstance(other, list):  # Sets of people, each with one text of several names.
            joined[name] = [_joined_text(*("".join(people or []) for people in (one, other)))]
        elif one is not None or other is not None:
            joined[name] = _joined_text(one or "", other or "")
    return joined


def _joined_text(one: str, other: str) -> str:
    """Both texts, each once. Of texts that only count, with the sums; a text of the user's takes the place of one that counts."""
    counts = [_COUNTS.search(text) for text in (one, other)]
    if counts[0] and counts[1] and _COUNTS.sub("", one) == _COUNTS.sub("", other):
        sums = [int(counts[0][group]) + int(counts[1][group]) for group in (1, 2)]
        return _COUNTS.sub("{} episodes of {} runs".format(*sums), one)
    texts = [text for text, is_counted in zip((one, other), counts, strict=True) if text and not is_counted]
    if len(texts) == 2 and f", {texts[1]}, " in f", {texts[0]}, ":
        return texts[0]
    return ", ".join(texts or [one or other])


def _read_metadata(place: Path) -> dict[str, Any]:
    metadata: dict[str, Any] = json.loads((place / _METADATA).read_text(encoding="utf-8"))
    return metadata


def _write_metadata(place: Path, metadata: Mapping[str, Any]) -> None:
    write_file(place / _METADATA, json.dumps(metadata), existing="replace")
