"""Say in one line what a user's simulation raised, and where."""

from __future__ import annotations

import traceback
from pathlib import Path

_OURS = ("recorder", "replayer", "sim.kernel")


def raised_text(what: str, error: BaseException) -> str:
    """For example: the step raised ValueError: boom (world.py:12). what: the step, load."""
    text = " ".join(str(error).split())
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _is_ours(str(frame.f_globals.get("__name__", "")))
    ]
    where = f" ({Path(places[-1][0]).name}:{places[-1][1]})" if places else ""
    return f"{what} raised {type(error).__name__}{': ' if text else ''}{text}{where}"


def _is_ours(module: str) -> bool:
    return any(module == ours or module.startswith(f"{ours}.") for ours in _OURS)
