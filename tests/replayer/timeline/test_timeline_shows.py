"""The repr of timelines and reports, slices of long rings, and the progress of a seek."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replayer
from recorder.format.blocks.file_header import make_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.segments.segment_encoder import SegmentEncoder, frames_piece, full_pieces
from replayer.playback.cursor import TELL_S
from replayer.timeline.snapshots import from_tick
from replayer.timeline.verify import verify_tape
from sim.kernel.plain_data import encode_plain

from keyframe_payloads import encode_full
from small_worlds import Walkers, record


def late_tape(path: Path, first_tick: int) -> None:
    """Ten ticks of walkers from first_tick on, as in a ring after a long run."""
    walkers = Walkers()
    snapshot = walkers.state.snapshot()
    encoder = SegmentEncoder(make_file_header(bytes(16), 0, 0), encode_plain({"world": None}))
    pieces = full_pieces(first_tick, encode_full(first_tick, snapshot.hash(), snapshot))[0]
    for tick in range(first_tick + 1, first_tick + 11):
        walkers.step([])
        pieces.append(frames_piece(tick, 1, encode_frame(tick, walkers.state.hash(), encode_plain([]))))
    parts = [encoder.start(), *(encoder.place(piece) for piece in pieces)]
    path.write_bytes(b"".join([*parts, encoder.last_index(), encoder.end(None, final=True)]))


def test_slices_of_a_ring_do_not_count_from_tick_0(tmp_path: Path) -> None:
    """Iterating up to tick 10^12 would take forever."""
    first = 10**12
    late_tape(tmp_path / "run.tape", first)
    with replayer.open(tmp_path / "run.tape", Walkers) as run:
        assert len(list(run)) == 11
        assert len(run[:]) == 11
        assert list(run[::-5].ticks) == [first + 10, first + 5, first]
        assert list(run[-3:].ticks) == [first + 8, first + 9, first + 10]


@pytest.mark.parametrize("step", [-7, -2, -1, 1, 2, 3, 11])
@pytest.mark.parametrize("first", [0, 1, 7, 29, 30, 40])
def test_ranges_are_cut_as_if_each_tick_was_looked_at(first: int, step: int) -> None:
    """For every start and stop."""
    for start in (None, 0, 3, 28, -1):
        for stop in (None, 0, 9, 31, -2):
            whole = range(31)[start:stop:step]
            assert list(from_tick(first, whole)) == [tick for tick in whole if tick >= first]


def test_representations_say_what_is_there(tmp_path: Path) -> None:
    """No address in memory, no hash in decimal."""

    class Wrong(Walkers):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            self.state["x"][2] += 1

    path = tmp_path / "run.tape"
    record(path, Walkers(), [[]] * 40, keyframe_interval_ticks=20)
    with replayer.open(path, Walkers) as run:
        assert repr(run) == f"<Timeline of {path}: ticks 0 to 40>"
        report = run.seek(12)
        assert repr(run) == f"<Timeline of {path}: ticks 0 to 40, at tick 12>"
        assert f"state_hash=0x{run.state.hash():016x}, " in repr(report)
        assert repr(run.state) == f"<State of 3 fields, {run.state.layout.size_bytes} bytes>"
        assert repr(run[:]) == "<Snapshots of 41 states: ticks 0 to 40>"
        assert repr(run[3:30:10]) == "<Snapshots of 3 states: ticks 3 to 23, every 10>"
        assert repr(run[5:5]) == "<Snapshots of 0 states>"
    assert "findings=[<Finding: first bad tick 1, fields x>]" in repr(verify_tape(path, Wrong))


def test_a_seek_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At intervals, by a clock that each step moves, and at the end."""
    now_s = 0.0

    class Slow(Walkers):
        def step(self, inputs: Any) -> None:
            nonlocal now_s
            super().step(inputs)
            now_s += TELL_S * 0.3

    path = tmp_path / "run.tape"
    record(path, Walkers(), [[]] * 30)
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    with replayer.open(path, Slow) as run:
        run.seek(30, lambda done, total: seen.append((done, total)))
    assert seen == [(done, 30) for done in (4, 8, 12, 16, 20, 24, 28, 30)]
