"""Names of the files of one tape: its segments, its journal and its quarantined bytes.

The name of a tape is that of its first segment: ``run.tape``, then ``run.tape.1``, ``run.tape.2``. While it is written
it has a journal, ``run.tape.journal``. ``run.tape.torn-N`` holds bytes that a crash left half written. A file that ends
in ``.new`` is incomplete; it is renamed when it is complete.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

TAPE_SUFFIX = ".tape"  # Of the tapes that a folder is searched for; a tape may have any name.
JOURNAL_SUFFIX = ".journal"
NEW_SUFFIX = ".new"
SEGMENT_NUMBER = r"\.([1-9]\d{0,7})"  # A pattern: the end of a segment's name.
SEGMENT_NUMBER_OF = re.compile(SEGMENT_NUMBER)
_UNFINISHED = re.compile(r"\.([1-9]\d{0,7}|journal)\.new")


def segment_path(path: str | os.PathLike[str], number: int) -> Path:
    """The path of a segment; that of number 0 is the path of the tape."""
    return Path(path) if number == 0 else Path(f"{os.fspath(path)}.{number}")


def tape_of_segment(path: str | os.PathLike[str], number: int) -> Path | None:
    """The tape whose segment of this number is called path; None if the name does not match."""
    text, suffix = os.fspath(path), f".{number}"
    return Path(text.removesuffix(suffix)) if text.endswith(suffix) and text != suffix else None


def journal_path(path: str | os.PathLike[str]) -> Path:
    """The path of a tape's journal."""
    return Path(f"{os.fspath(path)}{JOURNAL_SUFFIX}")


def new_path(path: Path) -> Path:
    """The temporary name of a file that will be called path."""
    return path.with_name(path.name + NEW_SUFFIX)


def unfinished_paths(path: str | os.PathLike[str]) -> list[Path]:
    """The files next to a tape that a killed process has not finished."""
    tape = Path(path)
    others = (other for other in tape.parent.iterdir() if other.name.startswith(tape.name))
    return [other for other in others if _UNFINISHED.fullmatch(other.name[len(tape.name) :])]


def numbered(path: Path, suffix: str = "") -> Iterator[Path]:
    """Yield the path, then alternatives with -2, -3 and so on before its suffix."""
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.name.removesuffix(suffix)}-{number}{suffix}")


def first_free(paths: Iterable[Path]) -> Path:
    """The first of these paths at which nothing exists, not even a broken link."""
    return next(path for path in paths if not os.path.lexists(path))


def torn_path(path: str | os.PathLike[str]) -> Path:
    """The first free name for a torn tail."""
    number = 1
    while (torn := Path(f"{os.fspath(path)}.torn-{number}")).exists():
        number += 1
    return torn


def segment_numbers(path: str | os.PathLike[str]) -> list[int]:
    """The numbers of the existing segments, ascending. Raises FileNotFoundError if the first one is missing."""
    Path(path).stat()
    return [0, *following_segments(path)]


def whole_tape(path: str | os.PathLike[str], segment: int) -> Path | None:
    """The tape that the file of a segment above 0 belongs to by its name; None if the name has no such number."""
    file = Path(path)
    return file.with_name(file.name[: -len(f".{segment}")]) if file.name.endswith(f".{segment}") else None


def following_segments(path: str | os.PathLike[str]) -> list[int]:
    """The numbers of the existing segments after the first, ascending."""
    tape = Path(path)
    names = (other.name for other in tape.parent.iterdir() if other.name.startswith(tape.name))
    matches = (SEGMENT_NUMBER_OF.fullmatch(name[len(tape.name) :]) for name in names)
    return sorted(int(match[1]) for match in matches if match)
