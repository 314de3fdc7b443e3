"""Wrong figures with corrected checksums: RecordingError, little memory, work in proportion to the file (P13).

Also tapes of later versions of the format (P14).
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import google_crc32c
import lz4.block
import pytest

from recorder import Recorder, RecordingError, UnsupportedVersionError
from recorder.format.blocks.block import (
    HEADER_BYTES,
    TAG,
    BlockHeader,
    BlockKind,
    Codec,
    decode_header,
    encode_header,
    pad,
)
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.limits import BLOCK_RAW_BYTES_MAX
from recorder.format.recording.assembly import SegmentInput, assemble
from recorder.format.segments.contents_by_scan import scan_contents
from recorder.format.segments.seal import encode_trailer
from recorder.format.segments.segment_contents import NoTapeError
from replayer.tape.tape import Tape
from sim.kernel.plain_data import decode_plain, encode_plain

from oracle.exhaust import exhaust
from oracle.second_reader import DELTA, END, FRAMES, FULL, INDEX
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

FEW = (-1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1)
HUGE = (-1, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
MEMORY_BYTES_MAX = 64 << 20  # Twice the size of the longest block; all of these tapes have a few kilobytes.
RUN_ID = bytes(16)


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small sealed tape."""
    path = tmp_path_factory.mktemp("hostile") / "run.tape"
    with Recorder(path, Walkers(), keyframe_interval_ticks=5, deterministic=True, run_id=RUN_ID) as recording:
        for tick in range(1, 21):
            recording.step([[tick % 20, 1]])
    return path.read_bytes()


