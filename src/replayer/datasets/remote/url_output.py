"""Extract a data set to a URL: it is made in a folder of this machine, as any other, and then uploaded.

The manifest comes last: a folder without one is no data set, so a reader sees all of it or nothing. An extraction that
was stopped continues in its folder on this machine; an upload that was stopped begins again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.uploads import ensure_writable, upload_file
from recorder.storage.remote.url_folder import files_below
from replayer.datasets.manifest import MANIFEST
from replayer.datasets.request import ExtractionError

VARIABLE = "REPLAY_STAGING"  # The folder for data sets before they are uploaded.


def extracted_to(url: TapeUrl, extract_into: Callable[[Path], None]) -> None:
    """Make a data set on this machine, upload it, and remove it here. extract_into: makes it in a new folder.

    Raises ExtractionError if the URL has a data set or something else, OSError, and as extract_into does.
    """
    ensure_writable(url)
    before = files_below(url)
    if MANIFEST in before:
        raise ExtractionError(f"{url} exists already: give a different name, or remove it")
    made = staging_folder(url) / (url.name or "data")
    if os.path.lexists(made):
        shutil.rmtree(made)  # Complete, and its upload was stopped. It may be of another request.
    extract_into(made)
    names = sorted(path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file())
    strange = sorted(before - set(names))
    if strange:
        raise ExtractionError(f"{url} holds something else, {strange[0]}: remove it, or give a different name")
    for name in sorted(names, key=lambda name: name == MANIFEST):
        upload_file(made / name, url / name)
    shutil.rmtree(made.parent)


def staging_folder(url: TapeUrl) -> Path:
    """The folder on this machine in which the data set of a URL is made: the same for each call. Raises ExtractionError."""
    name = f"replay-extract-{hashlib.blake2b(url.text.encode(), digest_size=8).hexdigest()}"
    folder = Path(os.environ.get(VARIABLE) or tempfile.gettempdir()) / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ExtractionError(f"{folder} belongs to another user: set {VARIABLE} to a folder of your own")
    return folder
