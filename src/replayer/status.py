"""Exit codes of what a command finds: of the status of a tape, and of several findings."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, SAME

STATUS_CODES = {"intact": SAME, "incomplete": INCOMPLETE, "corrupt": CORRUPT}


def worst_code(codes: Iterable[int]) -> int:
    """The exit code of several findings: a difference before damage, damage before what is only not complete."""
    found = set(codes)
    return next((code for code in (DIFFERS, CORRUPT, INCOMPLETE) if code in found), SAME)
