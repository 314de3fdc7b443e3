"""A tail reads the journal, too: with durability "tick" it has each tick as soon as step has returned."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest

import recorder
from recorder import Recorder
from recorder.format.blocks.frame import Frame
from recorder.format.segments.segment_contents import Damage
from recorder.storage.file_names import journal_path
from replayer.follow.tail import Ended, KeyframeSeen, Missed, Seen, Tail

from oracle.tail_runs import truth_of
from project_paths import SUPPORT
from small_worlds import Walkers


def frames_of(seen: list[Seen]) -> list[Frame]:
    assert not [one for one in seen if isinstance(one, Missed | Damage)]
    return [one for one in seen if isinstance(one, Frame)]


def contents(frames: Iterable[Frame]) -> list[Frame]:
    """Without the places in a file, which are others in the journal."""
    return [attrs.evolve(frame, offset=0) for frame in frames]


def test_each_tick_is_seen_as_soon_as_step_has_returned(tmp_path: Path) -> None:
    """Blocks are written at keyframes only: a sync takes place once a minute. Afterwards each frame is the one of the tape, once."""
    path, seen = tmp_path / "run.tape", []
    world = Walkers()
    with Recorder(path, world, sync="60s", keyframe_interval_ticks=25) as tape, Tail(path) as tail:
        for tick in range(1, 61):
            tape.step([[1, tick]])
            seen += (items := tail.poll())
            new = frames_of(items)
            assert [(one.tick, one.inputs) for one in new] == [(tick, [[1, tick]])]
            assert new[0].state_hash == world.state.hash()
        tape.close()
        rest = tail.poll()
    assert frames_of(rest) == []
    assert isinstance(rest[-1], Ended)
    assert [one.tick for one in [*seen, *rest] if isinstance(one, KeyframeSeen)] == [0, 25, 50]
    assert contents(frames_of(seen)) == contents(truth_of(path))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tapes of thirty ticks whose writer was killed: one.tape and other.tape."""
    folder = tmp_path_factory.mktemp("killed")
    program = f"""
import os, sys
sys.path[:0] = [{os.fspath(SUPPORT)!r}]
from recorder import Recorder
from oracle.tail_runs import truth_of
from project_paths import SUPPORT
from small_worlds import Walkers
tapes = [Recorder(name, Walkers(), sync="60s", keyframe_interval_ticks=25) for name in ("one.tape", "other.tape")]
for tick in range(1, 31):
    for tape in tapes:
        tape.step([[0, tick]])
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("polls", [1, 3, 20])
@pytest.mark.parametrize("flushes", [False, True])
def test_ticks_come_once_over_kill_and_resume(killed: Path, tmp_path: Path, polls: int, *, flushes: bool) -> None:
    """The resume moves the journal's ticks into the tape and begins another journal."""
    path = Path(shutil.copytree(killed, tmp_path / "copy")) / "one.tape"
    with Tail(path) as tail:
        got = frames_of(tail.poll())
        assert [one.tick for one in got] == list(range(1, 31))
        with recorder.resume(path, Walkers()) as tape:
            for tick in range(31, 91):
                tape.step([[0, tick]])
                if flushes and tick % 7 == 0:
                    tape.flush()
                if tick % polls == 0:
                    got += frames_of(tail.poll())
                    assert got[-1].tick == tick
        got += frames_of(tail.poll())
    assert [one.tick for one in got] == list(range(1, 91))
    assert contents(got) == contents(truth_of(path))


def test_the_journal_of_another_run_is_not_read(killed: Path, tmp_path: Path) -> None:
    """As after a copy of some files: only ticks come that are in a block: up to the keyframe at tick 25."""
    folder = Path(shutil.copytree(killed, tmp_path / "copy"))
    shutil.copy(journal_path(folder / "other.tape"), journal_path(folder / "one.tape"))
    with Tail(folder / "one.tape") as tail:
        ticks = [one.tick for one in frames_of(tail.poll())]
    assert ticks in ([], list(range(1, 26)))  # The kill may have come before the block.


def test_a_tape_that_goes_on_behind_its_end_is_followed_at_once(tmp_path: Path) -> None:
    """The end that the tail has seen is not the end any more."""
    path = tmp_path / "run.tape"
    with Recorder(path, Walkers(), sync="60s") as tape:
        tape.step(None)
    with Tail(path) as tail:
        assert isinstance(tail.poll()[-1], Ended)
        with recorder.resume(path, Walkers()) as tape:
            for tick in (2, 3, 4):
                tape.step(None)
                assert [one.tick for one in frames_of(tail.poll())] == [tick]
        assert isinstance(tail.poll()[-1], Ended)
