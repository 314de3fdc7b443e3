"""Reads of one range of a file in a store, each with a check that it is still the file that was opened.

Object stores and servers name the version of a file with the bytes that they send: a range and its version come in one
answer. Of other file systems the version is asked for after the range.
"""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import attrs

from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.file_system import path_in_store
from recorder.storage.remote.store_errors import changed, cut_off, status_of

# Keys of an entry, in lower case, that differ between two versions of a file, the strongest first.
_VERSION_KEYS = ("etag", "generation", "md5hash", "lastmodified", "last-modified", "mtime", "updated", "created")
OBJECT_SCHEMES, WEB_SCHEMES = ("s3", "s3a"), ("http", "https")
_TIME_KEYS = ("lastmodified", "last-modified", "mtime", "updated", "created")
_WHOLE_BYTES_MAX = 64 << 20  # A server that cannot send ranges sends the whole file: up to this size it is kept.


@attrs.frozen
class FileVersion:
    """A file in a store as it was when it was opened.

    Attributes:
        size_bytes: of the file.
        mark: differs between two versions of the file; empty if the store gives none.
        changed_ns: the time of the last change since 1970, for people; 0 if the store gives none.
    """

    size_bytes: int
    mark: str = ""
    changed_ns: int = attrs.field(default=0, eq=False)


def version_of(entry: Mapping[str, Any]) -> FileVersion:
    """The version in an entry of a listing, or of ``info``. Raises OSError if it has no size."""
    entry = {key.lower(): value for key, value in entry.items()}
    size = entry.get("size")
    if size is None:
        raise OSError(errno.EINVAL, "it does not tell the size of the file")
    mark = next((entry[key] for key in _VERSION_KEYS if entry.get(key)), "")
    text = str(mark.timestamp() if isinstance(mark, datetime) else mark)  # A listing and info may differ in the type.
    return FileVersion(int(size), text.strip('"'), _changed_ns(entry))


def _changed_ns(entry: Mapping[str, Any]) -> int:
    time = next((entry[key] for key in _TIME_KEYS if entry.get(key)), None)
    try:
        if isinstance(time, str):
            time = datetime.fromisoformat(time) if "T" in time else parsedate_to_datetime(time)
        return int((time.timestamp() if isinstance(time, datetime) else float(time or 0)) * 1e9)
    except (TypeError, ValueError):
        return 0  # A form that is not known here.


def read_first(made: Any, url: TapeUrl, size: int) -> tuple[FileVersion, bytes]:
    """Ask for the first bytes of a file, up to size, by its name alone: the answer tells its version, too.

    ``info`` of fsspec would list folders, call every failure a missing file, or ask by HEAD, which a signed URL does not
    permit.
    """
    if url.scheme in OBJECT_SCHEMES:
        version, data = _run(made, _first_of_object(made, url, max(1, size)))
    elif url.scheme in WEB_SCHEMES:
        version, data = _run(made, _first_by_http(made, url, max(1, size)))
    else:
        entry = dict(made.info(path_in_store(made, url)))
        if entry.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), url.shown)
        return version_of(entry), b""
    if len(data) < min(size, version.size_bytes):
        raise cut_off(url, len(data), min(size, version.size_bytes))
    return version, data


def read_range(made: Any, url: TapeUrl, offset: int, end_offset: int, version: FileVersion) -> tuple[int, bytes]:
    """The bytes of a range that is inside the file, with the offset of the first one.

    A server that sends no ranges gives the whole file. Raises ChangedError, CutOffError, and what the file system raises.
    """
    if url.scheme in OBJECT_SCHEMES:
        start, data = _run(made, _read_object(made, url, offset, end_offset, version))
    elif url.scheme in WEB_SCHEMES:
        start, data = _run(made, _read_by_http(made, url, offset, end_offset, version))
    else:
        start, data = offset, bytes(made.cat_file(path_in_store(made, url), start=offset, end=end_offset))
        _ensure_unchanged(url, version, version_of(made.info(path_in_store(made, url))))
    if start + len(data) < end_offset:
        raise cut_off(url, len(data), end_offset - start)
    return start, data


def _run(made: Any, coroutine: Any) -> Any:
    asyn = importlib.import_module("fsspec.asyn")

    async def awaited() -> Any:
        return await coroutine

    return asyn.sync(made.loop, awaited)


async def _read_object(
    made: Any, url: TapeUrl, offset: int, end_offset: int, version: FileVersion
) -> tuple[int, bytes]:
    answer = await _get_object(made, url, offset, end_offset)
    body = answer["Body"]
    try:
        _ensure_unchanged(url, version, _version_of_object(answer))
        return offset, await body.read()
    finally:
        body.close()


async def _first_of_object(made: Any, url: TapeUrl, size: int) -> tuple[FileVersion, bytes]:
    try:
        answer = await _get_object(made, url, 0, size)
    except OSError as error:
        if status_of(error) == 416:  # There is no first byte.
            return FileVersion(0), b""
        raise
    body = answer["Body"]
    try:
        return _version_of_object(answer), await body.read()
    finally:
        body.close()


async def _get_object(made: Any, url: TapeUrl, offset: int, end_offset: int) -> Any:
    bucket, key, _ = made.split_path(path_in_store(made, url))
    asked_range = f"bytes={offset}-{end_offset - 1}"
    return await made._call_s3("get_object", Bucket=bucket, Key=key, Range=asked_range)  # noqa: SLF001 - s3fs has no public call that tells the version, too


def _version_of_object(answer: Mapping[str, Any]) -> FileVersion:
    size = str(answer.get("ContentRange", "")).rpartition("/")[2]
    return version_of({**answer, "size": int(size) if size.isdigit() else answer.get("ContentLength")})


async def _read_by_http(
    made: Any, url: TapeUrl, offset: int, end_offset: int, version: FileVersion
) -> tuple[int, bytes]:
    async with await _get(made, url, offset, end_offset) as answer:
        if answer.status == 416:  # The file is shorter now.
            raise changed(url)
        _ensure_unchanged(url, version, _version_in(answer))
        return (offset if answer.status == 206 else 0), await answer.read()


async def _first_by_http(made: Any, url: TapeUrl, size: int) -> tuple[FileVersion, bytes]:
    async with await _get(made, url, 0, size) as answer:
        if answer.status == 416:
            return FileVersion(0), b""
        return _version_in(answer), await answer.read()


async def _get(made: Any, url: TapeUrl, offset: int, end_offset: int) -> Any:
    session = await made.set_session()
    headers = {"Range": f"bytes={offset}-{end_offset - 1}", "Accept-Encoding": "identity"}
    arguments = made.kwargs | {"headers": {**made.kwargs.get("headers", {}), **headers}}
    answer = await session.get(made.encode_url(url.text), **arguments)
    if answer.status != 416:
        answer.raise_for_status()
    return answer


def _version_in(answer: Any) -> FileVersion:
    """The version in the headers of an answer. Raises OSError for a whole file that is too large to be kept."""
    if answer.status == 206:
        size = answer.headers.get("Content-Range", "").rpartition("/")[2]
        return version_of({**answer.headers, "size": int(size) if size.isdigit() else None})
    if answer.content_length is not None and answer.content_length > _WHOLE_BYTES_MAX:
        raise OSError(errno.EFBIG, "it sends whole files alone, and this one is too large for that")
    return version_of({**answer.headers, "size": answer.content_length})


def _ensure_unchanged(url: TapeUrl, before: FileVersion, now: FileVersion) -> None:
    is_other = bool(before.mark) and bool(now.mark) and before.mark != now.mark
    if is_other or before.size_bytes != now.size_bytes:
        raise changed(url)
