"""Write a Rerun file, whole or not at all; or stream one to a viewer."""

from __future__ import annotations

import os
from typing import BinaryIO

import rerun as rr

from recorder.storage.atomic_file import atomic_file
from replayer.export.viewers.pipe_output import pumped
from replayer.export.viewers.rerun_entities import fill
from replayer.export.viewers.tick_range import Tell, TickRange

APPLICATION = "simulation-flight-recorder"


def write_rerun(source: TickRange, path: str | os.PathLike[str], tell: Tell) -> None:
    """Write what source gives as .rrd; an existing file is replaced. Raises OSError and as Source does."""
    with atomic_file(path, existing="replace") as part, part.open("wb") as file:
        _write(make_recording(source, None, None), source, file.fileno(), tell, "")


def stream_rerun(
    source: TickRange, output: BinaryIO, *, application: str | None, recording_id: str | None, prefix: str
) -> None:
    """Write the same to output as it comes. Raises OSError, of a reader that has gone, too, and as Source does."""
    _write(make_recording(source, application, recording_id), source, output.fileno(), lambda _: None, prefix)


def _write(recording: rr.RecordingStream, source: TickRange, output: int, tell: Tell, prefix: str) -> None:
    with pumped(output, ".rrd") as (path, look):
        recording.save(path)
        try:
            fill(recording, source, tell, prefix, look)
        finally:
            recording.disconnect()  # Waits until all is written, with the list of its contents at its end.


def make_recording(source: TickRange, application: str | None, recording_id: str | None) -> rr.RecordingStream:
    """A recording that is called what the run is called."""
    run = source.tape.run_id or None  # Lost with a damaged header.
    recording = rr.RecordingStream(application or APPLICATION, recording_id=recording_id or run)
    recording.send_recording_name(source.tape.path.name)
    return recording
