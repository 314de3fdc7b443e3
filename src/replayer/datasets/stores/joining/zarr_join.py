"""Join two Zarr stores of the same columns: the rows of the second one come after those of the first.

Complete shards of the first store are the same files in the joined one, where chunks have the same size, as they have from
the first complete shard on. The other rows are written again.

Invariant: the files are those of a store that was built of all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from recorder.storage.atomic_file import make_folder
from recorder.storage.atomic_folder import link_or_copy
from replayer.datasets.dataset import to_shape
from replayer.datasets.manifest import JoinedStore, Tables, described_file, split_names
from replayer.datasets.rows.columns import Array, Shape
from replayer.datasets.stores.zarr import LENGTHS, PRESENT, STORE, create_array, fill_array, write_array

_READ_BYTES = 4 << 20  # Of the rows that are written again, read at once.


def join_zarr(ours: JoinedStore, theirs: JoinedStore, target: Path) -> Tables:
    """Build the joined store below target, and return its entries for the manifest. Raises OSError."""
    stores = (ours, theirs)
    attributes = dict(zarr.open_group(ours.folder / STORE, mode="r").attrs)
    zarr.create_group(target / STORE, attributes=attributes)
    built: Tables = {}
    for table in sorted({*ours.manifest["tables"], *theirs.manifest["tables"]}):
        entries = [store.table(table) for store in stores]
        columns = next(entry["columns"] for entry in entries if entry["columns"])
        shapes = {name: shape for name, plain in columns.items() if (shape := to_shape(plain)) is not None}
        joining = _Joining(target, {file["path"]: file for file in entries[0]["files"]})
        groups = []
        for split in split_names(ours.manifest):
            name = f"{table}/{split}" if split else table
            places = [
                store.folder / STORE / name
                for store, entry in zip(stores, entries, strict=True)
                if name in entry["groups"]
            ]
            if places:
                groups.append(name)
                joining.join_group(name, shapes, places, has_ours=name in entries[0]["groups"])
        rows = sum(entry["rows"] for entry in entries)
        files = joining.files(table, with_root=not built)
        built[table] = {"rows": rows, "columns": columns, "groups": groups, "files": files}
    return built


class _Joining:
    """Joins the groups of one table.

    Attributes:
        known: the entries of the files of the first store by path, for those that stay as they are.
    """

    def __init__(self, target: Path, known: Mapping[str, Mapping[str, Any]]) -> None:
        self._target, self.known = target, known
        self._linked: set[str] = set()

    def files(self, table: str, *, with_root: bool) -> list[dict[str, Any]]:
        """The entries of all files of a table for the manifest."""
        path = self._target / STORE
        files = sorted(file for file in (path / table).rglob("*") if file.is_file())
        found = []
        for file in [path / "zarr.json", *files] if with_root else files:
            name = file.relative_to(self._target).as_posix()
            found.append(dict(self.known[name]) if name in self._linked else described_file(self._target, file))
        return found

    def join_group(self, name: str, shapes: Mapping[str, Shape], places: Sequence[Path], *, has_ours: bool) -> None:
        """Join the groups at places; has_ours: the first one is of the first store."""
        group = zarr.create_group(self._target / STORE, path=name)
        sources = [zarr.open_group(place, mode="r") for place in places]
        kept = places[0] if has_ours else None
        for column, shape in shapes.items():
            lengths = f"{column}{LENGTHS}" if shape.is_list else column
            rows = [_array(source, lengths).shape[0] for source in sources]
            about = {}
            mask = f"{column}{PRESENT}"
            if any(mask in source for source in sources):
                about = {"ancillary_variables": mask}
                masks = [
                    np.asarray(_array(source, mask)[:]) if mask in source else np.ones(count, np.bool_)
                    for source, count in zip(sources, rows, strict=True)
                ]
                write_array(group, mask, Shape("|b1"), sum(rows), "row", {}, masks)
            if shape.is_list:
                item = f"{column}_item"
                about |= {"sample_dimension": item}
                self._join_arrays(group, lengths, Shape("<i8"), sources, "row", about, kept)
                self._join_arrays(group, column, shape, sources, item, {}, kept)
            else:
                self._join_arrays(group, column, shape, sources, "row", about, kept)

    def _join_arrays(
        self,
        group: zarr.Group,
        name: str,
        shape: Shape,
        sources: Sequence[zarr.Group],
        dimension: str,
        attributes: dict[str, Any],
        kept: Path | None,
    ) -> None:
        arrays = [_array(source, name) for source in sources]
        rows = sum(array.shape[0] for array in arrays)
        array, shard = create_array(group, name, shape, rows, dimension, attributes)
        start = 0
        if kept is not None and (arrays[0].chunks, arrays[0].shards) == (array.chunks, array.shards):
            start = arrays[0].shape[0] // shard * shard
            self._link(kept / name / "c", self._target / STORE / group.path / name / "c", start // shard)
        fill_array(array, shard, start, _pieces(arrays, start))

    def _link(self, source: Path, target: Path, shards: int) -> None:
        """Take over complete shards. One whose values are all zero has no file."""
        for number in range(shards):
            place = source / str(number)
            files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
            for file in files:
                new = target / file.relative_to(source)
                make_folder(new.parent)
                link_or_copy(file, new)
                self._linked.add(new.relative_to(self._target).as_posix())


def _array(group: zarr.Group, name: str) -> zarr.Array[Any]:
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array


def _pieces(arrays: Sequence[zarr.Array[Any]], start: int) -> Iterator[Array]:
    """Read the rows of all arrays, those of the first one from start on."""
    for array in arrays:
        size = max(1, _READ_BYTES * array.shape[0] // max(1, array.nbytes))
        for first in range(start, array.shape[0], size):
            yield np.asarray(array[first : first + size])
        start = 0
