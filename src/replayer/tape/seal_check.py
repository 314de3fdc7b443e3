"""Compare the seals of a tape's files with the blocks in the files, and with each other."""

from __future__ import annotations

from collections.abc import Container, Sequence

from recorder.errors import CorruptError, RecordingError, TornError
from recorder.format.blocks.block import encode_header
from recorder.format.recording.assembly import broken_links
from recorder.format.segments.index import TICKING_KINDS
from recorder.format.segments.seal import DIGEST_BYTES, Seal
from recorder.format.segments.segment_contents import hop
from recorder.format.segments.segment_reader import Segment


def check_seals(segments: Sequence[Segment], skip: Container[int] = ()) -> list[RecordingError]:
    """Check digests and counts in END of each file, and the digest of the previous file; returns the problems.

    skip: numbers of files that are not checked.
    """
    links = (damage for damage in broken_links(segments) if damage.segment not in skip)
    problems: list[RecordingError] = [damage.as_error() for damage in links]
    for segment in segments:
        if segment.number in skip:
            continue
        if segment.clip is None and segment.contents.seal is not None and segment.contents.header is not None:
            problems += _check_segment(segment, segment.contents.seal)
    return problems


def _check_segment(segment: Segment, seal: Seal) -> list[RecordingError]:
    contents = segment.contents
    import hashlib  # noqa: PLC0415 - it loads OpenSSL

    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    first_tick, last_tick, count = None, 0, 0
    header = None
    try:
        start = contents.header.size_bytes if contents.header is not None else 0
        for following in hop(segment.read, start, contents.good_end, contents.marker):
            if header is not None:
                digest.update(encode_header(header))
                count += 1
                if header.kind in TICKING_KINDS:
                    first_tick = header.first_tick if first_tick is None else first_tick
                    last_tick = max(last_tick, header.final_tick)
            header = following
    except CorruptError as error:
        return [error.inside(segment.number)]
    except TornError as error:
        return [error]
    offset = header.offset if header is not None else 0
    ticks_fit = first_tick is None or (first_tick, last_tick) == (seal.first_tick, seal.last_tick)
    if digest.digest() != seal.digest or count != seal.block_count or not ticks_fit:
        what = "the seal does not fit the blocks: some were changed, added, removed or moved"
        return [CorruptError(offset, what, "END", segment=segment.number)]
    return []
