"""The environment variables, and the arguments of the program, that the user's modules read while they are imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recorder.ambient.outside.outside_read import ARGUMENTS, ARGUMENTS_NAME, VARIABLE, OutsideRead
from recorder.ambient.outside.own_code import is_librarys
from recorder.ambient.outside.read_functions import watch_arguments

_NOT_THE_USERS = (f"{os.path.dirname(os.__file__)}/", "<frozen ")  # noqa: PTH120 - the folder of Python's own modules


@contextmanager
def noting_reads() -> Iterator[list[OutsideRead]]:
    """Note each variable, and the arguments, that the user's code reads while the context is open, once for each line."""
    kind: Any = type(os.environ)
    get_item, noted = kind.__getitem__, dict[tuple[str, str, int], OutsideRead]()
    reads: list[OutsideRead] = []

    def note(what: str, name: str, place: tuple[str, int] | None, fact: str | None) -> None:
        if place is not None and (name, *place) not in noted:
            noted[name, *place] = OutsideRead(what, name, *place, fact)
            reads.append(noted[name, *place])

    def read(mapping: Any, key: Any) -> Any:
        if mapping is os.environ and isinstance(key, str):
            note(VARIABLE, key, _own_place(), None)
        return get_item(mapping, key)

    kind.__getitem__ = read
    end_arguments = watch_arguments(lambda fact: note(ARGUMENTS, ARGUMENTS_NAME, _asking_place(), fact), but_name=True)
    try:
        yield reads
    finally:
        kind.__getitem__ = get_item
        end_arguments()


def _own_place() -> tuple[str, int] | None:
    """The file and the line of the user's code that reads, below functions of Python's os; None if others read."""
    frame: Any = sys._getframe(2)  # noqa: SLF001 - inspect.stack would read source files
    while frame is not None and frame.f_code.co_filename.startswith(("<frozen os>", "<frozen _collections_abc>", *_OS)):
        frame = frame.f_back
    if frame is None:
        return None
    path = frame.f_code.co_filename
    return None if _is_others(path) else (path, frame.f_lineno)


def _asking_place() -> tuple[str, int] | None:
    """The file and the line of the user's code that reads itself, or by a library such as argparse; None without one."""
    frame: Any = sys._getframe(2)  # noqa: SLF001
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        if not _is_others(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _is_others(path: str) -> bool:
    return path.startswith(_NOT_THE_USERS) or "/site-packages/" in path or is_librarys(path)


_OS = (os.__file__, os.path.join(os.path.dirname(os.__file__), "_collections_abc.py"))  # noqa: PTH118, PTH120
