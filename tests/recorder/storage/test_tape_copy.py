"""A copy appears complete or not at all, under a free name; files of others are left alone."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from recorder.session.tape_meta import encode_small
from recorder.storage.tape_copy import TapeCopy, copy_run
from replayer import Tape

from small_worlds import Walkers, record

META = encode_small({"world": None}, "META")


def begin(path: Path) -> TapeCopy:
    """A copy with one keyframe."""
    copy = TapeCopy(path, bytes(16), META)
    copy.full(0, Walkers().state.snapshot())
    return copy


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A short tape."""
    record(tmp_path / "source.tape", Walkers(), [[[1, 1]]] * 9)
    return tmp_path / "source.tape"


def test_a_second_copy_to_the_same_name_is_refused(tmp_path: Path) -> None:
    """While the first is being made, which is not affected."""
    path = tmp_path / "out.tape"
    with begin(path) as copy:
        with pytest.raises(BlockingIOError, match="a different process is copying"):
            TapeCopy(path, bytes(16), META)
        copy.finish({"reason": "first"})
    with Tape(path) as read:
        assert (read.status, read.outcome) == ("not checked", {"reason": "first"})
    assert [other.name for other in tmp_path.iterdir()] == ["out.tape"]


def test_only_an_abandoned_copy_is_removed(tmp_path: Path, source: Path) -> None:
    """Not a user's file that happens to have the name, whether it is a tape or not."""
    part, path = tmp_path / "out.tape.part", tmp_path / "out.tape"
    whole = source.read_bytes()
    for mine in (b"part of my novel", whole):
        part.write_bytes(mine)
        with pytest.raises(FileExistsError, match=r"not an abandoned copy.*out\.tape\.part'"):
            copy_run(source, path, None)
        assert part.read_bytes() == mine
    part.unlink()
    part.symlink_to(source)
    with pytest.raises(OSError, match="symbolic link"):
        copy_run(source, path, None)
    assert source.read_bytes() == whole
    part.unlink()
    for abandoned in (b"", whole[:3], whole[:-10]):
        part.write_bytes(abandoned)
        copy_run(source, path, None)
        with Tape(path) as read:
            assert (read.status, read.last_tick) == ("not checked", 9)
        path.unlink()
    assert [other.name for other in tmp_path.iterdir()] == ["source.tape"]


@pytest.mark.parametrize("links", [True, False])
def test_a_name_that_is_taken_meanwhile_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    """Also on a file system without hard links."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "out.tape"
    with begin(path) as copy:
        path.write_bytes(b"mine")
        with pytest.raises(FileExistsError, match=r"out\.tape'"):
            copy.finish(None)
    assert path.read_bytes() == b"mine"
    assert [other.name for other in tmp_path.iterdir()] == ["out.tape"]
    path.unlink()
    with begin(path) as copy:
        copy.finish(None)
    with Tape(path) as read:
        assert read.status == "not checked"
    assert [other.name for other in tmp_path.iterdir()] == ["out.tape"]
