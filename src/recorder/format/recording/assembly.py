"""Make one recording of the files of a tape: which segments belong together, which blocks count, what is missing.

Sans I/O: the caller has opened the files and gives a way to read each.

Invariants:
    1. Where a segment took over from one that failed, the failed one counts up to the offset that the later META names,
       and damage behind that is none.
    2. Files of another run never count.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs

from recorder.errors import CorruptError, TornError, UnsupportedVersionError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.file_header import marker_of
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.journal_bytes import decode_journal
from recorder.format.limits import META_BYTES_MAX, META_EXTRA_BYTES
from recorder.format.recording.recording import Recording
from recorder.format.segments.contents_by_index import read_contents
from recorder.format.segments.contents_by_scan import scan_contents
from recorder.format.segments.segment_contents import Contents, Damage, NoTapeError, Read
from recorder.format.segments.segment_reader import Segment
from sim.kernel.plain_data import decode_plain, encode_plain

_MISSING_NAMED_MAX = 10_000  # A forged file header may say that millions come before it.


@attrs.frozen
class SegmentInput:
    """A file that may be a segment.

    Attributes:
        number: of the segment, by the file's name.
        read: its bytes.
        size_bytes: how long it is.
    """

    number: int
    read: Read
    size_bytes: int


@attrs.frozen(eq=False)
class Assembled:
    """A tape as its files make it.

    Attributes:
        recording: its frames and states.
        meta: how it was made, see SPEC.md; empty if all copies are damaged.
        run_id: 16 bytes, or empty if it is lost.
        damages: of all segments, by segment and offset.
        missing_segments: numbers that should be there.
        final: whether the last segment is sealed and says that the tape ends there.
        described: the numbers of those segments of which META is known: the others may have been only begun.
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
        """Either "intact" (sealed, whole), "incomplete" (all that is there is good) or "corrupt"."""
        if self.missing_segments or any(not damage.torn for damage in self.damages):
            return "corrupt"
        whole = self.final and not self.damages and not self.recording.drops
        return "intact" if whole else "incomplete"


def assemble(sources: Sequence[SegmentInput], journal: bytes = b"", *, believe_index: bool = True) -> Assembled:
    """The recording in these files, given in the order of their numbers.

    Raises NoTapeError if none of them is a segment, UnsupportedVersionError for a newer format.
    """
    found, refused = _read_all(sources, believe_index=believe_index)
    if not found:
        raise NoTapeError(refused[0].what if refused else "there is no file")
    if refused and refused[-1].segment == sources[-1].number:  # A crash came when it was begun.
        refused[-1] = attrs.evolve(refused[-1], torn=True)
    run_id = _run_id(found)
    own = [one for one in found if _belongs(one, run_id, alone=len(sources) == 1)] or found[:1]
    metas = [_first_meta(source, contents) for source, contents in own]
    clips = [_taken_over(own, metas, place) for place in range(len(own))]
    segments = [
        Segment(source.number, source.read, contents if clip is None else _hopped(source, contents), clip)
        for (source, contents), clip in zip(own, clips, strict=True)
    ]
    damages = [
        attrs.evolve(damage, segment=segment.number)
        for segment in segments
        for damage in segment.contents.damages
        if segment.clip is None or damage.offset < segment.clip
    ]
    damages += _cut_short(own, metas)
    spoiled = {damage.segment for damage in damages}
    damages += [damage for damage in broken_links(segments) if damage.segment not in spoiled]
    numbers = {segment.number for segment in segments}
    abandoned = {segment.number for segment in segments if segment.clip is not None}
    described = {segment.number for segment, meta in zip(segments, metas, strict=True) if meta}
    for place, damage in enumerate(damages):
        # A segment follows: this was made durable. Without its META, that may have taken over from a failed sync.
        if damage.torn and damage.segment < max(described, default=0):
            damages[place] = attrs.evolve(damage, torn=False)
    replaced = {n - 1 for n, meta in zip((s.number for s in segments), metas, strict=True) if _after(meta) == 0}
    damages += [damage for damage in refused if damage.segment not in replaced]
    meta = next((known for known in metas if known), {})
    missing = _missing_numbers(numbers, meta, replaced | {damage.segment for damage in refused})
    if len(segments) == 1 and not numbers & {damage.segment - 1 for damage in refused}:
        missing += _missing_around(segments[0], meta, has_journal=bool(journal))
    seal = segments[-1].contents.seal
    final = seal is not None and seal.final and segments[-1].number not in abandoned
    frames = _journal_frames(journal, run_id, damages)
    return Assembled(
        recording=Recording(segments, frames),
        meta=meta,
        run_id=run_id,
        damages=sorted(damages, key=lambda damage: (damage.segment, damage.offset)),
        missing_segments=missing,
        final=final,
        described=described,
    )


def _read_all(
    sources: Sequence[SegmentInput], *, believe_index: bool
) -> tuple[list[tuple[SegmentInput, Contents]], list[Damage]]:
    """The contents of each file, and a damage for each in which there is no sound block."""
    found: list[tuple[SegmentInput, Contents]] = []
    refused: list[Damage] = []
    for source in sources:
        try:
            if believe_index:
                contents = read_contents(source.read, source.size_bytes)
            else:
                contents = scan_contents(source.read, source.size_bytes)
        except NoTapeError as error:
            refused.append(Damage(0, source.size_bytes, str(error), torn=False, segment=source.number))
        else:
            found.append((source, contents))
    return found, refused


def _hopped(source: SegmentInput, contents: Contents) -> Contents:
    return scan_contents(source.read, source.size_bytes) if contents.by_index else contents


def _run_id(found: Sequence[tuple[SegmentInput, Contents]]) -> bytes:
    for _, contents in found:
        if contents.header is not None:
            return contents.header.run_id
        if contents.seal is not None and contents.seal.run_id:
            return contents.seal.run_id
    return b""