@pytest.fixture(autouse=True)
def few_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Request some ticks of a tape that claims millions of them."""
    monkeypatch.setattr("oracle.exhaust.TICKS_MAX", 30)


def blocks_of(data: bytes) -> list[tuple[BlockHeader, bytes]]:
    """Header and raw payload of each block."""
    blocks, offset = [], FILE_HEADER_BYTES
    while offset < len(data) - 24:
        header = decode_header(data[offset : offset + HEADER_BYTES], offset)
        stored = data[offset + HEADER_BYTES :][: header.stored_bytes]
        raw = lz4.block.decompress(stored, header.raw_bytes) if header.codec == Codec.LZ4 else stored
        blocks.append((header, raw))
        offset = header.end_offset
    return blocks


def with_payload(data: bytes, which: int, change: Callable[[bytes], bytes], **fields: Any) -> bytes:
    """The tape with a new payload in the last block of a kind, and everything that depends on it corrected."""
    blocks = blocks_of(data)
    place = max(n for n, (header, _) in enumerate(blocks) if header.kind == which)
    parts, offset, end = [data[:FILE_HEADER_BYTES]], FILE_HEADER_BYTES, 0
    for number, (header, raw) in enumerate(blocks):
        new = change(raw) if number == place else raw
        padded = pad(new)
        mended = attrs.evolve(
            header,
            offset=offset,
            codec=Codec.NONE,
            stored_bytes=len(new),
            raw_bytes=len(new),
            payload_crc=google_crc32c.value(padded),
        )
        mended = attrs.evolve(mended, **fields) if number == place else mended
        parts += [encode_header(mended), padded]
        end, offset = offset, offset + HEADER_BYTES + len(padded)
    return b"".join([*parts, encode_trailer(blocks[0][0].marker, end)])


def at_each_figure(plain: Any, figures: tuple[int, ...]) -> list[Any]:
    """Copies of plain data with each integer replaced by each huge figure, and each list by a long one."""
    if isinstance(plain, bool):
        return []
    if isinstance(plain, int):
        return [figure for figure in figures if figure != plain]
    if isinstance(plain, list):
        longer = [plain * 300] if plain else [[0] * 100]
        return longer + [
            [*plain[:n], new, *plain[n + 1 :]] for n, old in enumerate(plain) for new in at_each_figure(old, figures)
        ]
    if isinstance(plain, dict):
        return [plain | {key: new} for key, old in plain.items() for new in at_each_figure(old, figures)]
    return []


def in_head(raw: bytes, plain: Any) -> bytes:
    """A payload with a new head before its columns or sections."""
    (size,) = struct.unpack_from("<I", raw)
    head = encode_plain(plain)
    return struct.pack("<I", len(head)) + head + raw[4 + size :]


def head_of(raw: bytes) -> Any:
    """The plain data at the start of such a payload."""
    (size,) = struct.unpack_from("<I", raw)
    return decode_plain(raw[4 : 4 + size])


def encodable(plain: Any) -> bool:
    """Return True if MessagePack can encode all its integers."""
    try:
        encode_plain(plain)
    except (OverflowError, ValueError):
        return False
    return True


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [END, INDEX, FULL, DELTA])
@pytest.mark.parametrize("figures", [FEW, pytest.param(HUGE, marks=pytest.mark.long)], ids=["few", "all"])
def test_huge_figures_in_payloads(tape: bytes, kind: int, figures: tuple[int, ...]) -> None:
    """Each figure and each list in END, INDEX and heads of keyframes: RecordingError or data, bounded memory."""
    raw = [raw for header, raw in blocks_of(tape) if header.kind == kind][-1]
    heads = at_each_figure(decode_plain(raw) if kind == END else head_of(raw), figures)
    payloads = [encode_plain(head) if kind == END else in_head(raw, head) for head in heads if encodable(head)]
    if kind != END:  # And a head that states a size longer than everything.
        payloads += [struct.pack("<I", size) + raw[4:] for size in (0, 1, len(raw), 1 << 31, (1 << 32) - 1)]
    assert len(payloads) > 2 * len(figures)
    tracemalloc.start()
    try:
        for payload in payloads:
            tracemalloc.reset_peak()
            exhaust([with_payload(tape, kind, lambda _, new=payload: new)])
            assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()


HEADER_FIELDS = {
    "seq": 64,
    "durable_bytes": 64,
    "first_tick": 64,
    "tick_count": 32,
    "stored_bytes": 32,
    "raw_bytes": 32,
    "baseline": 32,
    "kind": 8,
    "codec": 8,
    "flags": 16,
}


ALL_KINDS = (BlockKind.META, BlockKind.FRAMES, BlockKind.FULL, BlockKind.DELTA, BlockKind.INDEX, BlockKind.END)


@pytest.mark.sample(3)
@pytest.mark.parametrize("field", HEADER_FIELDS)
@pytest.mark.parametrize(
    "kinds",
    [(BlockKind.FRAMES, BlockKind.DELTA, BlockKind.END), pytest.param(ALL_KINDS, marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_huge_figures_in_block_headers(tape: bytes, field: str, kinds: tuple[BlockKind, ...]) -> None:
    """In a block of each of these kinds, each field at the values most likely to break something."""
    limit = (1 << HEADER_FIELDS[field]) - 1
    values = {0, 1, limit, limit >> 1, (limit >> 1) + 1, 16384, 16385, BLOCK_RAW_BYTES_MAX, BLOCK_RAW_BYTES_MAX + 1}
    tracemalloc.start()
    try:
        for kind in kinds:
            for value in sorted(value for value in values if value <= limit):
                tracemalloc.reset_peak()
                exhaust([with_payload(tape, kind, lambda raw: raw, **{field: value})])
                assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX, (kind, value)
    finally:
        tracemalloc.stop()


BOMB = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
from recorder import RecordingError
from replayer.tape.tape import Tape
with Tape(sys.argv[1]) as tape:
    problems = tape.check_blocks()
    for tick in range(1, 21):
        try:
            tape.frame(tick)
        except RecordingError as error:
            problems.append(error)
assert problems
"""


@pytest.mark.parametrize("kind", [FRAMES, FULL])
def test_a_bomb_is_not_unpacked(tape: bytes, tmp_path: Path, kind: int) -> None:
    """A payload that would decompress to gigabytes is refused by its stated length, in a process with no room."""
    stored = b"\x1f\x00\x01\x00" + b"\xff" * 30_000 + b"\x00" + b"\x50abcde"  # One literal, repeated 7.6 million times.
    path = tmp_path / "bomb.tape"
    for raw_bytes in (BLOCK_RAW_BYTES_MAX, 100, len(stored)):
        data = with_payload(tape, kind, lambda _: stored, codec=Codec.LZ4, raw_bytes=max(raw_bytes, len(stored)))
        path.write_bytes(data)
        code = BOMB.format(limit=2 << 30)
        subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)


