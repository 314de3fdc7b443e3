"""Write a Rerun file, whole or not at all; or stream one to a viewer."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

import rerun as rr

from replayer.doors.rerun_stream import fill
from replayer.doors.source import Source, Tell
from replayer.export import written_whole

APPLICATION = "simulation-flight-recorder"


def write_rerun(source: Source, path: str | os.PathLike[str], tell: Tell) -> None:
    """Write what source gives as .rrd; an existing file is replaced. Raises OSError and as Source does."""
    with written_whole(Path(path)) as part:
        part.touch()  # Rerun would say of a folder that is not there that the program may not log to it.
        recording = make_recording(source, None, None)
        recording.save(part)
        try:
            fill(recording, source, tell)
        finally:
            recording.disconnect()  # Waits until all is in the file, with the list of its contents at its end.


def stream_rerun(
    source: Source, output: BinaryIO, *, application: str | None, recording_id: str | None, prefix: str
) -> None:
    """Write the same to output as it comes. Raises OSError and as Source does."""
    # Through a file, since Rerun's own stream in memory begins anew each time that it is read, and what it writes to
    # stdout itself would be mixed with what the simulation prints.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.rrd"
        path.touch()
        recording = make_recording(source, application, recording_id)
        recording.save(path)
        with path.open("rb") as written:

            def hand_over() -> None:
                recording.flush()
                shutil.copyfileobj(written, output)
                output.flush()

            try:
                fill(recording, source, lambda _: None, prefix, hand_over)
            finally:
                recording.disconnect()
            shutil.copyfileobj(written, output)


def make_recording(source: Source, application: str | None, recording_id: str | None) -> rr.RecordingStream:
    """A recording that is called what the run is called."""
    run = source.tape.run_id or None  # Lost with a damaged header.
    recording = rr.RecordingStream(application or APPLICATION, recording_id=recording_id or run)
    recording.send_recording_name(source.tape.path.name)
    return recording
