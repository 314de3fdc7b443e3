"""Preconditions for a resume, checked before a byte is written.

Invariant: nothing here writes: a refused tape stays unchanged.
"""

from __future__ import annotations

import os

from recorder.errors import CorruptError, MissingTickError, RecordingError
from recorder.format.recording.assembly import Assembled
from recorder.recording_options import RecordingOptions
from recorder.storage.file_names import tape_of_segment


def ensure_first_file(path: str | os.PathLike[str], assembled: Assembled) -> None:
    """Refuse a later file of a tape: added blocks would lie in the middle of the tape. Raises RecordingError."""
    header = assembled.recording.segments[0].contents.header
    if header is not None and header.segment > 0 and assembled.recording.segments[0].number == 0:
        tape = tape_of_segment(path, header.segment)
        advice = f"{tape}; name that one" if tape is not None else "a tape in several files; name the first of them"
        raise RecordingError(f"{os.fspath(path)}: this is file {header.segment} of {advice}")


def ensure_intact(assembled: Assembled, *, died: bool) -> None:
    """Refuse a tape with damage, with a missing file, or without contents.

    died: True if its writer left a journal, or a file that was only begun.

    Raises CorruptError, MissingTickError.
    """
    problem = next((damage for damage in assembled.damages if not damage.torn), None)
    if problem is not None:
        raise CorruptError(
            problem.offset, f"{problem.what}; repair the tape first (replay repair), then resume the copy"
        )
    missing = [*assembled.missing_segments, *_next_segment(assembled, died=died)]
    if missing:
        raise CorruptError(0, f"segment {missing[0]} is missing; repair the tape first (replay repair)")
    if not assembled.meta and not any(segment.contents.entries for segment in assembled.recording.segments):
        raise MissingTickError(0, "the tape is empty: its writer died before the first keyframe")
    if not assembled.run_id or not assembled.meta:
        raise CorruptError(0, "header or META are lost; repair the tape first (replay repair), then resume the copy")


def _next_segment(assembled: Assembled, *, died: bool) -> list[int]:
    """Return the number of the segment that must follow the last one, if that file existed and has been lost.

    The last segment's seal announces a further segment. A writer that dies between two segments leaves the same bytes.
    With durability "tick" it also leaves a journal, except in the first moments of a resumed ring. Without that
    durability the two cases cannot be distinguished: the tape is taken as complete.
    """
    seal = assembled.recording.segments[-1].contents.seal
    match assembled.meta.get("settings"):
        case {"durability": "tick", "keep_ticks": None, "keep_s": None}:
            if seal is not None and not seal.final and not died:
                return [assembled.recording.segments[-1].number + 1]
    return []


def settings_of(assembled: Assembled) -> RecordingOptions:
    """Return the settings that a tape was recorded with.

    Raises RecordingError for settings of a different version, CorruptError for invalid ones.
    """
    try:
        if isinstance(assembled.meta.get("settings"), dict):
            return RecordingOptions.from_meta(assembled.meta)
    except KeyError:
        pass
    except (TypeError, ValueError) as error:
        raise CorruptError(0, f"the tape's settings are invalid: {error}") from None
    raise RecordingError(
        "the tape can be read, but not resumed: this version does not know its settings "
        "(they are of a different version, or lost)"
    )
