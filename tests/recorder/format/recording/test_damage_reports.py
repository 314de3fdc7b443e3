"""Reports of damage: the offset, the kind of block, and the lost ticks (promise P2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recorder import CorruptError, Recorder
from recorder.format.blocks.block import HEADER_BYTES, Flags
from recorder.format.segments.segment_contents import Damage
from recorder.storage.file_names import segment_numbers, segment_path
from replayer.tape.tape import Tape

from oracle.readings import end_of
from oracle.repair_runs import destroy
from oracle.second_reader import CONTINUATION, DELTA, FRAMES, FULL, INDEX, Reader
from small_worlds import Walkers

NAMES = {1: "META", FRAMES: "FRAMES", FULL: "FULL", DELTA: "DELTA", 5: "END", INDEX: "INDEX"}
TICKS = 40


def make_tape(path: Path, run_id: bytes = bytes(16), **settings: Any) -> list[Any]:
    """Record many blocks of all ordinary kinds; return the blocks as the second reader finds them."""
    usual: dict[str, Any] = {"keyframe_interval_ticks": 7, "full_every": 3, "run_id": run_id}
    with Recorder(path, Walkers(), **usual | settings) as tape:
        for tick in range(1, TICKS + 1):
            tape.step([[tick % 20, tick]])
            if tick % 4 == 0:
                tape.flush()
    return Reader(path.read_bytes()).blocks


def reported(path: Path) -> tuple[list[Damage], list[CorruptError]]:
    """Damages found in headers, and problems found by reading every block."""
    with Tape(path) as tape:
        problems = tape.check_blocks()
        assert all(isinstance(problem, CorruptError) for problem in problems)
        return tape.damages, problems  # type: ignore[return-value]


def ticks_of(block: Any) -> tuple[int, int] | None:
    """The ticks whose frames or states are in a block."""
    if block.kind not in {FRAMES, FULL, DELTA}:
        return None
    return block.first_tick, block.first_tick + max(0, block.tick_count - 1)


def test_damaged_content_is_named_with_kind_and_ticks(tmp_path: Path) -> None:
    """An intact header states offset, kind and ticks."""
    path = tmp_path / "run.tape"
    blocks = make_tape(path)
    data = path.read_bytes()
    for block in blocks[:-1]:
        path.write_bytes(destroy(data, block, "payload"))
        (problem,) = (found for found in reported(path)[1] if found.offset == block.offset)
        assert (problem.kind, problem.ticks) == (NAMES[block.kind], ticks_of(block))
        assert str(problem).startswith(f"corrupt at byte {block.offset}: the checksum of a block's content is wrong (")
        assert NAMES[block.kind] in str(problem)
        if (ticks := ticks_of(block)) is not None:
            named = f"tick {ticks[0]})" if ticks[0] == ticks[1] else f"ticks {ticks[0]} to {ticks[1]})"
            assert str(problem).endswith(named)


@pytest.mark.parametrize("how", ["header", "zeros"])
def test_a_destroyed_header_is_named_with_the_missing_ticks(tmp_path: Path, how: str) -> None:
    """The blocks around it determine the missing frames; if none are missing, the report states that."""
    path = tmp_path / "run.tape"
    blocks = make_tape(path)
    data = path.read_bytes()
    for block in blocks:
        path.write_bytes(destroy(data, block, how))
        damages, problems = reported(path)
        (damage,) = damages
        end_offset = block.offset + HEADER_BYTES + -(-block.stored // 8) * 8
        end_offset = len(data) if block is blocks[-1] else end_offset  # Without END its trailer is not a trailer.
        assert (damage.offset, damage.end_offset, damage.kind) == (block.offset, end_offset, None)
        if block is blocks[-1]:  # END need not have been durable: a power cut may leave the same.
            assert (damage.torn, problems) == (True, [])
            continue
        assert [(found.offset, found.what) for found in problems] == [(damage.offset, damage.what)]
        if block.kind == FRAMES or (block.kind, block.first_tick) == (FULL, 0):
            assert damage.ticks == ticks_of(block)
            assert "missing" in damage.what
        else:
            assert damage.ticks is None
            assert "no ticks are missing" in damage.what


def test_several_destroyed_blocks_in_a_row(tmp_path: Path) -> None:
    """One damage, with the ticks of all destroyed blocks."""
    path = tmp_path / "run.tape"
    blocks = make_tape(path)
    first, *_, last = (block for block in blocks if block.kind == FRAMES and 8 <= block.first_tick <= 25)
    end_offset = last.offset + HEADER_BYTES + -(-last.stored // 8) * 8
    data = path.read_bytes()
    path.write_bytes(data[: first.offset] + bytes(end_offset - first.offset) + data[end_offset:])
    ((damage,), _) = reported(path)
    assert damage.ticks == (first.first_tick, last.first_tick + last.tick_count - 1)


def test_what_is_torn_names_its_ticks_too(tmp_path: Path) -> None:
    """A last block whose content was torn by a power cut has an intact header."""
    path = tmp_path / "run.tape"
    blocks = make_tape(path, sync="block")
    last = [block for block in blocks if block.kind == FRAMES][-1]
    end_offset = last.offset + HEADER_BYTES + -(-last.stored // 8) * 8
    data = path.read_bytes()[:end_offset]
    path.write_bytes(destroy(data, last, "payload"))
    ((damage,), problems) = reported(path)
    assert (damage.offset, damage.torn, damage.kind, damage.ticks) == (last.offset, True, "FRAMES", ticks_of(last))
    assert problems == []


def test_the_pieces_of_a_large_keyframe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any damaged piece damages the keyframe, and the report names it."""
    monkeypatch.setattr("recorder.format.segments.segment_encoder.PIECE_RAW_BYTES", 100)
    path = tmp_path / "run.tape"
    blocks = make_tape(path)
    data = path.read_bytes()
    pieces = [block for block in blocks if block.kind == FULL and block.first_tick == 21]
    assert len(pieces) > 3
    assert [bool(block.flags & CONTINUATION) for block in pieces] == [False] + [True] * (len(pieces) - 1)
    for piece in pieces:
        path.write_bytes(destroy(data, piece, "payload"))
        _, (problem,) = reported(path)
        assert (problem.offset, problem.kind, problem.ticks) == (piece.offset, "FULL", (21, 21))
    end_offset = pieces[1].offset
    path.write_bytes(data[:end_offset])
    ((damage,), _) = reported(path)
    assert (damage.offset, damage.kind, damage.ticks) == (pieces[0].offset, "FULL", (21, 21))
    assert pieces[0].flags & Flags.CONTINUES


