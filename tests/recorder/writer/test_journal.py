"""The tick journal: frames of any size against a list as oracle, growth, reuse of areas; kills during writes (P10)."""

from __future__ import annotations

import struct
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recorder.writer.journal
from recorder.errors import CorruptError, UnsupportedVersionError
from recorder.format.blocks.frame import encode_frame
from recorder.format.journal_bytes import AREA_BYTES_MAX, AREA_HEADER, HEADER_BYTES, decode_journal
from recorder.storage.file_interfaces import Buffer
from recorder.writer.journal import Journal
from sim.kernel.plain_data import encode_plain

from oracle.fake_files import FailingFiles, MemoryFiles
from oracle.second_reader import read_journal

RUN_ID = bytes(range(16))
AREA = 256


class FakeWriter:
    """The part of a writer that a journal uses; the test sets the written tick."""

    def __init__(self) -> None:
        self.written_tick = 0
        self.failing = False
        self.loses_frames = False
        self.told: list[str] = []
        self.on_wait: Any = None

    def wake(self) -> None:
        """See Writer."""

    def notify(self, notice: str) -> None:
        """See Writer."""
        self.told.append(notice)

    def wait_until(self, condition: Any) -> None:
        """See Writer; the test's action happens meanwhile."""
        assert self.on_wait is not None, "nothing should wait here"
        while not condition():
            self.on_wait()


def make_journal(monkeypatch: pytest.MonkeyPatch, files: MemoryFiles | None = None) -> tuple[Any, FakeWriter, Journal]:
    """A journal with areas of 256 bytes, its files and its writer."""
    monkeypatch.setattr(recorder.writer.journal, "AREA_BYTES", AREA)
    files, writer = files or MemoryFiles(), FakeWriter()
    return files, writer, Journal(files, RUN_ID, writer)  # type: ignore[arg-type]


def frame_of(tick: int, size: int) -> bytes:
    """A frame with inputs of about this many bytes."""
    return encode_frame(tick, tick * 7919, encode_plain(bytes(tick % 256 for _ in range(size))))


def found_in(files: MemoryFiles) -> dict[int, bytes]:
    """The frames in the journal by both readers, which must agree, in the order of the puts."""
    assert files.journal is not None
    data = bytes(files.journal)
    frames = {
        frame.tick: encode_frame(frame.tick, frame.state_hash, frame.encoded_inputs)
        for frame in decode_journal(data).frames
    }
    assert {
        tick: encode_frame(tick, state_hash, encode_plain(inputs))
        for tick, state_hash, inputs in read_journal(data, RUN_ID).values()
    } == frames
    return frames


@given(
    st.lists(st.tuples(st.integers(0, 90) | st.integers(0, 900), st.integers(0, 12)), max_size=60),
    st.sampled_from([512, 4096, 1 << 20]),
)
@pytest.mark.seldom(0.15)
def test_whatever_is_not_in_the_tape_is_in_the_journal(steps: list[tuple[int, int]], area_bytes_max: int) -> None:
    """After every put, each frame that the writer has not written is there, unchanged."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(recorder.writer.journal, "SLOW_AREA_BYTES_MAX", area_bytes_max)
        files, writer, journal = make_journal(monkeypatch)
        put: dict[int, bytes] = {}

        def write_one_more() -> None:
            writer.written_tick = min(writer.written_tick + 1, len(put))

        writer.on_wait = write_one_more
        for tick, (size, written) in enumerate(steps, start=1):
            frame = frame_of(tick, size)
            journal.put(tick, frame)
            put[tick] = frame
            found = found_in(files)
            assert found.items() <= put.items()
            assert found.keys() >= set(range(writer.written_tick + 1, tick + 1))
            writer.written_tick = min(tick, writer.written_tick + written)
        journal.close()
        assert files.journal is None
        assert writer.told == []


def test_the_areas_are_used_in_turn_while_the_writer_keeps_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of frames, and the journal is made once."""
    files, writer, journal = make_journal(monkeypatch)
    for tick in range(1, 3000):
        journal.put(tick, frame_of(tick, tick % 50))
        writer.written_tick = tick - 1
    assert files.calls.count("map_journal") == 1
    assert files.journal is not None
    assert len(files.journal) == HEADER_BYTES + 2 * AREA


