"""Write a Rerun file atomically, or stream a recording to a viewer."""

from __future__ import annotations

import os
from typing import BinaryIO

import rerun as rr

from recorder.storage.atomic_file import atomic_file
from replayer.export.viewers.pipe_output import pumped
from replayer.export.viewers.rerun_entities import fill
from replayer.export.viewers.tick_range import OnProgress, TickRange

APPLICATION = "simulation-flight-recorder"


def write_rerun(source: TickRange, path: str | os.PathLike[str], on_progress: OnProgress) -> None:
    """Write the range as .rrd; an existing file is replaced. Raises OSError and as TickRange does."""
    with atomic_file(path, existing="replace") as part, part.open("wb") as file:
        _write(make_recording(source, None, None), source, file.fileno(), on_progress, "")


def stream_rerun(
    source: TickRange, output: BinaryIO, *, application: str | None, recording_id: str | None, prefix: str
) -> None:
    """Stream the range to output. Raises OSError, also if the reader has closed the pipe, and as TickRange does."""
    _write(make_recording(source, application, recording_id), source, output.fileno(), lambda _: None, prefix)


def _write(recording: rr.RecordingStream, source: TickRange, output: int, on_progress: OnProgress, prefix: str) -> None:
    with pumped(output, ".rrd") as (path, check):
        recording.save(path)
        try:
            fill(recording, source, on_progress, prefix, check)
        finally:
            recording.disconnect()  # Waits until everything is written, with the table of contents at the end.


def make_recording(source: TickRange, application: str | None, recording_id: str | None) -> rr.RecordingStream:
    """Make a recording with the name of the tape and, by default, the identifier of its run."""
    run = source.tape.run_id or None  # Lost with a damaged header.
    recording = rr.RecordingStream(application or APPLICATION, recording_id=recording_id or run)
    recording.send_recording_name(source.tape.path.name)
    return recording
