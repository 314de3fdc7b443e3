"""The manifest of a data set: its name, its version, and its entries for tables and files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
PARTS_FORMAT = "arrow"  # Of the parts of a store: it can be mapped into memory as it is.

Tables = dict[str, dict[str, Any]]  # The entries of the manifest, by table.


def described_file(folder: Path, path: Path) -> dict[str, Any]:
    """Return the entry of a file below folder for the manifest."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": digest}
