"""Uploads of files and tapes to a URL: each file is there as a whole or not at all, as stores promise it for one object."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from recorder.errors import UnreadableError
from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import (
    JOURNAL_SUFFIX,
    SEGMENT_NUMBER_OF,
    following_segments,
    journal_path,
    segment_path,
)
from recorder.storage.remote.file_system import file_system, path_in_store
from recorder.storage.remote.range_reads import WEB_SCHEMES, FileVersion
from recorder.storage.remote.store_errors import asked, cut_off
from recorder.storage.remote.url_folder import files_beginning_with, version_at
from recorder.storage.remote.url_settings import settings_of


def ensure_writable(url: TapeUrl) -> None:
    """Raise UnreadableError for a URL that can only be read, or whose package is missing."""
    if url.scheme in WEB_SCHEMES:
        raise UnreadableError(url.shown, f"{url.scheme}:// can only be read: give the URL of a store, such as s3://")
    file_system(url, settings_of(url))


def upload_file(source: Path, url: TapeUrl) -> None:
    """Upload a file in place of what is there; a failure that may pass is repeated.

    Raises FileNotFoundError, PermissionError or another OSError, which name the URL.
    """
    settings = settings_of(url)
    made = file_system(url, settings)
    path = path_in_store(made, url)
    size_bytes = source.stat().st_size

    def put() -> None:
        made.put_file(str(source), path)
        stored_bytes = int(made.info(path)["size"])
        if stored_bytes != size_bytes:
            raise cut_off(url, stored_bytes, size_bytes)

    asked(url, settings, put)


def remove_file(url: TapeUrl) -> None:
    """Remove a file; one that does not exist is no error. Raises PermissionError or another OSError, which name the URL."""
    settings = settings_of(url)
    made = file_system(url, settings)
    with contextlib.suppress(FileNotFoundError):
        asked(url, settings, lambda: made.rm_file(path_in_store(made, url)))


def ensure_url_is_free(url: TapeUrl) -> None:
    """Raise FileExistsError if a tape, or a file of one, has the name of a URL; and as ensure_writable does.

    Where the store lists nothing, the first files of a tape are asked for; PermissionError if it does not answer that.
    """
    ensure_writable(url)
    listed = files_beginning_with(url)
    names = {url.name, f"{url.name}{JOURNAL_SUFFIX}"}
    if listed is None:
        asked_for = (url.with_name(name) for name in (*sorted(names), f"{url.name}.1"))
        listed = {one.name: version for one in asked_for if (version := stored_version(one)) is not None}
    for name in sorted(listed):
        if name in names or SEGMENT_NUMBER_OF.fullmatch(name[len(url.name) :]) is not None:
            raise FileExistsError(errno.EEXIST, "exists already: choose a different name", url.with_name(name).shown)


def stored_version(url: TapeUrl) -> FileVersion | None:
    """The version of the file at a URL that was not listed; None if there is none.

    Raises PermissionError if the store does not tell, and OSError as version_at does.
    """
    try:
        return version_at(url)[0]
    except FileNotFoundError:
        return None
    except PermissionError:
        why = "the store does not tell whether a file is there: permit that it is listed or read"
        raise PermissionError(errno.EACCES, why, url.shown) from None


def upload_tape(tape: Path, url: TapeUrl) -> None:
    """Upload all files of a tape to a URL that is free, the first one last: a tape exists only with it.

    Raises FileExistsError, and as upload_file does.
    """
    ensure_url_is_free(url)
    if journal_path(tape).exists():
        upload_file(journal_path(tape), url.with_name(url.name + JOURNAL_SUFFIX))
    for number in reversed(following_segments(tape)):
        upload_file(segment_path(tape, number), url.with_name(f"{url.name}.{number}"))
    upload_file(tape, url)
