"""The difference between torn and corrupt, and additions of later versions (promises P5 and P14)."""

from __future__ import annotations

from pathlib import Path

import attrs
import google_crc32c
import pytest

from recorder import UnsupportedVersionError
from recorder.format.blocks.block import HEADER_BYTES, BlockHeader, BlockKind, decode_header, encode_header
from recorder.format.segments.index import entry_of
from replayer.tape.tape import Tape

from oracle.second_reader import Reader
from oracle.small_tapes import block_bytes, make_tape, offsets_found, read_everything, truth_of


def test_unknown_kinds_that_may_be_skipped_hide_nothing(tmp_path: Path) -> None:
    """A block of a later version with the high bit in its kind is listed and skipped."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=False)
    for kind in (
        0x7F,
        0xFF,
        BlockKind.EVENTS,
        BlockKind.AUX,
        BlockKind.DROP,
    ):  # 0x7F is the one that must not be skipped.
        block = BlockHeader(
            marker=data[40:48], seq=99, offset=len(data), durable_bytes=0, first_tick=2, tick_count=0, stored_bytes=8,
            raw_bytes=8, payload_crc=google_crc32c.value(b"whatever"), kind=kind, codec=0, flags=0x8000, baseline=0,
        )  # fmt: skip
        path.write_bytes(data + encode_header(block) + b"whatever")
        with Tape(path) as tape:
            assert tape.segments[0].contents.entries[-1] == entry_of(block)
            if kind == 0x7F:
                with pytest.raises(UnsupportedVersionError, match="blocks of kind \\[127\\]"):
                    tape.frame(1)
                with pytest.raises(UnsupportedVersionError):
                    tape.snapshot(tape.keyframes[0])
                continue
        assert read_everything(path) == (False, "incomplete", truth_of(data))


def test_torn_differs_from_corrupt(tmp_path: Path) -> None:
    """A damaged last payload above the durable watermark is torn, the one before it corrupt."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=False, sync="block")
    *_, before, last = Reader(data).blocks
    assert (before.durable, last.durable) == (before.offset, last.offset)
    path.write_bytes(data[:-8] + bytes([data[-8] ^ 1]) + data[-7:])
    assert read_everything(path)[:2] == (True, "incomplete")
    assert offsets_found(path)[-1] == before.offset

    path.write_bytes(data[: before.offset] + bytes(8) + data[before.offset + 8 :])
    assert read_everything(path)[:2] == (True, "corrupt")


@pytest.mark.parametrize("shift", range(9))
def test_blocks_lie_at_multiples_of_8(tmp_path: Path, shift: int) -> None:
    """After damage, a block with its right offset is accepted only at a multiple of 8."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=False)
    *_, last = Reader(data).blocks
    header = attrs.evolve(decode_header(data[last.offset :][:HEADER_BYTES], last.offset), offset=len(data) + 8 + shift)
    payload = block_bytes(data, last)[HEADER_BYTES:]
    path.write_bytes(data + b"damaged." + b"-" * shift + encode_header(header) + payload)
    assert (offsets_found(path)[-1] == header.offset) == (shift in {0, 8})
