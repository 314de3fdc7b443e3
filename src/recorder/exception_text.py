"""Format an exception of a user's simulation as one line with its source location."""

from __future__ import annotations

import traceback
from pathlib import Path

STEP_RAISED = "the step raised "  # How raised_text begins for a step.
_OURS = ("recorder", "replayer", "sim.kernel", "sim.adapters")


def raised_text(what: str, error: BaseException) -> str:
    """Return a line such as "the step raised ValueError: boom (world.py:12)". what: "the step" or "load"."""
    text = " ".join(str(error).split())
    lines = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _is_ours(str(frame.f_globals.get("__name__", "")))
    ]
    where = f" ({Path(lines[-1][0]).name}:{lines[-1][1]})" if lines else ""
    return f"{what} raised {type(error).__name__}{': ' if text else ''}{text}{where}"


def _is_ours(module: str) -> bool:
    return any(module == ours or module.startswith(f"{ours}.") for ours in _OURS)
