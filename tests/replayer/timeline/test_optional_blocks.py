"""Repairs and copies keep blocks of optional kinds that this version does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.format.blocks.block import Flags
from recorder.format.limits import PIECE_RAW_BYTES
from recorder.format.segments.segment_encoder import make_piece
from recorder.storage.tape_copy import copy_run
from replayer import Tape
from replayer.repair.repair import repair_tape

from oracle.hostile_tapes import Still, frames, full, write_tape
from oracle.second_reader import FULL, Reader

LARGE = bytes(range(256)) * (PIECE_RAW_BYTES // 256) + b"and a little more"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A tape with a small and a large one, in one piece each."""
    path = tmp_path / "run.tape"
    optional = [make_piece(0xC0, b"hello", 3), make_piece(0xC1, LARGE, 3), make_piece(0xC0, b"again", 5)]
    write_tape(path, [*full(0), frames(1, 3), *optional[:2], frames(4, 2), *full(5), frames(6, 1), optional[2]])
    return path


@pytest.mark.parametrize("how", ["repair", "copy"])
def test_they_survive_where_they_stood(path: Path, how: str) -> None:
    """The same payloads in the same order among the keyframes; a large one is cut into pieces, as SPEC.md requires."""
    target = path.with_name("new.tape")
    if how == "repair":
        assert repair_tape(path, target, Still).complete
    else:
        copy_run(path, target, {"reason": "tea"})
    blocks = [block for block in Reader(target.read_bytes()).blocks if block.kind & 0x80 and block.kind != 129]
    assert [(b.kind, b.first_tick, b.payload, b.flags) for b in blocks] == [
        (0xC0, 3, b"hello", 0),
        (0xC1, 3, LARGE[:PIECE_RAW_BYTES], Flags.CONTINUES),
        (0xC1, 3, LARGE[PIECE_RAW_BYTES:], Flags.CONTINUATION),
        (0xC0, 5, b"again", 0),
    ]
    last_full = [block for block in Reader(target.read_bytes()).blocks if block.kind == FULL][-1]
    assert blocks[2].offset < last_full.offset < blocks[3].offset
    with Tape(target) as tape:
        assert (tape.last_tick, tape.check_blocks(), tape.status) == (6, [], "intact")


def test_a_damaged_one_is_reported_as_lost(path: Path) -> None:
    """No tick is lost with it, but the copy is not complete."""
    data = bytearray(path.read_bytes())
    block = next(block for block in Reader(bytes(data)).blocks if block.kind == 0xC0)
    data[block.offset + 73] ^= 1
    path.write_bytes(data)
    report = repair_tape(path, path.with_name("new.tape"), Still)
    assert [kind for kind, _ in report.lost_optional] == ["kind 192"]
    assert report.lost_ticks == []
    assert not report.complete
