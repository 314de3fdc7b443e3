"""Read everything that a tape contains, as bytes and without files."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.errors import MissingTickError, RecordingError
from recorder.format.recording.assembly import SegmentInput, assemble
from recorder.format.recording.recording import Recording
from recorder.format.segments.segment_contents import NoTapeError

TICKS_MAX = 2000  # A hostile tape may claim any number of ticks; each costs one call.


def exhaust(segments: Sequence[bytes], journal: bytes = b"", *, believe_index: bool = True) -> str:
    """Open, list, read every frame and every state; return the status.

    Any error in the bytes must raise a RecordingError (or NoTapeError, which readers convert to one); any other exception
    passes through and is a defect.
    """
    sources = [
        SegmentInput(number, lambda offset, size, data=data: data[offset : offset + size], len(data))
        for number, data in enumerate(segments)
    ]
    try:
        assembled = assemble(sources, journal, believe_index=believe_index)
    except NoTapeError:
        return "unreadable"
    except RecordingError as error:
        return type(error).__name__
    recording = assembled.recording
    for ask in (
        lambda: recording.keyframes,
        lambda: recording.drops,
        recording.missing_ticks,
        lambda: assembled.status,
    ):
        try:
            recording.believing_index(ask)
        except RecordingError:
            continue
    _read_all(recording)
    return "read"


def _read_all(recording: Recording) -> None:
    try:
        first, last = recording.first_tick, recording.last_tick
    except RecordingError:
        first, last = 0, 50
    for tick in range(first, min(last, first + TICKS_MAX) + 2):
        try:
            _ = recording.frame(tick).inputs
        except RecordingError:
            continue
    try:
        places = recording.keyframes
    except RecordingError:
        return
    for place in places[:TICKS_MAX]:
        try:
            recording.snapshot(place)
            recording.keyframe_after(place.tick)
            next(recording.keyframes_at_or_before(place.tick), None)
        except (RecordingError, MissingTickError):
            continue
