"""Warnings at the user's own line: the innermost one outside of these packages, however deep a warning comes from."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType

_SOURCES = str(Path(__file__).parents[1])
_OURS = tuple(str(Path(_SOURCES, name, "")) + "/" for name in ("sim", "recorder", "replayer"))


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's program that led here. Raises the warning where a filter makes it an error."""
    frame = _user_frame()
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__") or "<string>",  # As warnings.warn has it; with None nothing would be shown.
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _user_frame() -> FrameType:
    """The innermost frame of another file than ours; the outermost one of all if there is none."""
    frame = sys._getframe(2)  # noqa: SLF001 - inspect.stack reads source files
    while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return frame
