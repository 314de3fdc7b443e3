"""One session of a recording: its open files, log and settings."""

from __future__ import annotations

import os
import warnings
from typing import Any

import attrs

from recorder.format.blocks.file_header import features_of, make_file_header
from recorder.format.segments.segment_encoder import SegmentEncoder
from recorder.recording_options import RecordingOptions
from recorder.session.tape_meta import encode_small, meta_maker, new_run_id
from recorder.storage.file_interfaces import Files
from recorder.storage.segmented_log import SegmentedLog
from recorder.writer.journal import Journal
from recorder.writer.writer import Writer
from sim.kernel.state import Snapshot


@attrs.frozen
class Session:
    """A tape that is open for writing.

    Attributes:
        files, log: of the tape.
        settings: the options of the recording.
        run_id: 16 bytes.
        meta: META, without the entries about single files.
        tick: the last one on the tape; of a new tape the one that its first keyframe will have, mostly 0.
    """

    files: Files
    log: SegmentedLog
    settings: RecordingOptions
    run_id: bytes
    meta: dict[str, Any]
    tick: int


@attrs.frozen
class Resumed:
    """The state of a tape when it was opened again.

    Attributes:
        tick: the last one on it, from which the recording continues.
        keyframe_tick: of the keyframe from which the state of that tick was restored.
        torn_file: the file that holds the torn tail; None if there was none.
        journal_ticks: the number of ticks taken from the journal.
        outcome: that of the session before; None if it was not closed.
    """

    tick: int
    keyframe_tick: int
    torn_file: str | None
    journal_ticks: int
    outcome: Any = None


def new_session(
    files: Files,
    path: str | os.PathLike[str],
    meta: dict[str, Any],
    settings: RecordingOptions,
    baseline: Snapshot,
    tick: int = 0,
) -> Session:
    """Create the files of a new tape that begins with this state, of this tick.

    Raises as create_session, TypeError or ValueError.
    """
    meta_bytes = encode_small(meta, "the description of the world")
    run_id = settings.run_id or new_run_id(meta_bytes, baseline, deterministic=settings.deterministic)
    try:
        header = make_file_header(run_id, 0, 0, features_of(meta))
        session = create_session(files, SegmentEncoder(header, meta_bytes), meta, settings)
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise
    return attrs.evolve(session, tick=tick)


def create_session(files: Files, encoder: SegmentEncoder, meta: dict[str, Any], settings: RecordingOptions) -> Session:
    """Create the files of a new tape, with header and META in the first. Raises OSError and leaves no file then."""
    io = files.create(0)
    try:
        log = SegmentedLog(
            files,
            io,
            encoder,
            meta_maker(meta),
            syncs=settings.sync_interval_s is not None,
            record_durable=settings.sync_each_block or not settings.deterministic,
        )
        log.start()
        if settings.is_ring:
            log.put_rotation()  # The first segment holds the tape's name and META; the later ones are dropped in turn.
    except BaseException:
        files.discard()
        raise
    return Session(files, log, settings, encoder.header.run_id, meta, 0)


def abandon_writer(writer: Writer, journal: Journal | None, path: str) -> None:
    """Write what is left of a recording that was never closed, unsealed, and warn."""
    writer.stop()  # First: where warnings are errors, the code after them does not run.
    if journal is not None and not writer.has_failed:
        journal.close()
    if writer.seals:
        return  # Its close was only interrupted.
    warnings.warn(
        f"the recording {path} was never closed: its ticks are written, but the tape is not sealed; use "
        "with, or call close()",
        ResourceWarning,
        stacklevel=2,
    )
