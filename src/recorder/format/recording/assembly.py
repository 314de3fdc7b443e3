"""Assemble the files of a tape to one recording: matching segments, valid blocks, missing segments.

Sans I/O: the caller has opened the files and passes a function that reads each.

Invariants:
    1. If a segment took over from a failed one, the failed one is valid up to the offset that the later META names.
       Damage after that offset is ignored.
    2. Files of a different run are never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.file_header import marker_of
from recorder.format.blocks.memory_budget import NO_LIMIT, MemoryBudget
from recorder.format.journal_bytes import JournalContents, journal_contents
from recorder.format.limits import META_BYTES_MAX, META_EXTRA_BYTES
from recorder.format.recording.recording import Recording
from recorder.format.segments.contents_by_index import read_contents
from recorder.format.segments.contents_by_scan import ScanProgress, scan_contents
from recorder.format.segments.segment_contents import Contents, Damage, NoTapeError, Read
from recorder.format.segments.segment_reader import WINDOW_BYTES, Segment
from sim.kernel.plain_data import decode_plain, encode_plain

NOT_CHECKED = "not checked"  # The status of a tape without a visible fault: only reading all of it shows more.
_MISSING_NAMED_MAX = 10_000  # A forged file header may state that millions of segments come before it.


@attrs.frozen
class SegmentInput:
    """A file that may be a segment.

    Attributes:
        number: of the segment, from the file's name.
        read: a function that reads its bytes.
        size_bytes: of the file.
        progress: of the last scan of this file, from which the next one continues.
        window_bytes: see Segment.
    """

    number: int
    read: Read
    size_bytes: int
    progress: ScanProgress = attrs.field(factory=ScanProgress, eq=False)
    window_bytes: int = WINDOW_BYTES


@attrs.frozen(eq=False)
class Assembled:
    """A tape assembled from its files.

    Attributes:
        recording: its frames and states.
        meta: the description of the recording, see SPEC.md; empty if all copies are damaged.
        run_id: 16 bytes, or empty if it is lost.
        damages: of all segments, by segment and offset.
        missing_segments: numbers of the missing segments.
        final: True if the last segment is sealed and states that the tape ends there.
        described: the numbers of the segments with a readable META; the others may have been only begun.
    """

    recording: Recording
    meta: dict[str, Any]
    run_id: bytes
    damages: list[Damage]
    missing_segments: list[int]
    final: bool
    described: set[int]

    @property
    def status(self) -> str:
        """The status by headers or index: "corrupt", "incomplete" (not sealed, or ticks were dropped) or "not checked".

        The content of the blocks is not read, so no tape is intact yet.
        """
        if self.missing_segments or any(not damage.torn for damage in self.damages):
            return "corrupt"
        is_complete = self.final and not self.damages and not self.recording.drops
        return NOT_CHECKED if is_complete else "incomplete"


def assemble(
    sources: Sequence[SegmentInput],
    journal: bytes | JournalContents | None = None,
    *,
    believe_index: bool = True,
    memory: MemoryBudget = NO_LIMIT,
) -> Assembled:
    """Assemble the recording in these files, which come in the order of their numbers. journal: None if there is none.

    believe_index: False to read all headers, from the start of each file.
    memory: the budget for a state or the content of a block.

    Raises NoTapeError if none of them is a segment, UnsupportedVersionError for a newer format.
    """
    journal_file = journal_contents(journal) if isinstance(journal, bytes) else journal or JournalContents()
    readable, refused = _read_all(sources, believe_index=believe_index)
    if not readable:
        raise NoTapeError(refused[0].what if refused else "there is no file")
    if refused and refused[-1].segment == sources[-1].number:  # A crash happened while the segment was begun.
        refused[-1] = attrs.evolve(refused[-1], torn=True)
    run_id = _run_id(readable)
    own = [file for file in readable if _belongs(file, run_id, alone=len(sources) == 1)] or readable[:1]
    metas = [_first_meta(source, contents) for source, contents in own]
    clips = [_taken_over(own, metas, place) for place in range(len(own))]
    segments = [
        _segment(source, contents if clip is None else _scanned(source, contents), clip, memory)
        for (source, contents), clip in zip(own, clips, strict=True)
    ]
    numbers = {segment.number for segment in segments}
    abandoned = {segment.number for segment in segments if segment.clip is not None}
    described = {segment.number for segment, meta in zip(segments, metas, strict=True) if meta}
    replaced = {n - 1 for n, meta in zip((s.number for s in segments), metas, strict=True) if taken_over_at(meta) == 0}
    damages = _damages_of(segments, _cut_short(own, metas), max(described, default=0))
    damages += [damage for damage in refused if damage.segment not in replaced]
    meta = next(filter(None, metas), {})
    seal = segments[-1].contents.seal
    final = seal is not None and seal.final and segments[-1].number not in abandoned
    oldest = seal.oldest_segment if seal is not None and final else 0
    missing = _missing_numbers(numbers, meta, replaced | {damage.segment for damage in refused}, oldest)
    if len(segments) == 1 and not numbers & {damage.segment - 1 for damage in refused}:
        missing += _missing_around(segments[0], meta, has_journal=journal_file.size_bytes is not None)
    # Of a tape that ended, a power cut may bring the removed journal back, with any content. Its ticks are in the tape.
    own_journal = JournalContents() if final else _own_journal(journal_file, run_id, damages)
    return Assembled(
        recording=Recording(segments, own_journal),
        meta=meta,
        run_id=run_id,
        damages=sorted(damages, key=lambda damage: (damage.segment, damage.offset)),
        missing_segments=missing,
        final=final,
        described=described,
    )


def _damages_of(segments: Sequence[Segment], cut_short: Sequence[Damage], last_described: int) -> list[Damage]:
    """The damages in the files of the recording. last_described: number of the last segment with META."""
    damages = [
        attrs.evolve(damage, segment=segment.number)
        for segment in segments
        for damage in segment.contents.damages
        if segment.clip is None or damage.offset < segment.clip
    ]
    damages += cut_short
    damaged = {damage.segment for damage in damages}
    damages += [damage for damage in broken_links(segments) if damage.segment not in damaged]
    # Where a segment follows, this one was durable. One without META may have taken over after a failed sync.
    return [attrs.evolve(one, torn=one.torn and one.segment >= last_described) for one in damages]


def _read_all(
    sources: Sequence[SegmentInput], *, believe_index: bool
) -> tuple[list[tuple[SegmentInput, Contents]], list[Damage]]:
    """The contents of each readable file, and a damage for each file without an intact block."""
    readable: list[tuple[SegmentInput, Contents]] = []
    refused: list[Damage] = []
    for source in sources:
        try:
            if believe_index:
                contents = read_contents(source.read, source.size_bytes, source.progress)
            else:
                contents = scan_contents(source.read, source.size_bytes)
        except NoTapeError as error:
            refused.append(Damage(0, source.size_bytes, str(error), torn=False, segment=source.number))
        else:
            readable.append((source, contents))
    return readable, refused


def _segment(
    source: SegmentInput, contents: Contents, clip: int | None = None, memory: MemoryBudget = NO_LIMIT
) -> Segment:
    return Segment(source.number, source.read, contents, clip, memory, source.window_bytes)


def _scanned(source: SegmentInput, contents: Contents) -> Contents:
    return scan_contents(source.read, source.size_bytes) if contents.by_index else contents


def _run_id(readable: Sequence[tuple[SegmentInput, Contents]]) -> bytes:
    for _, contents in readable:
        if contents.header is not None:
            return contents.header.run_id
        if contents.seal is not None and contents.seal.run_id:
            return contents.seal.run_id
    return b""


def _belongs(file: tuple[SegmentInput, Contents], run_id: bytes, *, alone: bool) -> bool:
    """Return True if a file is the segment that its name states; any segment may be opened alone."""
    source, contents = file
    may_be_any = alone and source.number == 0
    if contents.header is not None:
        return contents.header.run_id == run_id and (may_be_any or source.number == contents.header.segment)
    return not run_id or contents.marker == marker_of(run_id, source.number) or may_be_any


def _first_meta(source: SegmentInput, contents: Contents) -> dict[str, Any]:
    """The META at the start of a segment, or its copy in END; empty if both are damaged."""
    copies = [contents.seal.meta] if contents.seal is not None else []
    if not copies or contents.header is None:
        segment = _segment(source, contents)
        try:
            for part in segment.parts[:1]:
                loaded = part.load()
                row = next((n for n, kind in enumerate(loaded.columns["kind"]) if kind == BlockKind.META), None)
                if row is not None:
                    copies.append(segment.joined(loaded.entry(row), loaded.end_of(row)))
        except (CorruptError, TornError):
            pass  # The copy in END, or that of a different segment, may be intact.
    return next((meta for copy in copies if (meta := decode_meta(copy)) is not None), {})


def decode_meta(payload: bytes) -> dict[str, Any] | None:
    """Decode a META payload; None if its values do not have the types that readers expect."""
    if len(payload) > META_BYTES_MAX + META_EXTRA_BYTES:
        return None
    try:
        plain = decode_plain(payload)
        # A copy of META has the same limits of size and nesting.
        if len(encode_plain(plain)) > META_BYTES_MAX + META_EXTRA_BYTES:
            return None
    except ValueError:
        return None
    match plain:
        case {"world": None | {"name": str(), "version": int(), "config": dict()}}:
            is_valid = all(isinstance(plain.get(key, expected()), expected) for key, expected in _META_TYPES)
            return dict(plain) if is_valid else None
    return None


_META_TYPES = (
    ("simulation", str),
    ("mode", str),
    ("hash", str),
    ("random", str),
    ("settings", dict),
    ("notes", dict),
    ("environment", dict),
    ("outside", dict),
    ("created", str),
)


def taken_over_at(meta: dict[str, Any]) -> int | None:
    """The offset in the segment before from which on this segment took over; None if it did not."""
    match meta.get("segment"):
        case {"number": int(), "after": int(after)} if after >= 0:
            return after
    return None


def _taken_over(
    own: Sequence[tuple[SegmentInput, Contents]], metas: Sequence[dict[str, Any]], place: int
) -> int | None:
    """The offset up to which a segment is valid; None unless the next one took over before its end."""
    source, contents = own[place]
    if place + 1 < len(own) and own[place + 1][0].number == source.number + 1:
        after = taken_over_at(metas[place + 1])
        if after is not None and after < contents.size_bytes:
            return after
    return None


def _cut_short(own: Sequence[tuple[SegmentInput, Contents]], metas: Sequence[dict[str, Any]]) -> list[Damage]:
    """Damages for segments that end before the offset at which the next segment continues."""
    damages = []
    for (source, contents), (following, _), meta in zip(own, own[1:], metas[1:], strict=False):
        after = taken_over_at(meta)
        if following.number == source.number + 1 and after is not None and after > contents.size_bytes:
            what = f"the file ends here, but segment {following.number} continues after byte {after}"
            damages.append(Damage(contents.size_bytes, after, what, torn=False, segment=source.number))
    return damages


def broken_links(segments: Sequence[Segment]) -> list[Damage]:
    """Damages for segments that lost their seal, or whose digest differs from the one in the next segment's seal."""
    damages = []
    for segment, following in pairwise(segments):
        next_seal, own_seal = following.contents.seal, segment.contents.seal
        if following.number != segment.number + 1 or following.clip is not None:
            continue
        if next_seal is None or not next_seal.previous_digest:
            continue
        if own_seal is None and segment.clip is None:
            what = f"the seal is missing: segment {following.number} was begun after a sealed one"
        elif own_seal is None or segment.clip is not None or own_seal.digest != next_seal.previous_digest:
            what = f"this file is not the one that was recorded before segment {following.number}"
        else:
            continue
        end_offset = segment.contents.size_bytes
        damages.append(Damage(end_offset, end_offset, what, torn=False, segment=segment.number))
    return damages


