"""What the files of one tape are called: the tape itself, its further segments, its journal, what was set aside.

A tape is known by the name of its first segment: ``run.tape``, then ``run.tape.1``, ``run.tape.2``. While it is written
it has a journal, ``run.tape.journal``. ``run.tape.torn-N`` holds bytes that a crash left half written. What ends in
``.new`` is being made, and takes its place by being renamed.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

JOURNAL_SUFFIX = ".journal"
NEW_SUFFIX = ".new"
_SEGMENT_NUMBER = re.compile(r"\.([1-9]\d{0,7})")
_UNFINISHED = re.compile(r"\.([1-9]\d{0,7}|journal)\.new")


def segment_path(path: str | os.PathLike[str], number: int) -> Path:
    """The file of a segment; number 0 is the tape's own name."""
    return Path(path) if number == 0 else Path(f"{os.fspath(path)}.{number}")


def tape_of_segment(path: str | os.PathLike[str], number: int) -> Path | None:
    """The tape of which path is the file of this number, by its name; None if it has another name."""
    text, suffix = os.fspath(path), f".{number}"
    return Path(text.removesuffix(suffix)) if text.endswith(suffix) and text != suffix else None


def journal_path(path: str | os.PathLike[str]) -> Path:
    """The journal beside a tape."""
    return Path(f"{os.fspath(path)}{JOURNAL_SUFFIX}")


def new_path(path: Path) -> Path:
    """What a file that will be called path is called until it is whole."""
    return path.with_name(path.name + NEW_SUFFIX)


def unfinished_paths(path: str | os.PathLike[str]) -> list[Path]:
    """The files beside a tape that a killed process has not finished."""
    whole = Path(path)
    others = (other for other in whole.parent.iterdir() if other.name.startswith(whole.name))
    return [other for other in others if _UNFINISHED.fullmatch(other.name[len(whole.name) :])]


def numbered(path: Path, suffix: str = "") -> Iterator[Path]:
    """The path, and then, for those who find it taken, the same with -2, -3 … before its suffix."""
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.name.removesuffix(suffix)}-{number}{suffix}")


def first_free(paths: Iterable[Path]) -> Path:
    """The first of these names that nothing has, not even a broken link."""
    return next(path for path in paths if not os.path.lexists(path))


def torn_path(path: str | os.PathLike[str]) -> Path:
    """The first name that is free for a torn tail."""
    number = 1
    while (found := Path(f"{os.fspath(path)}.torn-{number}")).exists():
        number += 1
    return found


def segment_numbers(path: str | os.PathLike[str]) -> list[int]:
    """The numbers of the segments that there are, ascending. Raises FileNotFoundError if the first one is missing."""
    Path(path).stat()
    return [0, *following_segments(path)]


def whole_tape(path: str | os.PathLike[str], segment: int) -> Path | None:
    """The name of the tape of which a file, found to be a segment above 0, is one by its name; None if it is not."""
    whole = Path(path)
    return whole.with_name(whole.name[: -len(f".{segment}")]) if whole.name.endswith(f".{segment}") else None


def following_segments(path: str | os.PathLike[str]) -> list[int]:
    """The numbers of the segments behind the first that there are, ascending."""
    whole = Path(path)
    names = (other.name for other in whole.parent.iterdir() if other.name.startswith(whole.name))
    matches = (_SEGMENT_NUMBER.fullmatch(name[len(whole.name) :]) for name in names)
    return sorted(int(match[1]) for match in matches if match)