def _belongs(one: tuple[SegmentInput, Contents], run_id: bytes, *, alone: bool) -> bool:
    """Whether a file is what its name says; any segment may be opened alone."""
    source, contents = one
    anything = alone and source.number == 0
    if contents.header is not None:
        return contents.header.run_id == run_id and (anything or source.number == contents.header.segment)
    return not run_id or contents.marker == marker_of(run_id, source.number) or anything


def _first_meta(source: SegmentInput, contents: Contents) -> dict[str, Any]:
    """What the META at the start of a segment says, or its copy in END; empty if both are damaged."""
    copies = [contents.seal.meta] if contents.seal is not None else []
    if not copies or contents.header is None:
        segment = Segment(source.number, source.read, contents)
        try:
            for part in segment.parts[:1]:
                loaded = part.load()
                row = next((n for n, kind in enumerate(loaded.columns["kind"]) if kind == BlockKind.META), None)
                if row is not None:
                    copies.append(segment.joined(loaded.entry(row), loaded.end_of(row)))
        except (CorruptError, TornError):
            pass  # The copy in END, or another segment's, may be sound.
    return next((meta for copy in copies if (meta := decode_meta(copy)) is not None), {})


def decode_meta(payload: bytes) -> dict[str, Any] | None:
    """What META says, or None if it is not what META should be: then it is of no type that readers expect."""
    if len(payload) > META_BYTES_MAX + META_EXTRA_BYTES:
        return None
    try:
        plain = decode_plain(payload)
        if len(encode_plain(plain)) > META_BYTES_MAX + META_EXTRA_BYTES:  # A copy could not hold it, or nest so deeply.
            return None
    except ValueError:
        return None
    match plain:
        case {"world": None | {"name": str(), "version": int(), "config": dict()}}:
            fits = all(isinstance(plain.get(key, expected()), expected) for key, expected in _META_TYPES)
            return dict(plain) if fits else None
    return None


_META_TYPES = (
    ("simulation", str),
    ("mode", str),
    ("hash", str),
    ("random", str),
    ("settings", dict),
    ("notes", dict),
    ("environment", dict),
    ("created", str),
)


def _after(meta: dict[str, Any]) -> int | None:
    """From which offset on a segment takes over from the one before it."""
    match meta.get("segment"):
        case {"number": int(), "after": int(after)} if after >= 0:
            return after
    return None


def _taken_over(
    own: Sequence[tuple[SegmentInput, Contents]], metas: Sequence[dict[str, Any]], place: int
) -> int | None:
    """Up to where a segment counts, if the next one took over before its end."""
    source, contents = own[place]
    if place + 1 < len(own) and own[place + 1][0].number == source.number + 1:
        after = _after(metas[place + 1])
        if after is not None and after < contents.size_bytes:
            return after
    return None


def _cut_short(own: Sequence[tuple[SegmentInput, Contents]], metas: Sequence[dict[str, Any]]) -> list[Damage]:
    """The ends of segments that are missing although the next one goes on behind them."""
    found = []
    for (source, contents), (following, _), meta in zip(own, own[1:], metas[1:], strict=False):
        after = _after(meta)
        if following.number == source.number + 1 and after is not None and after > contents.size_bytes:
            what = f"the file ends here, segment {following.number} goes on behind byte {after}"
            found.append(Damage(contents.size_bytes, after, what, torn=False, segment=source.number))
    return found


def broken_links(segments: Sequence[Segment]) -> list[Damage]:
    """The segments that are not those whose digests the seals behind them name, or have lost their own seal."""
    found = []
    for one, two in pairwise(segments):
        seal, other = two.contents.seal, one.contents.seal
        if two.number != one.number + 1 or two.clip is not None or seal is None or not seal.previous_digest:
            continue
        if other is None and one.clip is None:
            what = f"the seal is gone: segment {two.number} was begun behind a sealed one"
        elif other is None or one.clip is not None or other.digest != seal.previous_digest:
            what = f"this file is not the one that was recorded before segment {two.number}"
        else:
            continue
        end_offset = one.contents.size_bytes
        found.append(Damage(end_offset, end_offset, what, torn=False, segment=one.number))
    return found


def _missing_around(alone: Segment, meta: dict[str, Any], *, has_journal: bool) -> list[int]:
    """Which segments should be there besides the one under the tape's own name, if there is none.

    Those before it; and the second, if it is the first one and says that the tape goes on in another. A writer that was
    killed just then would have left its journal, if it kept one; a ring has none yet when it begins its second file.
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
    goes_on = seal is not None and not seal.final
    return [1] if goes_on and keeps_journal and not is_ring and not has_journal else []


def _missing_numbers(numbers: set[int], meta: dict[str, Any], known: set[int]) -> list[int]:
    """Which segments should be there. A ring has lost its oldest ones, but for the first."""
    last = max(numbers)
    first = 0
    match meta.get("settings"):
        case {"keep_ticks": keep_ticks, "keep_s": keep_s} if keep_ticks is not None or keep_s is not None:
            first = min(numbers - {0}, default=last)
    return [number for number in range(first, last) if number not in numbers and number not in known]


def _journal_frames(journal: bytes, run_id: bytes, damages: list[Damage]) -> list[Frame]:
    """What the journal holds for this run; that of another run, as after a copy of a file, is none of ours."""
    if not journal:
        return []
    try:
        contents = decode_journal(journal)
    except (CorruptError, UnsupportedVersionError) as error:
        what = error.what if isinstance(error, CorruptError) else str(error)
        damages.append(Damage(0, len(journal), f"journal: {what}", torn=True, segment=-1))
        return []
    return contents.frames if contents.run_id == run_id else []
