"""Notices for who waits at a terminal: that something takes seconds this once. Files, pipes and -q get none."""

from __future__ import annotations

import sys

_SILENCED: list[bool] = []


def tell_who_waits(text: str) -> None:
    """Print a line on stderr if that is a terminal."""
    if not _SILENCED and sys.stderr is not None and sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def silence_notices(*, when: bool) -> None:
    """Print none in this process from now on, if it is to be quiet."""
    if when:
        _SILENCED.append(True)
