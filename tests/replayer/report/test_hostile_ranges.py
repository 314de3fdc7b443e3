"""Tapes of a few bytes that name very many ticks or ranges: time and memory stay in proportion to the bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recorder.format.blocks.drop_block import Drop
from recorder.format.recording.tick_gaps import drop_at, gap_at, merged, share_out
from recorder.format.segments.segment_encoder import drop_piece
from recorder.storage.tape_copy import copy_run
from replayer import Tape
from replayer.repair.repair import repair_tape
from replayer.report.tape_facts import tape_facts
from replayer.timeline.verify import verify_tape

from oracle.hostile_tapes import Still, frames, full, write_tape
from oracle.second_reader import FRAMES, Reader

FAR = 1 << 40


@pytest.fixture
def gap(tmp_path: Path) -> Path:
    """A tape with frames of six ticks, 2^40 ticks apart."""
    path = tmp_path / "gap.tape"
    write_tape(path, [*full(0), frames(1, 3), frames(FAR, 3), drop_piece(4, FAR - 1, "the disk was full")])
    return path


def test_a_gap_of_many_ticks_is_one_range(gap: Path, tmp_path: Path) -> None:
    """info, verify, repair and copies list the range, not its ticks."""
    with Tape(gap) as tape:
        assert tape_facts(tape)["missing_ticks"] == [[4, FAR - 1]]
    assert verify_tape(gap, Still).dropped_ticks == FAR - 4
    report = repair_tape(gap, tmp_path / "new.tape", Still)
    assert report.lost_ticks == [(4, FAR - 1, "the disk was full")]
    assert copy_run(gap, tmp_path / "copy.tape", {"reason": "tea"}) == (0, FAR + 2)
    for name in ("new.tape", "copy.tape"):
        with Tape(tmp_path / name) as tape:
            assert tape.missing_ticks() == [(4, FAR - 1)]
            assert tape.frame(FAR + 2).tick == FAR + 2


def test_a_gap_of_many_ticks_beside_a_damaged_block(gap: Path) -> None:
    """Readers of every block list ranges, too."""
    data = bytearray(gap.read_bytes())
    block = next(block for block in Reader(bytes(data)).blocks if block.kind == FRAMES)
    data[block.offset + 80] ^= 1
    gap.write_bytes(data)
    with Tape(gap) as tape:
        assert tape_facts(tape)["missing_ticks"] == [[1, FAR - 1]]
    report = repair_tape(gap, gap.with_name("new.tape"), Still)
    assert [lost[:2] for lost in report.lost_ticks] == [(1, FAR - 1)]


def calls(action: Callable[[], Any]) -> int:
    """How many functions are called in Python and C: the same on each machine, unlike the time."""
    count = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("overlapping", [False, True])
def test_the_work_for_drops_is_linear(tmp_path: Path, overlapping: bool) -> None:  # noqa: FBT001
    """Four times as many ranges take about four times as many calls, not sixteen times; also if each covers all ticks."""

    def read(path: Path) -> int:
        with Tape(path) as tape:
            assert tape.status == "incomplete"
            return len(tape.drops)

    taken = []
    for count in (600, 2400):
        path = tmp_path / f"{count}.tape"
        pieces = [*full(0)]
        for tick in range(1, 2 * count, 2):
            drop = (0, FAR) if overlapping else (tick + 1, tick + 1)
            pieces += [frames(tick, 1), drop_piece(*drop, "the disk was full")]
        write_tape(path, pieces)
        assert read(path) == count
        taken.append(calls(lambda path=path: read(path)))
    assert taken[1] < 5 * taken[0]


def test_the_work_for_damages_is_linear(tmp_path: Path) -> None:
    """A repair of a tape with four times as many damaged blocks takes about four times as many calls."""
    taken = []
    for count in (400, 1600):
        path = tmp_path / f"{count}.tape"
        data = bytearray(write_tape(path, [*full(0), *(frames(1 + 2 * n, 2) for n in range(count))]))
        for block in [block for block in Reader(bytes(data)).blocks if block.kind == FRAMES][5::4]:
            data[block.offset + 20] ^= 1
        path.write_bytes(data)

        def repair(path: Path = path) -> None:
            path.with_name("new.tape").unlink(missing_ok=True)
            repair_tape(path, path.with_name("new.tape"), Still)

        taken.append(calls(repair))
    assert taken[1] < 5 * taken[0]


def test_a_damaged_block_does_not_make_each_tick_be_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Info reads the frames of a long tape with one bad bit by blocks, not tick by tick."""
    path = tmp_path / "run.tape"
    data = bytearray(write_tape(path, [*full(0), *(frames(1 + 10 * n, 10) for n in range(30))]))
    block = [block for block in Reader(bytes(data)).blocks if block.kind == FRAMES][7]
    data[block.offset + 80] ^= 1
    path.write_bytes(data)
    monkeypatch.setattr(Tape, "frame", None)
    with Tape(path) as tape:
        assert tape_facts(tape)["missing_ticks"] == [[71, 80]]


def test_runs_give_what_single_frames_give(tmp_path: Path) -> None:
    """Overlapping blocks, gaps and a damaged block: the same frames and the same errors, tick for tick."""
    path = tmp_path / "run.tape"
    pieces = [*full(0), frames(1, 9, b"\x01"), frames(4, 2, b"\x02"), frames(12, 5), frames(14, 8, b"\x03")]
    data = bytearray(write_tape(path, [*pieces, frames(40, 3), drop_piece(22, 25, "the disk was full")]))
    block = [block for block in Reader(bytes(data)).blocks if block.kind == FRAMES][-1]
    data[block.offset + 80] ^= 1
    path.write_bytes(data)
    with Tape(path) as tape:
        by_run: dict[int, Any] = {}
        for run in tape.recording.runs(1, 60):
            for tick in range(run.first_tick, run.last_tick + 1):
                by_run[tick] = run.frames[tick - run.first_tick] if run.error is None else type(run.error)
        singly: dict[int, Any] = {}
        for tick in range(1, 61):
            try:
                singly[tick] = tape.frame(tick)
            except Exception as error:  # noqa: BLE001 - whatever it is, it should be the same
                singly[tick] = type(error)
        assert by_run == singly


def test_ranges_are_shared_out_among_drops() -> None:
    """Each tick has one reason, from the first drop that covers it."""
    drops = [Drop(5, 8, "b"), Drop(0, 100, "a"), Drop(7, 30, "c")]
    shared = share_out([(2, 6), (8, 12), (90, FAR)], drops)
    found = [(drop.first_tick, drop.last_tick, drop.why) for drop in shared]
    assert found == [(2, 4, "a"), (5, 6, "b"), (8, 8, "b"), (9, 12, "a"), (90, 100, "a")]
    assert [getattr(drop_at(shared, tick), "why", None) for tick in (1, 2, 6, 7, 8, 100, 101)] == [
        None,
        "a",
        "b",
        None,
        "b",
        "a",
        None,
    ]
    assert [gap_at([(2, 6), (8, 12)], tick) for tick in (1, 6, 7, 8)] == [None, (2, 6), None, (8, 12)]
    assert merged([(1, 2), (3, 4), (6, 7)]) == [(1, 4), (6, 7)]
