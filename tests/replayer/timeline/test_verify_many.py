"""Many tapes are verified as each of them is alone: the same reports, in the order of the paths."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
from pool_work import InProcessPool, Wrong

from recorder.errors import UnreadableError
from recorder.processes.pool import WorkerDiedError
from replayer import Tape, verify_tape, verify_tapes
from replayer.playback.cursor import Cursor
from replayer.timeline.intervals import Interval, _WithCursor, list_intervals
from replayer.timeline.many import verify_many

from small_worlds import Walkers, record


@pytest.fixture
def tapes(tmp_path: Path) -> list[Path]:
    """Three tapes of 20, 40 and 60 ticks, and a file that is none."""
    paths = []
    for number, ticks in enumerate((20, 60, 40)):
        record(tmp_path / f"{number}.tape", Walkers(number), [[[1, 2]]] * ticks, keyframe_interval_ticks=8)
        paths.append(tmp_path / f"{number}.tape")
    (tmp_path / "none.tape").write_text("no tape at all")
    return [paths[0], tmp_path / "none.tape", *paths[1:], tmp_path / "missing.tape"]


@pytest.mark.parametrize("long_ticks", [10, 50, 1000])
@pytest.mark.seldom(0.15)
def test_reports_are_those_of_each_tape(tapes: list[Path], long_ticks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a tape is long or short; a file that cannot be read is the error of that tape alone."""
    monkeypatch.setattr(verify_many, "LONG_TICKS", long_ticks)
    seen: list[tuple[int, int]] = []
    found = verify_tapes(tapes, Walkers, jobs=2, progress=lambda done, total: seen.append((done, total)))
    assert [one.path for one in found] == tapes
    assert [one.ok for one in found] == [True, False, True, True, False]
    for one in found:
        if one.report is not None:
            alone = verify_tape(one.path, Walkers)
            assert (one.report.verified_ticks, one.report.status) == (alone.verified_ticks, alone.status)
    assert isinstance(found[1].error, UnreadableError)
    assert isinstance(found[4].error, FileNotFoundError)
    assert seen == [(number, 5) for number in range(1, 6)]


@pytest.mark.seldom(0.15)
def test_each_divergence_has_its_dump(tapes: list[Path], tmp_path: Path) -> None:
    found = verify_tapes(tapes[2:4], Wrong, jobs=2, dump_folder=tmp_path / "dumps")
    for one in found:
        assert one.report is not None
        assert one.report.first_bad == verify_tape(one.path, Wrong).first_bad == 29
        assert one.report.dump_path is not None
        assert one.report.dump_path.parent == tmp_path / "dumps"


def test_a_worker_that_dies_costs_its_own_tape(tapes: list[Path]) -> None:
    found = verify_tapes(tapes[2:4], Walkers, pool=InProcessPool(dying=[0]))
    assert isinstance(found[0].error, WorkerDiedError)
    assert found[1].ok


def test_bad_arguments(tapes: list[Path]) -> None:
    with pytest.raises(ValueError, match="jobs: expected at least 1, got 0"):
        verify_tapes(tapes, Walkers, jobs=0)
    assert verify_tapes([], Walkers) == []


def test_workers_read_their_intervals_alone_if_the_index_is_proved(tapes: list[Path]) -> None:
    """Else a long tape would be read as a whole on each machine; an index that hides blocks is not believed."""
    with Tape(tapes[2]) as tape:
        assert not tape.has_proved_index
        tape.check_blocks()
        assert tape.has_proved_index
        sent = ForkingPickler.loads(ForkingPickler.dumps(_WithCursor(tape, Walkers, _last_hash, None)))
        assert not sent.tape.checked
        assert sent(list_intervals(tape)[1], lambda _: None) == tape.state_hash(16)
    damaged = bytearray(tapes[2].read_bytes())
    damaged[len(damaged) // 2] ^= 1
    tapes[2].write_bytes(damaged)
    with Tape(tapes[2]) as tape:
        tape.check_blocks()
        assert not tape.has_proved_index
        sent = ForkingPickler.loads(ForkingPickler.dumps(_WithCursor(tape, Walkers, _last_hash, None)))
        assert sent.tape.checked


def _last_hash(cursor: Cursor, interval: Interval, *_: Any) -> int:
    cursor.seek(interval.final_tick)
    return cursor.state.hash()
