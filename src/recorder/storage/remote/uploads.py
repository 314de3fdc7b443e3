"""Uploads of files to a URL: each is there as a whole or not at all, as stores promise it for one object."""

from __future__ import annotations

from pathlib import Path

from recorder.errors import UnreadableError
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.file_system import file_system, path_in_store
from recorder.storage.remote.range_reads import WEB_SCHEMES
from recorder.storage.remote.store_errors import asked, cut_off
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
