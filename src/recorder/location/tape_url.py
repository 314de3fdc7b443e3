"""A URL of an object store or a server that names a tape or a folder, and how it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import attrs

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WEB_SCHEMES = ("http", "https")


@attrs.frozen(eq=False, repr=False)
class TapeUrl(os.PathLike[str]):
    """The URL of a tape, or of a folder of tapes, and how it is read. Two are equal if their texts are.

    It can be pickled: other processes open the tape themselves.

    Attributes:
        text: the URL, such as ``s3://bucket/runs/run.tape``.
        options: for the file system of fsspec, such as ``{"anon": True}`` or an ``endpoint_url``. They are not shown.
        cache_bytes: what is kept in memory of the bytes that were read; None for REPLAY_URL_CACHE, or 64 MiB.
        read_ahead_bytes: a shorter read is extended to this size; None for REPLAY_URL_READ_AHEAD, or 256 KiB.
    """

    text: str = attrs.field()
    options: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)
    cache_bytes: int | None = attrs.field(default=None, kw_only=True)
    read_ahead_bytes: int | None = attrs.field(default=None, kw_only=True)

    @text.validator
    def _check(self, _: Any, text: str) -> None:
        match = _SCHEME.match(text)
        if match is None:
            raise ValueError(f"{text!r}: expected a URL such as s3://bucket/run.tape")
        if match[1].lower() == "file":
            raise ValueError(f"{shown_url(text)!r}: a file of this machine is named by its path")
        if not text[match.end() :].strip("/"):
            raise ValueError(f"{shown_url(text)!r}: expected the name of a tape or a folder after {match[0]}")
        if match[1].lower() in _WEB_SCHEMES:
            _ensure_server(text)

    @cache_bytes.validator
    @read_ahead_bytes.validator
    def _check_size(self, attribute: attrs.Attribute[int | None], value: int | None) -> None:
        if value is not None and value < 0:
            raise ValueError(f"{attribute.name}: expected at least 0, got {value}")

    @property
    def scheme(self) -> str:
        """The scheme in lower case, such as ``s3``."""
        return self.text.partition("://")[0].lower()

    @property
    def name(self) -> str:
        """The last part of the path, without a query."""
        return self._path.rstrip("/").rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The last suffix of the name, with its dot; empty if it has none."""
        return PurePath(self.name).suffix

    @property
    def parent(self) -> TapeUrl:
        """The folder. That of a bucket, or of a server, is itself."""
        folder = self._path.rstrip("/").rpartition("/")[0]
        return attrs.evolve(self, text=folder + self._query) if _SCHEME.fullmatch(f"{folder}/") is None else self

    def with_name(self, name: str) -> TapeUrl:
        """The URL of another name in the same folder."""
        return attrs.evolve(self, text=f"{self._path.rstrip('/').rpartition('/')[0]}/{name}{self._query}")

    def __truediv__(self, name: str) -> TapeUrl:
        return attrs.evolve(self, text=f"{self._path.rstrip('/')}/{name}{self._query}")

    def absolute(self) -> TapeUrl:
        """The same: a URL does not depend on the current folder."""
        return self

    @property
    def shown(self) -> str:
        """The URL for messages: without a password, and without a query, which may hold a signature."""
        return shown_url(self.text)

    @property
    def _path(self) -> str:
        return self.text[: len(self.text) - len(self._query)]

    @property
    def _query(self) -> str:
        """The query with its question mark, for http alone: in an object store a question mark is part of a name."""
        return _query_of(self.text)

    def __fspath__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"TapeUrl({self.shown!r})"

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, TapeUrl) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


def is_url(text: str) -> bool:
    """Return True if a text begins as a URL does."""
    return _SCHEME.match(text) is not None


def shown_url(text: str) -> str:
    """A text for messages and files: a URL in it, up to its end, is without a password and without a query of the web.

    A text without a URL is returned unchanged, and what is before the URL, such as ``--output=``, stays.
    """
    match = _SCHEME.search(text)
    if match is None:
        return text
    url = text[match.start() :]
    host, slash, path = url[: len(url) - len(_query_of(url))].partition("://")[2].partition("/")
    return f"{text[: match.end()]}{host.rpartition('@')[2]}{slash}{path}"


def _query_of(url: str) -> str:
    if not url.partition("://")[0].lower().endswith(_WEB_SCHEMES):  # An option may be glued to it: -ohttps://host/a.
        return ""
    found = re.search(r"[?#]", url)
    return url[found.start() :] if found is not None else ""


def _ensure_server(text: str) -> None:
    """Raise ValueError if the part of a URL that names a server has not its form."""
    try:
        parts = urlsplit(text)
        is_named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # Its message may hold the password.
        is_named = False
    if not is_named:
        raise ValueError(f"{shown_url(text)!r}: expected the name of a server, and a port that is a number, if any")
