"""Whether a tape can be gone on with, and by which simulation: what is asked before a byte is written.

Invariant: nothing here writes, so that whatever is refused is left as it was.
"""

from __future__ import annotations

import os

from recorder.errors import CorruptError, MissingTickError, RecordingError
from recorder.format.recording.assembly import Assembled
from recorder.recording_options import RecordingOptions
from recorder.storage.file_names import tape_of_segment


def ensure_first_file(path: str | os.PathLike[str], assembled: Assembled) -> None:
    """Refuse a later file of a tape: what is added there lies in the midst of it. Raises RecordingError."""
    header = assembled.recording.segments[0].contents.header
    if header is not None and header.segment > 0 and assembled.recording.segments[0].number == 0:
        tape = tape_of_segment(path, header.segment)
        whole = f"{tape}; name that one" if tape is not None else "a tape in several files; name the first of them"
        raise RecordingError(f"{os.fspath(path)}: this is file {header.segment} of {whole}")


def ensure_sound(assembled: Assembled, *, died: bool) -> None:
    """Refuse a tape with damage, with a missing file, or with nothing on it.

    died: whether its writer has left a journal, or a file that was only begun.

    Raises CorruptError, MissingTickError.
    """
    problem = next((damage for damage in assembled.damages if not damage.torn), None)
    if problem is not None:
        raise CorruptError(problem.offset, f"{problem.what}; repair the tape first (replay repair), then resume that")
    missing = [*assembled.missing_segments, *_next_segment(assembled, died=died)]
    if missing:
        raise CorruptError(0, f"segment {missing[0]} is missing; repair the tape first (replay repair)")
    if not assembled.meta and not any(segment.contents.entries for segment in assembled.recording.segments):
        raise MissingTickError(0, "the tape was only begun when its writer died: nothing is on it yet")
    if not assembled.run_id or not assembled.meta:
        raise CorruptError(0, "header or META are lost; repair the tape first (replay repair), then resume that")


def _next_segment(assembled: Assembled, *, died: bool) -> list[int]:
    """The number of the segment that the last one says it goes on in, if that was there and has been lost.

    A writer that dies between the seal of one segment and the next leaves the same, but not without the journal that
    it keeps beside a tape with durability "tick", other than in the first moments of a ring that is resumed. Without
    that durability nothing tells the two apart: the tape is taken for what it is.
    """
    seal = assembled.recording.segments[-1].contents.seal
    match assembled.meta.get("settings"):
        case {"durability": "tick", "keep_ticks": None, "keep_s": None}:
            if seal is not None and not seal.final and not died:
                return [assembled.recording.segments[-1].number + 1]
    return []


def settings_of(assembled: Assembled) -> RecordingOptions:
    """The settings that a tape was recorded with.

    Raises RecordingError if they are those of another version, CorruptError if they cannot be.
    """
    try:
        if isinstance(assembled.meta.get("settings"), dict):
            return RecordingOptions.from_meta(assembled.meta)
    except KeyError:
        pass
    except (TypeError, ValueError) as error:
        raise CorruptError(0, f"the tape's settings cannot be: {error}") from None
    raise RecordingError(
        "the tape cannot be written on, only read: its settings are not those that this program knows "
        "(it is of another version, or they are lost)"
    )
