"""The files of a folder at a URL: those of one tape, or all tapes. One listing gives names, sizes and versions.

A server of web pages has no listing that can be relied on: the names that a tape may have are asked for one by one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.file_system import file_system, path_in_store
from recorder.storage.remote.range_reads import WEB_SCHEMES, FileVersion, read_first, version_of
from recorder.storage.remote.store_errors import asked
from recorder.storage.remote.url_settings import settings_of

_LISTED_BY_PREFIX = ("s3", "s3a", "gs", "gcs")


def files_beginning_with(url: TapeUrl) -> dict[str, FileVersion] | None:
    """The files in the folder of a URL whose names begin with its name; None if the store cannot or may not list them.

    Raises FileNotFoundError, PermissionError or another OSError, which name the URL.
    """
    settings = settings_of(url)
    made = file_system(url, settings)
    if url.scheme in WEB_SCHEMES:
        return None
    folder = path_in_store(made, url.parent)

    def ask() -> list[dict[str, Any]]:
        if url.scheme in _LISTED_BY_PREFIX:
            return list(made.find(folder, maxdepth=1, detail=True, prefix=url.name).values())
        return list(made.ls(folder, detail=True))

    try:
        entries = asked(url, settings, ask)
    except FileNotFoundError:
        return {}  # There is no folder; the caller knows the name that it misses.
    except PermissionError:
        return None
    return {name: version for name, version in _files(entries) if name.startswith(url.name)}


def version_at(url: TapeUrl) -> tuple[FileVersion, bytes]:
    """The version of the one file at a URL, and its first bytes if the answer has some.

    Raises as files_beginning_with, IsADirectoryError for a folder.
    """
    settings = settings_of(url)
    made = file_system(url, settings)
    return asked(url, settings, lambda: read_first(made, url, settings.read_ahead_bytes))


def list_folder(url: TapeUrl) -> dict[str, FileVersion]:
    """All files of a folder by name. Raises FileNotFoundError or another OSError, which name the URL."""
    settings = settings_of(url)
    made = file_system(url, settings)
    entries = asked(url, settings, lambda: list(made.ls(path_in_store(made, url), detail=True)))
    return dict(_files(entries))


def files_below(url: TapeUrl) -> set[str]:
    """The names of all files below a folder, relative to it; none if there is no such folder. Raises OSError."""
    settings = settings_of(url)
    made = file_system(url, settings)
    folder = path_in_store(made, url).rstrip("/")
    with contextlib.suppress(FileNotFoundError):
        return {str(name)[len(folder) + 1 :] for name in asked(url, settings, lambda: list(made.find(folder)))}
    return set()


def is_folder(url: TapeUrl) -> bool:
    """Return True if a URL is a folder, False if it is a file or does not exist. Raises OSError."""
    settings = settings_of(url)
    made = file_system(url, settings)
    if url.suffix == ".tape":  # Without a request, and in a web server a file may look like a folder.
        return False
    with contextlib.suppress(FileNotFoundError):
        return bool(asked(url, settings, lambda: made.isdir(path_in_store(made, url))))
    return False


def _files(entries: list[dict[str, Any]]) -> Iterator[tuple[str, FileVersion]]:
    for entry in entries:
        if entry.get("type") != "directory":
            name = str(entry["name"]).partition("?")[0].rstrip("/").rpartition("/")[2]
            yield name, version_of(entry) if entry.get("size") is not None else FileVersion(-1)