def test_the_file_is_named(tmp_path: Path) -> None:
    """An offset refers to one file; for a tape of several files the report names it."""
    path = tmp_path / "run.tape"
    make_tape(path, split=500)
    number = segment_numbers(path)[1]
    file = segment_path(path, number)
    data = file.read_bytes()
    for block in Reader(data).blocks:
        for how in ("payload", "header"):
            file.write_bytes(destroy(data, block, how))
            damages, problems = reported(path)
            assert {damage.segment for damage in damages} <= {number}
            assert {(problem.offset, problem.segment) for problem in problems} == {(block.offset, number)}
            assert f"corrupt at byte {block.offset} of segment {number}: " in str(problems[0])


def test_the_error_survives_a_process_boundary() -> None:
    """Workers send it to their parent process."""
    import pickle  # noqa: TID251 - of our own error, nothing from a tape

    error = CorruptError(7, "wrong", "FRAMES", (1, 2), 3)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.offset, copy.what, copy.kind, copy.ticks, copy.segment) == (7, "wrong", "FRAMES", (1, 2), 3)
    assert str(copy) == "corrupt at byte 7 of segment 3: wrong"


@pytest.mark.parametrize("sealed", [True, False])
def test_the_first_blocks_among_swapped_ones(sealed: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """META, or the first state, changes places with any block: all ticks that are lost are named, and no others.

    The next intact block can be a full keyframe, which is not the first state then.
    """
    path = tmp_path / "run.tape"
    blocks = make_tape(path)
    data = path.read_bytes()
    if not sealed:
        blocks = [block for block in blocks if block.kind in (1, FRAMES, FULL, DELTA)]
        data = data[: end_of(blocks[-1])]
    last_full = max(number for number, block in enumerate(blocks) if block.kind == FULL)
    for first in (0, 1):
        for other in range(first + 1, last_full):
            one, two = blocks[first], blocks[other]
            path.write_bytes(
                data[: one.offset]
                + data[two.offset : end_of(two)]
                + data[end_of(one) : two.offset]
                + data[one.offset : end_of(one)]
                + data[end_of(two) :]
            )
            with Tape(path) as tape:
                tape.check_blocks()
                named = {tick for damage in tape.damages if damage.ticks for tick in ticks_in(damage.ticks)}
                named |= {tick for missing in tape.missing_ticks() for tick in ticks_in(missing)}
                readable = {frame.tick for run in tape.recording.runs(1, TICKS) for frame in run.frames}
                has_start = any(place.tick == 0 for place in tape.keyframes)
            lost = set(range(1, TICKS + 1)) - readable | (set() if has_start else {0})
            assert named == lost, (first, other)


def ticks_in(ticks: tuple[int, int]) -> range:
    """All ticks from the first to the last."""
    return range(ticks[0], ticks[1] + 1)
