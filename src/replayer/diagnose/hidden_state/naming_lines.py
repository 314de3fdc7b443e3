"""Find the lines of the user's code that ran and that name a value."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

LINES_MAX = 5  # Of one value.
_GENERATORS = {
    "np.random": r"(?<![\w.])(np|numpy)\.random\.(?!default_rng\b)[a-z]",
    "random": r"(?<![\w.])random\.[a-z]",
}

Line = tuple[str, int]  # File and number.


@contextmanager
def lines_that_run(files: frozenset[str], lines: dict[Line, None]) -> Iterator[None]:
    """Add the lines of these files that this thread runs while the context is open, in the order of their first run."""

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.setdefault((frame.f_code.co_filename, frame.f_lineno))
        return local

    def called(frame: FrameType, _: str, __: Any) -> Any:
        return local if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)


def lines_naming(name: str, lines: Iterable[Line]) -> tuple[str, ...]:
    """The first of the lines whose text names a value, as file.py:12. name: such as Flock.wind, or two joined by and.

    Of a module's generator, such as np.random, these are the lines that name the module's functions: other generators have
    methods of its name, and classes of generators are not drawn from.
    """
    if name in _GENERATORS:
        return _shown(lines, re.compile(_GENERATORS[name]))
    words = [re.sub(r"\[.*", "", part.split("(")[0]).strip() for part in name.split(" and ")]
    last = [identifiers[-1] for word in words if (identifiers := re.findall(r"\w+", word))]
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, last))})\b") if last else None
    return _shown(lines, pattern) if pattern is not None else ()


def _shown(lines: Iterable[Line], pattern: re.Pattern[str]) -> tuple[str, ...]:
    found = [line for line in lines if pattern.search(linecache.getline(*line))]
    return tuple(f"{Path(file).name}:{number}" for file, number in found[:LINES_MAX])
