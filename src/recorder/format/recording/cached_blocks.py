"""Decoded blocks of one recording: those that were used last, since scrubbing near a tick needs them again.

The caches refer to the segments and not to the recording: a recording that is not used any more is freed at once, and
its files are closed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import closing

import numpy as np

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.format.blocks.frame import Frame, decode_frames
from recorder.format.blocks.full_keyframe import decode_full
from recorder.format.copier import Copier
from recorder.format.segments.block_location import KeyframeLocation
from recorder.format.segments.index import Entry, entry_of
from recorder.format.segments.segment_contents import read_header
from recorder.format.segments.segment_reader import WINDOW_BYTES, Segment
from sim.kernel.state import Snapshot, unset_arena

FRAME_BLOCKS_KEPT = 8  # Decoded blocks of some hundred frames.
FULL_STATES_KEPT = 2  # Neighbouring deltas share a baseline.
SMALL_STATES_KEPT = 32  # Of delta keyframes. A process that is forked to load one need not decode it again.
SMALL_BYTES_MAX = 1 << 16  # Of such a state.

Segments = Mapping[int, Segment]  # By number.


class CachedBlocks:
    """Blocks of frames and full keyframes, decoded once."""

    def __init__(self, segments: Segments) -> None:
        self._frames = functools.lru_cache(FRAME_BLOCKS_KEPT)(functools.partial(_read_frames, segments))
        self._small: dict[KeyframeLocation, Snapshot] = {}
        self._full = functools.lru_cache(FULL_STATES_KEPT)(functools.partial(_read_full, segments))

    def frames(self, segment: int, entry: Entry, end_offset: int) -> list[Frame]:
        """The frames of a block. Raises CorruptError or TornError."""
        return self._frames(segment, entry, end_offset)

    def full(self, place: KeyframeLocation, copier: Copier) -> Snapshot:
        """The state of a full keyframe. copier: reads a large one. Raises CorruptError or TornError."""
        result = self._full(copier, place)
        if isinstance(result, RecordingError):
            raise result.with_traceback(None)
        return result

    def keep_small(self, place: KeyframeLocation, snapshot: Snapshot) -> None:
        """Keep a state that was read here, if it is small, in place of the one that is kept for longest."""
        if snapshot.layout.size_bytes <= SMALL_BYTES_MAX:
            if len(self._small) >= SMALL_STATES_KEPT:
                del self._small[next(iter(self._small))]
            self._small[place] = _copied(snapshot)

    def small(self, place: KeyframeLocation) -> Snapshot | None:
        """A copy of the state of a keyframe, if it is kept: that of a delta is the caller's to change."""
        kept = self._small.get(place)
        return None if kept is None else _copied(kept)


def _copied(snapshot: Snapshot) -> Snapshot:
    arena = unset_arena(snapshot.layout.size_bytes)
    np.copyto(arena, snapshot.arena)
    return Snapshot(snapshot.layout, arena)


def _read_frames(segments: Segments, segment: int, entry: Entry, end_offset: int) -> list[Frame]:
    owner = segments[segment]
    try:
        owner.read(entry.offset, min(end_offset - entry.offset, WINDOW_BYTES))  # Into the window.
        header = read_header(owner.read, entry.offset, owner.contents.marker)
        if entry_of(header) != entry:
            raise CorruptError(entry.offset, "a different block than the one that the index names")
        return decode_frames(header, owner.content(header))
    except CorruptError as error:
        raise error.inside(segment) from None


def _read_full(segments: Segments, copier: Copier, place: KeyframeLocation) -> Snapshot | RecordingError:
    """The state or its error. The result is cached: several deltas on a damaged keyframe read it once."""
    try:
        owner = owner_of(segments, place)
        stored_bytes = place.end_offset - place.entry.offset
        with closing(copier.ahead(owner.pieces(place.entry, place.end_offset), stored_bytes)) as pieces:
            tick, snapshot = decode_full(pieces, place.entry.offset, owner.raw_bytes_max(place.entry), owner.memory)
        return place.ensure_its_own(tick, snapshot)
    except (CorruptError, TornError) as error:
        return error


def owner_of(segments: Segments, place: KeyframeLocation) -> Segment:
    """The segment of a keyframe. Raises MissingTickError if a ring has dropped it since the location was found."""
    owner = segments.get(place.segment)
    if owner is None:
        raise MissingTickError(place.tick, "the file that held its keyframe is no longer a part of the tape")
    return owner
