"""The manifest of a data set: its name, its version, and its entries for tables and files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
ADDED = ".added"  # A folder inside that of a data set, of rows that are being added.
PARTS_FORMAT = "arrow"  # Of the parts of a store: it can be mapped into memory as it is.

Tables = dict[str, dict[str, Any]]  # The entries of the manifest, by table.


@attrs.frozen
class JoinedStore:
    """A complete data set that is joined with another one of the same request and columns.

    Attributes:
        folder: of the data set. manifest: its contents.
    """

    folder: Path
    manifest: Mapping[str, Any]

    def table(self, name: str) -> Mapping[str, Any]:
        """The entry of a table; an empty one if it has no rows."""
        empty: Mapping[str, Any] = {"rows": 0, "columns": {}, "groups": [], "datasets": [], "files": []}
        return self.manifest["tables"].get(name, empty)  # type: ignore[no-any-return]


def split_names(manifest: Mapping[str, Any]) -> list[str]:
    """The names of the splits in their order, one empty name if the runs are not split."""
    return [name for name, _ in manifest["request"]["splits"]] or [""]


def described_file(folder: Path, path: Path) -> dict[str, Any]:
    """Return the entry of a file below folder for the manifest."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": digest}