def _missing_around(alone: Segment, meta: dict[str, Any], *, has_journal: bool) -> list[int]:
    """The numbers of missing segments if only the file with the tape's own name exists.

    These are the segments before it, and the second one if this is the first and its seal states that the tape
    continues. A writer that was killed at that moment would have left its journal, if it kept one. A ring has no journal
    yet when it begins its second file.
    """
    if alone.number:
        return []
    header, seal = alone.contents.header, alone.contents.seal
    own = header.segment if header is not None else seal.segment if seal is not None else 0
    match meta.get("settings"):
        case {"keep_ticks": keep_ticks, "keep_s": keep_s, "durability": durability}:
            is_ring, keeps_journal = keep_ticks is not None or keep_s is not None, durability == "tick"
        case _:
            is_ring, keeps_journal = False, False
    if own:
        return [0] if is_ring else list(range(min(own, _MISSING_NAMED_MAX)))
    continues = seal is not None and not seal.final
    return [1] if continues and keeps_journal and not is_ring and not has_journal else []


def _missing_numbers(numbers: set[int], meta: dict[str, Any], explained: set[int], oldest: int) -> list[int]:
    """The numbers of missing segments. A ring has deleted its oldest ones, except for the first.

    oldest: the lowest number above 0 when a ring was sealed; 0 if unknown.
    """
    last = max(numbers)
    first = 0
    match meta.get("settings"):
        case {"keep_ticks": keep_ticks, "keep_s": keep_s} if keep_ticks is not None or keep_s is not None:
            first = min([*(numbers - {0}), oldest or last])
    return [number for number in range(first, last) if number not in numbers and number not in explained]


def _own_journal(journal: JournalContents, run_id: bytes, damages: list[Damage]) -> JournalContents:
    """The journal if it belongs to this run; after a copy of files it may belong to a different one."""
    if journal.size_bytes and journal.problem:
        damages.append(Damage(0, journal.size_bytes, f"journal: {journal.problem}", torn=True, segment=-1))
    return journal if journal.run_id == run_id else JournalContents()
