"""Functions that were compiled for a layout: a process that forks copies can make them first, and each copy has them.

What is compiled depends on the names of attributes and the like alone. Nothing of a simulation is run for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

MADE_MAX = 128  # As many as are kept by those that make them.

MadeCode = tuple[
    Callable[..., Any], tuple[Any, ...]
]  # A cached function that makes code, and its arguments: plain data.

_made: list[MadeCode] = []


def note_made(make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Note that a function has made code from these arguments."""
    if len(_made) < MADE_MAX:
        _made.append((make, arguments))


def made_code() -> list[MadeCode]:
    """What this process has made, the first one first; a forked copy begins with that of its parent."""
    return _made


def make_again(made: Iterable[MadeCode]) -> None:
    """Make what another process has made."""
    for make, arguments in made:
        make(*arguments)
