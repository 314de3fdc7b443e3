"""Format numbers, sizes and paths for people."""

from __future__ import annotations

import os
from pathlib import Path

from recorder.location.tape_url import TapeUrl, is_url, shown_url


def counted(number: int, noun: str) -> str:
    """A number with its noun in singular or plural: 1 tick, 2,000 ticks."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def bytes_text(size_bytes: float) -> str:
    """A size for people, in decimal units: 1.5 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size_bytes < 1000 or unit == "GB":
            return f"{size_bytes:.0f} {unit}" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    raise AssertionError("the loop returns for GB")


def shown_path(filename: str | bytes | int | os.PathLike[str]) -> str:
    """A path as a user would type it: relative if it is inside the current folder. A URL is given as it is shown."""
    text = str(filename) if isinstance(filename, int | TapeUrl) else os.fsdecode(filename)
    if is_url(text):
        return shown_url(text)
    path, folder = Path(text), Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) and path != folder else str(path)


def whole_path(path: Path) -> str:
    """The absolute path of a folder, without steps back to the one above."""
    return str(path.resolve() if ".." in path.parts else path.absolute())