def cost_of_scanning(data: bytes) -> int:
    """The number of bytes that are read to find all blocks."""
    read_bytes = 0

    def read(offset: int, size: int) -> bytes:
        nonlocal read_bytes
        found = data[offset : offset + size]
        read_bytes += len(found)
        return found

    scan_contents(read, len(data))
    return read_bytes


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["tags", "headers", "every other block damaged", "far ends", "zeros"])
def test_work_grows_with_the_file_and_not_with_its_square(tape: bytes, name: str) -> None:
    """Ten times the file costs about ten times the bytes read, for any content."""
    (first, _), *_ = blocks_of(tape)

    def make(count: int) -> bytes:
        parts, offset = [tape[: first.end_offset]], first.end_offset
        for number in range(count):
            header = attrs.evolve(
                first, offset=offset, seq=1 + number, stored_bytes=8, raw_bytes=8, payload_crc=0, kind=0x90
            )
            if name == "far ends":
                header = attrs.evolve(header, stored_bytes=BLOCK_RAW_BYTES_MAX, raw_bytes=BLOCK_RAW_BYTES_MAX)
            block = encode_header(header) + bytes(8)
            if name == "tags":
                block = TAG + TAG + block[8:]
            elif name == "headers" and number % 7:
                block = block[:40] + b"\xff" + block[41:]
            elif (name == "every other block damaged" and number % 2) or name == "zeros":
                block = bytes(len(block))
            parts.append(block)
            offset += len(block)
        return b"".join(parts) + b"\x01"

    small, large = make(3000), make(30_000)
    assert len(large) > 9 * len(small)
    assert cost_of_scanning(large) <= 12 * cost_of_scanning(small)


# --- later versions


def with_file_header(data: bytes, offset: int, layout: str, value: int) -> bytes:
    """The tape with a changed value in its file header, and the checksum corrected."""
    head = bytearray(data[:60])
    struct.pack_into(layout, head, offset, value)
    return bytes(head) + struct.pack("<I", google_crc32c.value(bytes(head))) + data[64:]


def test_a_later_minor_version_and_compatible_flags_are_read(tape: bytes, tmp_path: Path) -> None:
    """Such a tape is intact, and all of it is read."""
    path = tmp_path / "run.tape"
    for data in (with_file_header(tape, 10, "<H", 9), with_file_header(tape, 20, "<I", 0xFFFFFFFF)):
        path.write_bytes(data)
        with Tape(path) as read:
            assert (read.last_tick, read.check_blocks(), read.status) == (20, [], "intact")


def test_another_major_version_and_incompatible_flags_are_refused(tape: bytes, tmp_path: Path) -> None:
    """The error states what the tape needs, even if the tape may be damaged, too."""
    path = tmp_path / "run.tape"
    for offset, layout, value in ((8, "<H", 1), (8, "<H", 0xFFFF), (16, "<I", 4), (16, "<I", 1 << 31)):
        for cut in (len(tape), 1000, FILE_HEADER_BYTES):
            path.write_bytes(with_file_header(tape, offset, layout, value)[:cut])
            with pytest.raises(UnsupportedVersionError):
                Tape(path)


@pytest.mark.parametrize("sealed", [True, False])
def test_kinds_of_a_later_version(tape: bytes, tmp_path: Path, sealed: bool) -> None:  # noqa: FBT001
    """Optional kinds are skipped; other unknown kinds are listed, and frames and states are refused."""
    path = tmp_path / "run.tape"
    blocks = blocks_of(tape)
    frames = next(header for header, _ in blocks if header.kind == FRAMES)
    for kind in (0x7F, 0x07, 0x84, 0xFF):
        data = with_payload(tape, FRAMES, lambda raw: raw, kind=kind)
        if not sealed:
            data = data[: data.rindex(TAG)]
        path.write_bytes(data)
        with Tape(path) as read:
            read.distrust_index()
            assert kind in {entry.kind for segment in read.segments for entry in segment.contents.entries}
            if kind & 0x80:
                assert read.frame(frames.first_tick).tick == frames.first_tick
                assert read.snapshot(read.keyframes[0])["x"].tolist() == [0] * 20
            else:
                with pytest.raises(UnsupportedVersionError, match=rf"blocks of kind \[{kind}\]"):
                    read.frame(frames.first_tick)
                with pytest.raises(UnsupportedVersionError):
                    read.snapshot(read.keyframes[0])


def test_random_bytes_are_no_tape() -> None:
    """Only NoTapeError is raised for them."""
    import random

    chance = random.Random(1)
    for size in (0, 1, 63, 64, 100, 5000):
        data = chance.randbytes(size)
        with pytest.raises((NoTapeError, RecordingError)):
            assemble([SegmentInput(0, lambda offset, count, data=data: data[offset : offset + count], size)])
