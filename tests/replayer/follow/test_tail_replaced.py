"""A tail whose file is replaced by a different one of the same name, or that reads an unknown block."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

from recorder import Recorder, UnsupportedVersionError, resume
from recorder.format.blocks.file_header import make_file_header
from recorder.format.blocks.frame import Frame, encode_frame
from recorder.format.segments.segment_encoder import SegmentEncoder, frames_piece, full_pieces, make_piece
from recorder.storage import tape_files as logfile
from replayer.follow.tail import Ended, Tail
from replayer.tape.tape import Tape
from sim.kernel.plain_data import encode_plain

from keyframe_payloads import encode_full
from small_worlds import Walkers


def ticks(seen: list[Any]) -> list[int]:
    """The ticks of the frames among these items."""
    return [one.tick for one in seen if isinstance(one, Frame)]


@pytest.mark.seldom(0.15)
def test_a_file_that_is_started_again_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two failed syncs in a row: the blocks of the second file are written again into a new file of that name."""
    path = tmp_path / "run.tape"
    disk_fails = False
    sync = logfile.TapeFile.fdatasync

    def fdatasync(self: Any) -> None:
        if disk_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(self)

    monkeypatch.setattr(logfile.TapeFile, "fdatasync", fdatasync)
    warnings.simplefilter("ignore")
    with Tail(_begin(path, tape := Recorder(path, Walkers(), sync="0.05s", keyframe_interval_ticks=50))) as tail:
        got = ticks(list(tail.poll()))
        disk_fails = True
        inodes = set()

        def begun_anew_twice() -> bool:
            tape.step([])
            got.extend(ticks(tail.poll()))
            if (second := Path(f"{path}.1")).exists():
                inodes.add(second.stat().st_ino)
            return len(inodes) == 3

        wait_until(begun_anew_twice)
        disk_fails = False
        wait_until(lambda: not tape._writer.failing)
        for _ in range(100):
            tape.step([])
        tape.close()
        last = [*tail.follow(wait=lambda _: pytest.fail("nothing comes any more"))]

    assert isinstance(last[-1], Ended)
    assert got + ticks(last) == list(range(1, tape.tick + 1))


def test_what_a_later_file_has_replaced_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that took over after a failed sync is cut and resumed: the ticks it repeated are others there."""
    path = tmp_path / "run.tape"
    fails = False
    sync = logfile.TapeFile.fdatasync

    def fdatasync(self: Any) -> None:
        nonlocal fails
        if fails:
            fails = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(self)

    monkeypatch.setattr(logfile.TapeFile, "fdatasync", fdatasync)
    warnings.simplefilter("ignore")
    tape = Recorder(path, Walkers(), durability="block", sync="block", keyframe_interval_ticks=50)
    tape.flush()
    fails = True
    for _ in range(20):
        tape.step([[1, 7]])
    tape.flush()
    tape._abandon()
    with Tape(path) as read:
        assert read.segments[0].clip is not None
        end = read.segments[1].contents.entries[1].offset  # After META.
    os.truncate(f"{path}.1", end)
    with resume(path, Walkers()) as tape:
        assert tape.tick == 0
        for _ in range(5):
            tape.step([[2, 9]])
    with Tail(path) as tail, Tape(path) as read:
        seen = [frame for frame in tail.poll() if isinstance(frame, Frame)]
        assert [frame.inputs for frame in seen] == [read.frame(tick).inputs for tick in range(1, 6)] == [[[2, 9]]] * 5


def _begin(path: Path, tape: Recorder) -> Path:
    for _ in range(20):
        tape.step([])
    tape.flush()
    return path


@pytest.mark.parametrize(("kind", "is_refused"), [(0x40, True), (0xC0, False)])
def test_a_kind_that_is_not_known(tmp_path: Path, kind: int, is_refused: bool) -> None:  # noqa: FBT001
    """As Tape does: refused, unless its kind is optional."""
    path = tmp_path / "run.tape"
    snapshot = Walkers().state.snapshot()
    encoder = SegmentEncoder(make_file_header(bytes(16), 0, 0), encode_plain({"world": None}))
    frames = [frames_piece(tick, 1, encode_frame(tick, 1, encode_plain(None))) for tick in (1, 2)]
    keyframe = full_pieces(0, encode_full(0, snapshot.hash(), snapshot))[0]
    parts = [encoder.start()]
    parts += [encoder.place(piece) for piece in [*keyframe, frames[0], make_piece(kind, b"new", 1), frames[1]]]
    path.write_bytes(b"".join([*parts, encoder.last_index(), encoder.end(None, final=True)]))

    with Tail(path) as tail, Tape(path) as tape:
        if is_refused:
            for read in (tail.poll, lambda: tape.frame(1), tail.poll):
                with pytest.raises(UnsupportedVersionError, match="kind"):
                    read()
        else:
            assert ticks(tail.poll()) == [1, 2]
            assert tape.frame(2).tick == 2
