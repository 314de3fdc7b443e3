"""The index is a cache: with it a few reads reach any tick; without it, or with a wrong one, results are the same."""

from __future__ import annotations

import struct

import attrs
import google_crc32c
import numpy as np
import pytest

from recorder.errors import CorruptError, MissingTickError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.file_header import make_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.blocks.full_keyframe import gather_changes
from recorder.format.journal_bytes import area_salt, encode_area_header, encode_journal_header
from recorder.format.recording.assembly import SegmentInput, assemble
from recorder.format.recording.recording import Recording
from recorder.format.segments.contents_by_index import read_contents
from recorder.format.segments.segment_contents import Contents
from recorder.format.segments.segment_encoder import SegmentEncoder, delta_pieces, frames_piece, full_pieces
from sim import Field, Schema, State
from sim.kernel.plain_data import encode_plain

from keyframe_payloads import encode_delta, encode_full

KEYFRAME_EVERY = 50
FRAMES_A_BLOCK = 10
FULL_EVERY = 4


def make_tape(monkeypatch: pytest.MonkeyPatch, ticks: int, lie: str = "", *, final: bool = True) -> bytes:
    """A segment with many blocks and INDEX blocks. lie: wrong figures in END about its INDEX blocks.

    final: False for a tape that goes on, in a journal.
    """
    monkeypatch.setattr("recorder.format.segments.segment_encoder.INDEX_BLOCKS", 16)
    state = State(Schema(Field("tick", "i8"), Field("still", "i8", (40,))))
    encoder = SegmentEncoder(make_file_header(bytes(16), 0, 0), encode_plain({"world": None}))
    parts = [encoder.start()]
    baseline = state.snapshot()
    for tick in range(ticks + 1):
        state["tick"][...] = tick
        if tick and tick % FRAMES_A_BLOCK == 0:
            first = tick - FRAMES_A_BLOCK + 1
            payload = b"".join(encode_frame(t, t, encode_plain(t)) for t in range(first, tick + 1))
            parts.append(encoder.place(frames_piece(first, FRAMES_A_BLOCK, payload)) + encoder.index_if_due())
        if tick % (KEYFRAME_EVERY * FULL_EVERY) == 0:
            baseline = state.snapshot()
            pieces, place = full_pieces(tick, encode_full(tick, state.hash(), baseline))
            parts.append(b"".join(map(encoder.place, pieces)) + encoder.index_if_due())
        elif tick % KEYFRAME_EVERY == 0:
            changes = gather_changes(state.arena, state.layout, {"tick": np.array([0])})
            pieces = delta_pieces(tick, encode_delta(tick, state.hash(), changes, baseline), place)
            parts.append(b"".join(map(encoder.place, pieces)) + encoder.index_if_due())
    parts.append(encoder.last_index())
    if lie:
        encoder._parts[:] = [attrs.evolve(part, **{lie: getattr(part, lie) + 7}) for part in encoder._parts]
    return b"".join([*parts, encoder.end({"reason": "test"}, final=final)])


class Counted:
    """A file in memory that counts its reads."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads = 0

    def read(self, offset: int, size: int) -> bytes:
        """Read, and count."""
        self.reads += 1
        return self.data[offset : offset + size]

    def open(self) -> Recording:
        """Open the recording in it."""
        return assemble([SegmentInput(0, self.read, len(self.data))]).recording


def reach(recording: Recording, tick: int) -> None:
    """Read what a seek reads: the nearest keyframe and the frames from there on."""
    place = next(recording.keyframes_at_or_before(tick))
    assert place.tick == tick // KEYFRAME_EVERY * KEYFRAME_EVERY
    assert int(recording.snapshot(place)["tick"]) == place.tick
    for number in range(place.tick + 1, tick + 1):
        frame = recording.frame(number)
        assert (frame.tick, frame.state_hash, frame.inputs) == (number, number, number)


@pytest.mark.parametrize("ticks", [400, 4000, 20_000])
def test_a_seek_takes_few_reads_however_long_the_tape_is(monkeypatch: pytest.MonkeyPatch, ticks: int) -> None:
    """Opening takes at most three reads, a seek at most four more; windows are off, so each block counts once."""
    file = Counted(make_tape(monkeypatch, ticks))
    for tick in (0, 1, 49, 50, ticks // 2 + 3, ticks - 1, ticks):
        file.reads = 0
        recording = file.open()
        assert file.reads <= 3
        assert all(segment.contents.by_index for segment in recording.segments)
        file.reads = 0
        reach(recording, tick)
        assert file.reads <= 4


def everything(recording: Recording, ticks: int) -> list[tuple[int, int]]:
    """All frames and all states."""
    frames = [(frame.tick, frame.inputs) for frame in (recording.frame(tick) for tick in range(1, ticks + 1))]
    places = recording.believing_index(lambda: recording.keyframes)
    return frames + [(place.tick, int(recording.snapshot(place)["tick"])) for place in places]


def test_without_its_index_a_tape_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each INDEX block is destroyed in turn, then all of them at once."""
    data = make_tape(monkeypatch, 400)
    truth = everything(Counted(data).open(), 400)
    contents = read_contents(Counted(data).read, len(data))
    offsets = [part.offset for part in indexes_of(contents)]
    assert len(offsets) > 3
    for destroyed in [*([offset] for offset in offsets), offsets]:
        changed = bytearray(data)
        for offset in destroyed:
            changed[offset + 90] ^= 0x10
        assert everything(Counted(bytes(changed)).open(), 400) == truth


def indexes_of(contents: Contents):  # type: ignore[no-untyped-def]
    """The summaries of the INDEX blocks in END."""
    assert contents.seal is not None
    assert contents.seal.parts is not None
    return contents.seal.parts


