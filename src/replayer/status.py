"""Exit codes of commands: from the status of a tape, and from several findings."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, SAME
from recorder.format.recording.assembly import NOT_CHECKED

STATUS_CODES = {"intact": SAME, NOT_CHECKED: SAME, "incomplete": INCOMPLETE, "corrupt": CORRUPT}


def worst_code(codes: Iterable[int]) -> int:
    """Return the worst code: a difference is worse than damage, and damage is worse than an incomplete tape."""
    distinct_codes = set(codes)
    return next((code for code in (DIFFERS, CORRUPT, INCOMPLETE) if code in distinct_codes), SAME)
