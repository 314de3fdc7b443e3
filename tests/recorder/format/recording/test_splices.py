"""Complete blocks are moved, removed, copied or replaced, with corrected checksums: the seal reveals it (promise P16).

Only the seal's own digest is not corrected: it is not a signature, and anyone who can write the tape can write a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import google_crc32c
import pytest

from recorder import Recorder
from recorder.format.blocks.block import HEADER_BYTES, BlockHeader, decode_header, encode_header
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.blocks.file_header import decode_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.segments.seal import encode_trailer
from recorder.storage.file_names import segment_numbers, segment_path
from replayer.tape.tape import Tape
from replayer.timeline.verify import check_seal, verify_tape

from oracle.second_reader import END, FRAMES, INDEX
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

TICKS = 24
Blocks = list[tuple[BlockHeader, bytes]]  # Headers and padded bytes.


def record(path: Path, push: int = 1, **settings: Any) -> Path:
    """Record a sealed tape of many blocks."""
    usual: dict[str, Any] = {"keyframe_interval_ticks": 3, "full_every": 3, "deterministic": True, "run_id": bytes(16)}
    with Recorder(path, Walkers(), **usual | settings) as tape:
        for tick in range(1, TICKS + 1):
            tape.step([[tick % 20, push]])
    return path


def take_apart(data: bytes) -> Blocks:
    """Split a segment into its blocks."""
    blocks, offset = [], FILE_HEADER_BYTES
    while offset < len(data) - 24:
        header = decode_header(data[offset : offset + HEADER_BYTES], offset)
        blocks.append((header, data[offset + HEADER_BYTES : header.end_offset]))
        offset = header.end_offset
    return blocks


def put_together(head: bytes, blocks: Blocks, *, renumber: bool = True) -> bytes:
    """Join blocks to a segment with right markers, offsets, numbers and checksums."""
    file_header = decode_file_header(head)
    parts, offset = [head[:FILE_HEADER_BYTES]], FILE_HEADER_BYTES
    for seq, (header, padded) in enumerate(blocks, start=file_header.first_seq):
        mended = attrs.evolve(
            header,
            marker=file_header.marker,
            offset=offset,
            seq=seq if renumber else header.seq,
            payload_crc=google_crc32c.value(padded),
        )
        parts += [encode_header(mended), padded]
        offset = mended.end_offset
    end = offset - HEADER_BYTES - len(blocks[-1][1])
    return b"".join([*parts, encode_trailer(file_header.marker, end)])


def without(blocks: Blocks, place: int) -> Blocks:
    """Remove a block."""
    return blocks[:place] + blocks[place + 1 :]


def twice(blocks: Blocks, place: int) -> Blocks:
    """Repeat a block."""
    return blocks[: place + 1] + blocks[place:]


def swapped(blocks: Blocks, place: int) -> Blocks:
    """Swap a block with the next one."""
    return [*blocks[:place], blocks[place + 1], blocks[place], *blocks[place + 2 :]]


def moved_to_front(blocks: Blocks, place: int) -> Blocks:
    """Move a block directly after META."""
    return [blocks[0], blocks[place], *blocks[1:place], *blocks[place + 1 :]]


def relabelled(blocks: Blocks, place: int) -> Blocks:
    """Change the tick of a block."""
    header, padded = blocks[place]
    return [*blocks[:place], (attrs.evolve(header, first_tick=header.first_tick + 1), padded), *blocks[place + 1 :]]


def is_found_out(path: Path) -> bool:
    """Return True if the seal, as ``replay verify`` reads it, or a missing or damaged block reveals the change."""
    with Tape(path) as tape:
        return bool(check_seal(tape) or tape.check_blocks()) or tape.status != "intact"


@pytest.mark.parametrize("change", [without, twice, swapped, moved_to_front, relabelled], ids=lambda f: f.__name__)
@pytest.mark.parametrize("renumber", [True, False])
@pytest.mark.parametrize("split", [None, 500])
def test_blocks_moved_about(
    tmp_path: Path,
    change: Callable[[Blocks, int], Blocks],
    renumber: bool,  # noqa: FBT001
    split: int | None,
) -> None:
    """Each block before END in turn, in each file of the tape."""
    path = record(tmp_path / "run.tape", split=split)
    assert not is_found_out(path)
    tried = 0
    for number in segment_numbers(path):
        file = segment_path(path, number)
        data = file.read_bytes()
        blocks = take_apart(data)
        assert put_together(data, blocks) == data
        last = len(blocks) - (2 if change is swapped else 1)
        for place in range(1, last):
            changed = put_together(data, change(blocks, place), renumber=renumber)
            if changed != data:
                file.write_bytes(changed)
                assert is_found_out(path), (number, place)
                tried += 1
        file.write_bytes(data)
    assert tried > 8


@pytest.mark.parametrize("split", [None, 500])
def test_blocks_of_a_forged_run(tmp_path: Path, split: int | None) -> None:
    """A block, or everything except END, from a run with different inputs and the same run id."""
    path = record(tmp_path / "run.tape", split=split)
    folder = tmp_path / "forged"
    folder.mkdir()
    forged = record(folder / "run.tape", push=2, split=split)
    assert segment_numbers(path) == segment_numbers(forged)
    for number in segment_numbers(path):
        file = segment_path(path, number)
        data = file.read_bytes()
        blocks, theirs = take_apart(data), take_apart(segment_path(forged, number).read_bytes())
        for place, block in enumerate(blocks[:-1]):
            for part in (
                [*blocks[:place], theirs[place], *blocks[place + 1 :]],
                [*theirs[:place], *blocks[place:]],
                [*blocks[:place], *theirs[place:-1], blocks[-1]],
            ):
                changed = put_together(data, part)
                if changed != data and theirs[place] != block:
                    file.write_bytes(changed)
                    assert is_found_out(path), (number, place)
        file.write_bytes(data)


@pytest.mark.seldom(0.15)
def test_a_complete_file_of_a_forged_run(tmp_path: Path) -> None:
    """Each file is sealed and intact; the next file's END has the digest of the right one."""
    path = record(tmp_path / "run.tape", split=400)
    folder = tmp_path / "forged"
    folder.mkdir()
    forged = record(folder / "run.tape", push=2, split=400)
    numbers = segment_numbers(path)
    assert len(numbers) > 3
    for number in (0, numbers[len(numbers) // 2], numbers[-1]):
        file = segment_path(path, number)
        data = file.read_bytes()
        file.write_bytes(segment_path(forged, number).read_bytes())
        with Tape(path) as tape:
            problems = [str(problem) for problem in check_seal(tape)]
        assert problems
        assert all("is not the one that was recorded" in problem for problem in problems)
        report = verify_tape(path, Walkers)
        assert (report.ok, report.status) == (False, "corrupt")
        file.write_bytes(data)


def test_files_that_changed_their_order(tmp_path: Path) -> None:
    """The names of renamed files do not match their contents, and are not trusted."""
    path = record(tmp_path / "run.tape", split=400)
    one, two = segment_path(path, 1), segment_path(path, 2)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with Tape(path) as tape:
        assert (tape.status, tape.missing_segments) == ("corrupt", [1, 2])


def test_even_with_a_new_digest_a_changed_run_is_found_by_simulating(tmp_path: Path) -> None:
    """Changed inputs, with new checksums, index and seal: replay names the first tick that differs."""
    from recorder.format.blocks.frame import decode_frames
    from recorder.format.segments.segment_encoder import SegmentEncoder, make_piece
    from sim.kernel.plain_data import encode_plain

    path = record(tmp_path / "run.tape")
    data = path.read_bytes()
    blocks = take_apart(data)
    with Tape(path) as tape:
        payloads = [tape.segments[0].joined(entry, 0) for entry in tape.segments[0].contents.entries]
        kept = [header for header, _ in blocks if header.kind != INDEX]
    encoder = SegmentEncoder(decode_file_header(data), payloads[0])
    parts = [encoder.start()]
    baseline = 0
    for header, payload in zip(kept[1:], payloads[1:], strict=True):
        if header.kind == END:
            break
        if header.kind == FRAMES and header.first_tick <= 11 <= header.final_tick:
            frames = decode_frames(header, payload)
            payload = b"".join(  # noqa: PLW2901 - the forged one
                encode_frame(
                    frame.tick, frame.state_hash, encode_plain([[3, 5]]) if frame.tick == 11 else frame.encoded_inputs
                )
                for frame in frames
            )
        piece = make_piece(header.kind, payload, header.first_tick, tick_count=header.tick_count, flags=header.flags)
        block = encoder.place(piece)
        placed = decode_header(block, encoder.next_offset - len(block))
        if header.baseline:
            mended = attrs.evolve(placed, baseline=placed.seq - baseline)
            encoder._digest = _again(parts, mended)
            encoder._entries[-1] = attrs.evolve(encoder._entries[-1], baseline=mended.baseline)
            block = encode_header(mended) + block[HEADER_BYTES:]
        elif header.kind == 3:
            baseline = placed.seq
        parts.append(block)
    path.write_bytes(b"".join([*parts, encoder.last_index(), encoder.end(None, final=True)]))
    assert not is_found_out(path)
    report = verify_tape(path, Walkers)
    assert report.first_bad == 11


def _again(parts: list[bytes], header: BlockHeader) -> Any:
    """The digest over the headers so far and one more."""
    import hashlib

    digest = hashlib.blake2b(digest_size=32)
    data = b"".join(parts)
    offset = FILE_HEADER_BYTES
    while offset < len(data):
        found = decode_header(data[offset : offset + HEADER_BYTES], offset)
        digest.update(data[offset : offset + HEADER_BYTES])
        offset = found.end_offset
    digest.update(encode_header(header))
    return digest
