"""The location of a tape: a path of this machine, or a URL of an object store or a server.

``pathlib`` takes a URL for a relative path and removes one of its slashes, so a location that may be a URL is made here.
A URL of the scheme ``file`` is a path of this machine.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from recorder.location.tape_url import TapeUrl, is_url

_EATEN = re.compile(r"(s3|s3a|gs|gcs|az|abfs|memory|https?|file):/(?!/)")  # What pathlib makes of a URL.
_LOCAL_HOSTS = ("", "localhost")

Location = Path | TapeUrl


def tape_location(path: str | os.PathLike[str]) -> Location:
    """The location that a user names by a path or a URL. Raises ValueError for a URL that names none."""
    if isinstance(path, TapeUrl):
        return path
    text = os.fspath(path)
    if not isinstance(text, str):
        return Path(path)  # Raises TypeError, as it does for all bytes.
    if (eaten := _EATEN.match(text)) is not None and not os.path.lexists(eaten[0]):
        if isinstance(path, PurePath):
            raise ValueError(f"{text}: a Path cannot hold a URL, it removes a slash: give the URL as a text")
        start = f"{eaten[1]}:{'///' if eaten[1] == 'file' else '//'}"
        raise ValueError(f"{text}: expected {start} at the beginning of a URL: {start}{text[eaten.end() :]}")
    if isinstance(path, PurePath):
        return Path(path)
    if not is_url(text):
        return Path(text)
    return _file_of(text) if text[:5].lower() == "file:" else TapeUrl(text)


def name_below(folder: Location, location: Location) -> str:
    """The path of a location relative to a folder that it is below, for people."""
    if isinstance(location, Path) and isinstance(folder, Path):
        return str(location.relative_to(folder))
    return str(location).removeprefix(str(folder).rstrip("/") + "/")


def _file_of(text: str) -> Path:
    parts = urlsplit(text)
    if parts.netloc not in _LOCAL_HOSTS or not parts.path:
        raise ValueError(f"{text}: expected file:/// and an absolute path of this machine")
    return Path(unquote(text.partition("://")[2][len(parts.netloc) :]))