@pytest.mark.parametrize("lie", ["offset", "first_tick", "last_tick", "first_seq"])
def test_an_end_that_lies_about_its_indexes_is_found_out(monkeypatch: pytest.MonkeyPatch, lie: str) -> None:
    """With right checksums and wrong figures the results are still the truth, found by a scan."""
    truth = everything(Counted(make_tape(monkeypatch, 400)).open(), 400)
    assert everything(Counted(make_tape(monkeypatch, 400, lie)).open(), 400) == truth


@pytest.mark.parametrize("believe_index", [True, False])
def test_keyframes_are_found_around_every_tick(monkeypatch: pytest.MonkeyPatch, *, believe_index: bool) -> None:
    """The nearest keyframe before it comes first; the first one after it is found, across all parts of the index."""
    data = make_tape(monkeypatch, 1000)
    recording = Counted(data).open() if believe_index else hopped(data)
    ticks = list(range(0, 1001, KEYFRAME_EVERY))
    assert [place.tick for place in recording.keyframes] == ticks
    for tick in [*range(1001), 1001, 5000, 1 << 63]:
        before = [place.tick for place in recording.keyframes_at_or_before(tick)]
        assert before == [one for one in reversed(ticks) if one <= tick]
        following = recording.keyframe_after(tick)
        assert (following.tick if following is not None else None) == next((one for one in ticks if one >= tick), None)
        here = recording.keyframe_at(tick)
        assert (here.tick if here is not None else None) == (tick if tick in ticks else None)


def hopped(data: bytes) -> Recording:
    """The recording, found by a scan."""
    return assemble([SegmentInput(0, Counted(data).read, len(data))], believe_index=False).recording


def test_missing_and_damaged_frames_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first, after the last, the first itself; and inside, where only damage explains a missing frame."""
    data = make_tape(monkeypatch, 100)
    recording = Counted(data).open()
    for tick in (-1, 0, 101, 5000, 1 << 63):
        with pytest.raises(MissingTickError, match="there is no frame of this tick on the tape") as caught:
            recording.frame(tick)
        assert not caught.value.damaged
    entry = next(
        e for e in hopped(data).segments[0].contents.entries if e.kind == BlockKind.FRAMES and e.first_tick == 41
    )
    damaged = bytearray(data)
    damaged[entry.offset + 12] ^= 1
    broken = Counted(bytes(damaged)).open()
    for tick in (40, 51):
        assert broken.frame(tick).tick == tick
    for tick in (41, 50):
        with pytest.raises((MissingTickError, CorruptError)) as damage:
            broken.frame(tick)
        assert isinstance(damage.value, CorruptError) or damage.value.damaged
    found = hopped(bytes(damaged))
    for tick in (41, 50):
        with pytest.raises(MissingTickError, match="the block that held its frame is damaged") as gone:
            found.frame(tick)
        assert gone.value.damaged
    assert found.missing_ticks() == [(41, 50)]


def one_by_one(recording: Recording, first: int, last: int) -> list[object]:
    """The result of frame for each tick: the frame, or None with the error: damaged or missing."""
    found: list[object] = []
    for tick in range(first, last + 1):
        try:
            found.append(recording.frame(tick))
        except (MissingTickError, CorruptError):
            found.append(None)
    return found


@pytest.mark.parametrize("believe_index", [True, False])
@pytest.mark.parametrize("broken", [(), (41,), (1, 61), (91,), (41, 51, 61)])
@pytest.mark.parametrize("journal_ticks", [0, 1, 7])
def test_runs_are_what_frame_gives(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[int, ...], journal_ticks: int, *, believe_index: bool
) -> None:
    """From any tick to any other, over damaged blocks and into the journal; one run per range of equal ticks."""
    data = bytearray(make_tape(monkeypatch, 100, final=not journal_ticks))
    entries = hopped(bytes(data)).segments[0].contents.entries
    for first_tick in broken:
        offset = next(e.offset for e in entries if e.kind == BlockKind.FRAMES and e.first_tick == first_tick)
        data[offset + 75] ^= 1  # In the payload: the header is intact.
    source = SegmentInput(0, Counted(bytes(data)).read, len(data))
    recording = assemble([source], journal_of(range(101, 101 + journal_ticks)), believe_index=believe_index).recording
    assert recording.last_tick == 100 + journal_ticks
    for first, last in (
        (1, 100 + journal_ticks),
        (1, 1),
        (5, 45),
        (40, 41),
        (41, 41),
        (60, 61),
        (95, 120),
        (101, 101),
        (103, 130),
    ):
        runs = list(recording.runs(first, last))
        assert [run.first_tick for run in runs] == [first, *(run.last_tick + 1 for run in runs[:-1])]
        assert runs[-1].last_tick == last
        found: list[object] = []
        for run in runs:
            count = run.last_tick - run.first_tick + 1
            assert (len(run.frames), run.error is None) in {(count, True), (0, False)}
            found += run.frames or [None] * count
        assert found == one_by_one(recording, first, last)
        assert len(runs) <= 3 + (last - first) // FRAMES_A_BLOCK


def journal_of(ticks: range) -> bytes:
    """A journal of the run with id zero that holds frames of these ticks."""
    run_id, area_bytes = bytes(16), 4096
    area = encode_area_header(run_id, 1)
    for tick in ticks:
        encoded = encode_frame(tick, tick, encode_plain(tick))
        crc = google_crc32c.extend(area_salt(run_id, 1), encoded)
        area += struct.pack("<II", len(encoded), crc) + encoded
    return (encode_journal_header(run_id, area_bytes) + area).ljust(64 + 2 * area_bytes, b"\0") if ticks else b""