@pytest.mark.parametrize("size", [1, 500, 5000])
def test_every_moment_of_growing_holds_all_frames(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A journal is complete when it replaces a smaller one; until then the old one is unchanged."""
    seen: list[set[int]] = []

    class Looking(MemoryFiles):
        def map_journal(self, length: int, fill: Any) -> bytearray:
            def filling(memory: Buffer) -> None:
                seen.append(set(found_in(self)) if self.journal is not None else set())
                fill(memory)
                seen.append(set(found_in(self)) if self.journal is not None else set())

            memory = super().map_journal(length, filling)
            seen.append(set(found_in(self)))
            return memory

    files, _, journal = make_journal(monkeypatch, Looking())
    for tick in range(1, 12):
        seen.clear()
        journal.put(tick, frame_of(tick, 40))
        assert all(ticks == set(range(1, tick)) for ticks in seen)
    seen.clear()
    journal.put(12, frame_of(12, size))
    assert all(ticks == set(range(1, 12)) for ticks in seen)
    assert set(found_in(files)) == set(range(1, 13))
    assert files.calls.count("map_journal") >= 2


class Torn(bytearray):
    """The memory of a journal that keeps a copy after each store, as a kill at that moment would leave it."""

    def __init__(self, size: int, moments: list[bytes]) -> None:
        super().__init__(size)
        self.moments = moments

    def __setitem__(self, place: Any, value: Any) -> None:
        """Store in two halves, as an interrupted copy."""
        if isinstance(place, slice) and len(value) > 1:
            start, half = place.start or 0, len(value) // 2
            super().__setitem__(slice(start, start + half), value[:half])
            self.moments.append(bytes(self))
        super().__setitem__(place, value)
        self.moments.append(bytes(self))


def test_a_kill_between_any_two_stores_keeps_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """During a put, with a record half stored or an area half begun, all frames before it are there."""
    moments: list[bytes] = []

    class TornFiles(MemoryFiles):
        def map_journal(self, size: int, fill: Any) -> bytearray:
            memory = Torn(size, moments)
            fill(memory)
            moments.clear()  # No reader sees it before it is complete.
            self.journal = memory
            return memory

    _, writer, journal = make_journal(monkeypatch, TornFiles())
    original = struct.Struct("<I").pack_into

    def pack(memory: Any, place: int, value: int) -> None:
        original(memory, place, value)
        moments.append(bytes(memory))

    def packed_in_two(memory: Any, place: int, checksum: int, frame: bytes) -> None:
        """As an interrupted store of the checksum and the frame."""
        memory[place : place + 4 + len(frame)] = struct.pack("<I", checksum) + frame

    monkeypatch.setattr(recorder.writer.journal, "_pack_u32", pack)
    monkeypatch.setattr(recorder.writer.journal, "_pack_records", [packed_in_two] * 60)
    monkeypatch.setattr(recorder.writer.journal, "_SMALL_BYTES", 60)  # Larger frames have their checksum apart.
    put: dict[int, bytes] = {}
    for tick in range(1, 200):
        moments.clear()
        put[tick] = frame_of(tick, tick * 37 % 70)
        journal.put(tick, put[tick])
        assert len(moments) >= 3
        for moment in moments:
            frames = {frame.tick: frame for frame in decode_journal(moment).frames}
            assert frames.keys() >= set(range(writer.written_tick + 1, tick))
            for found, frame in frames.items():
                assert encode_frame(found, frame.state_hash, frame.encoded_inputs) == put[found]
        if tick % 3 == 0:
            writer.written_tick = tick - tick % 5
    assert journal._generation > 20  # Areas were reused many times.


def test_the_simulation_waits_when_the_areas_may_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both areas full, at their maximum, and a slow disk, put waits until the older area is free."""
    monkeypatch.setattr(recorder.writer.journal, "SLOW_AREA_BYTES_MAX", AREA)
    files, writer, journal = make_journal(monkeypatch)
    waits: list[int] = []

    def wait() -> None:
        waits.append(writer.written_tick)
        writer.written_tick += 1

    writer.on_wait = wait
    for tick in range(1, 100):
        journal.put(tick, frame_of(tick, 20))
        assert set(found_in(files)) >= set(range(writer.written_tick + 1, tick + 1))
    assert len(waits) > 50
    assert files.calls.count("map_journal") == 1


def test_a_frame_larger_than_an_area_makes_larger_areas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame of any size is in the journal, also beyond the size to which slow disks let areas grow."""
    monkeypatch.setattr(recorder.writer.journal, "SLOW_AREA_BYTES_MAX", AREA)
    files, writer, journal = make_journal(monkeypatch)
    sizes = [10, AREA, 10, 5 * AREA, 10, 70_000]
    for tick, size in enumerate(sizes, start=1):
        journal.put(tick, frame_of(tick, size))
        assert found_in(files).keys() >= set(range(1, tick + 1))
    assert writer.told == []


@pytest.mark.parametrize("size", [40, 3 * AREA])
def test_without_room_for_a_larger_journal_one_notice_is_given(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Frames are not journalled; its content stays; once the writer has caught up it is used again."""
    files, writer, journal = make_journal(monkeypatch, FailingFiles(2, "map_journal", forever=True))
    for tick in range(1, 30):
        journal.put(tick, frame_of(tick, size))
    kept = set(found_in(files))
    assert kept == set(range(1, len(kept) + 1))
    (notice,) = writer.told
    assert "ENOSPC" in notice
    assert "kill -9 may lose ticks" in notice
    writer.written_tick = 29
    for tick in range(30, 33):
        journal.put(tick, frame_of(tick, 40))
        assert tick in found_in(files)
    assert len(writer.told) == 1


def test_without_memory_for_a_larger_journal_the_step_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the disk refuses it: one notice, and the journal's content stays."""
    files, writer, journal = make_journal(monkeypatch)

    def refuse(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(files, "map_journal", refuse)
    for tick in range(1, 30):
        journal.put(tick, frame_of(tick, 40))
    kept = set(found_in(files))
    assert kept == set(range(1, len(kept) + 1))
    (notice,) = writer.told
    assert "the journal cannot be used (memory ran out)" in notice


def test_while_the_disk_refuses_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full journal and a refusing disk, put returns at once, and this is reported once."""
    monkeypatch.setattr(recorder.writer.journal, "SLOW_AREA_BYTES_MAX", AREA)
    files, writer, journal = make_journal(monkeypatch)
    writer.failing = True
    for tick in range(1, 100):
        journal.put(tick, frame_of(tick, 40))
    kept = set(found_in(files))
    assert kept == set(range(1, len(kept) + 1))
    (notice,) = writer.told
    assert "the disk refuses" in notice


# --- hostile and damaged journals


def intact_journal(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A journal with frames in both areas."""
    files, writer, journal = make_journal(monkeypatch)
    for tick in range(1, 9):
        journal.put(tick, frame_of(tick, 20))
        writer.written_tick = max(0, tick - 4)
    assert files.calls.count("map_journal") == 1
    return bytes(files.journal)


def test_every_flipped_bit_and_every_cut_of_a_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most frames are lost: none differs from the one that was put, and only CorruptError is raised."""
    data = intact_journal(monkeypatch)
    truth = {frame.tick: frame for frame in decode_journal(data).frames}
    assert len(truth) > 5
    flipped = [bytes([data[bit // 8] ^ 1 << bit % 8]) for bit in range(8 * len(data))]
    changed = [data[: bit // 8] + byte + data[bit // 8 + 1 :] for bit, byte in enumerate(flipped)]
    changed += [data[:size] for size in range(len(data))]
    refused = 0
    for journal in changed:
        try:
            frames = {frame.tick: frame for frame in decode_journal(journal).frames}
        except (CorruptError, UnsupportedVersionError):
            refused += 1
            continue
        assert frames.items() <= truth.items()
    assert refused == 64 * 8 + 64  # Its header, complete.


def mended(data: bytes, **fields: Any) -> bytes:
    """A journal with changed figures in its header and a right checksum."""
    magic, major, minor, zeros, area_bytes, run_id = struct.unpack_from("<8sHHIQ16s", data)
    head = struct.pack(
        "<8sHHIQ16s20x",
        magic,
        fields.get("major", major),
        fields.get("minor", minor),
        zeros,
        fields.get("area_bytes", area_bytes),
        run_id,
    )
    return head + struct.pack("<I", google_crc32c.value(head)) + data[HEADER_BYTES:]


def test_hostile_figures_in_a_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Areas of impossible sizes are refused, records past their area end it, a different major is unsupported."""
    data = intact_journal(monkeypatch)
    assert decode_journal(mended(data)).frames == decode_journal(data).frames
    assert decode_journal(mended(data, minor=9)).frames == decode_journal(data).frames
    with pytest.raises(UnsupportedVersionError):
        decode_journal(mended(data, major=1))
    for area_bytes in (0, AREA_HEADER.size, AREA_BYTES_MAX + 1, 1 << 63, (1 << 64) - 1):
        with pytest.raises(CorruptError):
            decode_journal(mended(data, area_bytes=area_bytes))
    assert decode_journal(mended(data, area_bytes=AREA_BYTES_MAX)).frames
    for size in (0, 1, AREA, (1 << 31), (1 << 32) - 1):
        lying = bytearray(data)
        struct.pack_into("<I", lying, HEADER_BYTES + AREA_HEADER.size, size)
        assert len(decode_journal(bytes(lying)).frames) < len(decode_journal(data).frames)
