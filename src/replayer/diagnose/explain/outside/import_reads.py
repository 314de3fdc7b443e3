"""The environment variables that the user's modules read while they are imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recorder.ambient.outside.outside_read import VARIABLE, OutsideRead
from recorder.ambient.outside.own_code import is_librarys

_NOT_THE_USERS = (f"{os.path.dirname(os.__file__)}/", "<frozen ")  # noqa: PTH120 - the folder of Python's own modules


@contextmanager
def noting_variables() -> Iterator[list[OutsideRead]]:
    """Note each variable that the user's code reads while the context is open, once for each line."""
    kind: Any = type(os.environ)
    get_item, noted = kind.__getitem__, dict[tuple[str, str, int], OutsideRead]()
    reads: list[OutsideRead] = []

    def read(mapping: Any, key: Any) -> Any:
        place = _own_place() if mapping is os.environ and isinstance(key, str) else None
        if place is not None and (key, *place) not in noted:
            noted[key, *place] = OutsideRead(VARIABLE, key, *place, None)
            reads.append(noted[key, *place])
        return get_item(mapping, key)

    kind.__getitem__ = read
    try:
        yield reads
    finally:
        kind.__getitem__ = get_item


def _own_place() -> tuple[str, int] | None:
    """The file and the line of the user's code that reads, below functions of Python's os; None if others read."""
    frame: Any = sys._getframe(2)  # noqa: SLF001 - inspect.stack would read source files
    while frame is not None and frame.f_code.co_filename.startswith(("<frozen os>", "<frozen _collections_abc>", *_OS)):
        frame = frame.f_back
    if frame is None:
        return None
    path = frame.f_code.co_filename
    is_others = path.startswith(_NOT_THE_USERS) or "/site-packages/" in path or is_librarys(path)
    return None if is_others else (path, frame.f_lineno)


_OS = (os.__file__, os.path.join(os.path.dirname(os.__file__), "_collections_abc.py"))  # noqa: PTH118, PTH120
