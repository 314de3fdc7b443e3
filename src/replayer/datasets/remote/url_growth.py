"""Add rows to a data set at a URL: it grows in a folder of this machine, and the new files are uploaded.

The folder has the manifest and those files that growing reads. New files have new names, which have digests of their contents,
and the manifest follows them: a reader finds the old data set or the new one. Files that the new one lacks are removed after that.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from recorder.location.tape_url import TapeUrl
from recorder.storage.atomic_file import give_name
from recorder.storage.remote.uploads import ensure_writable, remove_file, upload_file
from recorder.storage.remote.url_folder import files_below, version_at
from replayer.datasets.manifest import MANIFEST
from replayer.datasets.remote.stored_file import StoredFile
from replayer.datasets.remote.url_output import staging_folder
from replayer.datasets.request import ExtractionError

FOLDER = "append"  # Below that of the data sets that are extracted to the same URL.
_COPY_BYTES = 16 << 20
DIGEST_LETTERS = 12  # Of the SHA-256 of a file, in its name.
_OLD_DIGEST = re.compile(rf"-[0-9a-f]{{{DIGEST_LETTERS}}}$")  # Of a file that was written again, with other columns.


def has_data_set(url: TapeUrl) -> bool:
    """Return True if a URL has a data set. Raises UnreadableError for one that can only be read, OSError."""
    ensure_writable(url)
    return MANIFEST in files_below(url)


def grow_at_url(
    url: TapeUrl, read_files: Callable[[Path, Mapping[str, Any]], Sequence[str]], grow: Callable[[Path], Any]
) -> tuple[Mapping[str, Any], Any]:
    """Grow the data set at a URL; return its manifest as it is then, and what grow returns.

    read_files: the files that growing reads, from the folder and the manifest; it raises ExtractionError if it cannot grow.
    grow: adds rows to the data set in a folder, by new files and a new manifest. Both name the folder in errors.

    Raises as they do, naming the URL, ExtractionError if the data set was changed meanwhile, OSError; it is then unchanged.
    """
    version, before = version_at(url / MANIFEST)[0], _read_manifest(url)
    made = staging_folder(url) / FOLDER / (url.name or "data")
    manifest = json.loads(before)
    try:
        _fetch(url, made, before, read_files(made, manifest))
        grown = grow(made)
    except ExtractionError as error:
        raise ExtractionError(str(error).replace(str(made), str(url))) from error
    after = json.loads((made / MANIFEST).read_bytes())
    if after != manifest:
        after = _with_own_names(made, _listed(manifest), after)
        old, new = _listed(manifest), _listed(after)
        for name in sorted(new - old):
            upload_file(made / name, url / name)
        if version_at(url / MANIFEST)[0] != version:
            for name in sorted(new - _listed(json.loads(_read_manifest(url)))):
                remove_file(url / name)
            raise ExtractionError(f"{url} was changed while rows were added to it: give the command again")
        made_here = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
        for name in [*sorted(made_here - old - new - {MANIFEST}), MANIFEST]:
            upload_file(made / name, url / name)
        for name in sorted(old - new):
            remove_file(url / name)
    shutil.rmtree(made.parent.parent)
    return after, grown


def _fetch(url: TapeUrl, made: Path, before: bytes, names: Sequence[str]) -> None:
    """Have these files in a folder, with the manifest, unless a call that was stopped has left them there."""
    if (made / MANIFEST).exists() and (made / MANIFEST).read_bytes() == before:
        return
    if made.parent.exists():
        shutil.rmtree(made.parent)  # Of an earlier state, or its rows were added and their upload was stopped.
    made.mkdir(parents=True)
    for name in names:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        with StoredFile(url / name) as stored, (made / name).open("wb") as target:
            while data := stored.read(_COPY_BYTES):
                target.write(data)
    (made / MANIFEST).write_bytes(before)  # Last: what is here without it is a part.


def _read_manifest(url: TapeUrl) -> bytes:
    with StoredFile(url / MANIFEST) as stored:
        return stored.read()


def _with_own_names(made: Path, old: AbstractSet[str], grown: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name the new files by their contents too, in the folder, its manifest and its other texts; return the manifest.

    Another machine that adds rows at the same time gives them the same numbers, and must not overwrite them.
    """
    tables = grown["tables"].values()
    names = {file["path"]: file["sha256"] for table in tables for file in table["files"] if file["path"] not in old}
    texts = [path for path in made.iterdir() if path.is_file()]
    for name, digest in names.items():
        path = made / name
        renamed = path.with_stem(f"{_OLD_DIGEST.sub('', path.stem)}-{digest[:DIGEST_LETTERS]}")
        renamed.unlink(missing_ok=True)  # Of a call that was stopped; it has the same content.
        give_name(path, renamed, "a file of this name exists already: remove it, or rename it")
        for text in texts:
            text.write_bytes(text.read_bytes().replace(name.encode(), renamed.relative_to(made).as_posix().encode()))
    manifest: Mapping[str, Any] = json.loads((made / MANIFEST).read_bytes())
    return manifest


def _listed(manifest: Mapping[str, Any]) -> set[str]:
    return {file["path"] for table in manifest["tables"].values() for file in table["files"]}
