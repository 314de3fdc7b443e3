"""Steps 3 to 5 of a resume, see resume.py: the torn tail is cut off, and the next session begins after the last frame."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from recorder.ambient.outside.outside_note import KEY as OUTSIDE
from recorder.ambient.outside.process_facts import process_facts
from recorder.environment import describe_environment
from recorder.errors import CorruptError
from recorder.format.blocks.block import BlockKind, Flags
from recorder.format.blocks.file_header import make_file_header
from recorder.format.recording.assembly import Assembled
from recorder.format.segments.segment_contents import hop
from recorder.format.segments.segment_encoder import SegmentEncoder, make_piece, pieces_of_frames
from recorder.format.segments.segment_reader import Segment
from recorder.recording_options import FUNCTIONS, RecordingOptions
from recorder.reopen.torn_tail import cut_torn_tail
from recorder.session.session import Session
from recorder.session.tape_meta import encode_small, meta_maker
from recorder.storage.file_interfaces import IO, Files
from recorder.storage.segmented_log import SegmentedLog


def open_for_writing(
    files: Files, ios: dict[int, IO], assembled: Assembled, settings: RecordingOptions
) -> tuple[Session, str | None]:
    """Open a session at the end of the tape; return it, and the file that holds the torn tail, if there was one."""
    segment = assembled.recording.segments[-1]
    io, contents = ios[segment.number], segment.contents
    for number in ios:
        if number not in (0, segment.number):
            files.close(number)
    syncs = settings.sync_interval_s is not None
    record_durable = settings.sync_each_block or not settings.deterministic
    encoder = _encoder_after(assembled, segment)
    torn_file = cut_torn_tail(files, io, contents.good_end)
    if syncs:
        io.fdatasync()  # The earlier writer may have been killed before the system wrote its data to the disk.
    else:
        record_durable = False
    encoder.durable_bytes = contents.good_end if record_durable else 0
    meta = {key: value for key, value in assembled.meta.items() if key != "segment"}
    if settings.output_functions:
        meta[FUNCTIONS] = sorted({*meta.get(FUNCTIONS, ()), *settings.output_functions})
        meta["event_stream"] = callable(settings.events) or meta.get("event_stream")
    if not settings.deterministic:
        meta["environment"] = describe_environment()
        meta[OUTSIDE] = {**meta.get(OUTSIDE, {}), "process": process_facts()}
    past = needed_up_to(assembled.recording.segments[:-1], assembled.recording.last_tick)
    log = SegmentedLog(files, io, encoder, meta_maker(meta), syncs=syncs, record_durable=record_durable, past=past)
    frames = assembled.recording.journal
    for piece in pieces_of_frames(frames):
        log.put([piece])
    last_tick = assembled.recording.last_tick
    meta_bytes = encode_small({**meta, "resumed_at_tick": last_tick}, "the description of the world")
    log.put([make_piece(BlockKind.META, meta_bytes, 0, flags=Flags.SESSION_START)])
    log.write()
    if syncs:
        log.sync()
    files.remove_journal()  # All of its frames are in the tape.
    if settings.is_ring:
        log.put_rotation()  # A ring that is resumed again and again would otherwise never fill a segment.
    return Session(files, log, settings, assembled.run_id, meta, last_tick), torn_file


def needed_up_to(earlier: Sequence[Segment], last_tick: int) -> list[tuple[int, int]]:
    """The number of each segment before the last, and the last tick that needs it.

    A segment that was taken over after a failed sync has no seal. Deltas in those behind it, up to the next one that was
    sealed, may refer to its full keyframes. That one may have no tick, and its own are needed in any case.
    """
    needed: list[tuple[int, int]] = []
    for segment in reversed(earlier):
        own = max((part.summary.last_tick for part in segment.parts), default=0)
        is_sealed = segment.clip is None and segment.contents.seal is not None
        last_tick = own if is_sealed else max(own, last_tick)
        needed.append((segment.number, last_tick))
    return needed[::-1]


def _encoder_after(assembled: Assembled, segment: Segment) -> SegmentEncoder:
    """Return an encoder that continues at the end of the last segment."""
    contents = segment.contents
    header = contents.header
    if header is None:
        raise CorruptError(0, "the header of the last segment is damaged; repair the tape first (replay repair)")
    described = next((entry for entry in contents.entries if entry.kind == BlockKind.META), None)
    if described is None:  # A copy of it, in END or in a different segment, was found.
        raise CorruptError(0, "META of the last segment is damaged; repair the tape first (replay repair)")
    blocks = list(hop(segment.read, header.size_bytes, contents.good_end, contents.marker))
    meta = segment.joined(described, 0)
    previous = next((s for s in assembled.recording.segments if s.number == segment.number - 1), None)
    seal = previous.contents.seal if previous is not None and previous.clip is None else None
    fresh = make_file_header(header.run_id, header.segment, header.first_seq, header.incompatible)
    header = attrs.evolve(fresh, marker=header.marker)
    return SegmentEncoder.continuing(header, meta, blocks, contents.good_end, seal.digest if seal is not None else b"")
