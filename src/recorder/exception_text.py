"""Format an exception of a user's simulation as one line with its source location."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

STEP_RAISED = "the step raised "  # How raised_text begins for a step.
# As Python tells an object without a text of its own, and a number as long as an address is, such as hex(id(one)).
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+|\b0x[0-9a-f]{9,12}\b")
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


def comparable_error(text: str | None) -> str | None:
    """An error's text as two runs are compared by it: without addresses, which differ from process to process."""
    return None if text is None else _ADDRESS.sub("at an address", text)


def _is_ours(module: str) -> bool:
    return any(module == ours or module.startswith(f"{ours}.") for ours in _OURS)
