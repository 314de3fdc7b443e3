"""A refreshed tape equals a tape that is opened at that moment, and reads only what has been added."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder.format.segments.segment_reader import WINDOW_BYTES
from recorder.storage.file_names import journal_path, segment_numbers, segment_path
from replayer.tape.tape import Tape

from small_worlds import Walkers


def _facts(tape: Tape) -> dict[str, Any]:
    """Everything that a refresh finds out, without the names of the files."""
    return {
        "entries": [(segment.number, segment.contents.entries) for segment in tape.segments],
        "indexes": [segment.contents.indexes for segment in tape.segments],
        "ends": [(s.contents.good_end, s.contents.seal, s.contents.by_index) for s in tape.segments],
        "damages": tape.damages,
        "status": (tape.status, tape.sealed, tape.missing_segments, tape.drops, tape.missing_ticks()),
        "journal": tape.recording.journal,
        "meta": (tape.meta, tape.run_id),
    }


def _assert_like_new(tape: Tape) -> None:
    tape.refresh()
    with Tape(tape.path) as fresh:
        assert _facts(tape) == _facts(fresh)
        if fresh.keyframes and fresh.first_tick < fresh.last_tick:
            assert tape.frame(tape.last_tick) == fresh.frame(fresh.last_tick)


def _options(source: random.Random) -> dict[str, Any]:
    return {
        "keyframe_interval_ticks": source.choice([3, 20]),
        "durability": source.choice(["tick", "block"]),
        "trial_ms": 0,
        **source.choice([{}, {"split": 4096}, {"keep": 40}]),
    }


class _Mirror:
    """Copies of the files of a live tape, which stand still: each is written as its original was, under one inode."""

    def __init__(self, live: Path, copy: Path) -> None:
        self._live, self._copy = live, copy
        self._inodes: dict[str, int] = {}

    def update(self) -> None:
        """Copy what has changed, the journal first, as a reader does."""
        names = sorted((path.name for path in self._live.iterdir()), key=lambda name: not name.endswith(".journal"))
        for name in {path.name for path in self._copy.iterdir()} - set(names):
            (self._copy / name).unlink()
        for name in names:
            try:
                inode, content = (self._live / name).stat().st_ino, (self._live / name).read_bytes()
            except FileNotFoundError:
                continue  # A journal's new file has just got its name.
            if self._inodes.get(name, inode) != inode:
                (self._copy / name).unlink(missing_ok=True)
            self._inodes[name] = inode
            with os.fdopen(os.open(self._copy / name, os.O_RDWR | os.O_CREAT), "r+b") as file:
                file.write(content)
                file.truncate()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sample(2)
def test_a_refresh_finds_what_opening_finds(seed: int, tmp_path: Path) -> None:
    """At any moment of a recording, of its end and of its continuation, journal and ring included."""
    source = random.Random(seed)
    for name in ("live", "copy"):
        (tmp_path / name).mkdir()
    path, mirror = tmp_path / "live" / "run.tape", _Mirror(tmp_path / "live", tmp_path / "copy")
    live = recorder.Recorder(path, Walkers(), **_options(source))
    try:
        live.flush()
        mirror.update()
        with Tape(tmp_path / "copy" / "run.tape") as tape:
            for turn in range(30):
                for _ in range(source.choice([0, 1, 7, 60])):
                    live.step([(source.randrange(20), 1)])
                if source.random() < 0.5:
                    live.flush()
                if turn % 8 == 7:
                    live.close()
                    mirror.update()
                    _assert_like_new(tape)
                    live = recorder.resume(path, Walkers())
                mirror.update()
                _assert_like_new(tape)
    finally:
        live.close()


def _unsealed(path: Path, seed: int = 0, ticks: int = 90) -> dict[int, int]:
    """Write the tape of a killed recorder; return its size after each ten ticks."""
    live_path, sizes = path.with_name("live.tape"), {}
    with recorder.Recorder(live_path, Walkers(seed=seed), keyframe_interval_ticks=10, trial_ms=0) as live:
        for tick in range(1, ticks + 1):
            live.step([(tick % 7, 1)])
            if tick % 10 == 0:
                live.flush()
                sizes[tick] = live_path.stat().st_size
        path.write_bytes(live_path.read_bytes())
        journal_path(path).write_bytes(journal_path(live_path).read_bytes())
    live_path.unlink()
    return sizes


def _truncate_and_continue(path: Path) -> None:
    """Cut the last blocks and record other ones, as a resume after a crash does."""
    os.truncate(path, path.stat().st_size - 300)
    with recorder.resume(path, Walkers()) as live:
        for _ in range(25):
            live.step([(8, 1)])


def _replace(path: Path) -> None:
    other = path.with_name("other.tape")
    _unsealed(other, seed=5, ticks=120)
    other.replace(path)


def _write_over(path: Path) -> None:
    """Write a different tape into the same file: its inode stays."""
    other = path.with_name("other.tape")
    _unsealed(other, seed=5, ticks=120)
    path.write_bytes(other.read_bytes())


def _damage_the_end(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-200] + b"\xff" * 200)


def _half_a_block(path: Path) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes()[-100:])


def _lose_the_journal(path: Path) -> None:
    journal_path(path).unlink()


def _another_journal(path: Path) -> None:
    other = path.with_name("other.tape")
    _unsealed(other, seed=5, ticks=120)
    journal_path(other).replace(journal_path(path))


CHANGES = [
    _truncate_and_continue,
    _replace,
    _write_over,
    _damage_the_end,
    _half_a_block,
    _lose_the_journal,
    _another_journal,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_changes_from_outside(change: Callable[[Path], None], tmp_path: Path) -> None:
    """What another program does to the files shows as it does in a tape that is opened afterwards."""
    path = tmp_path / "run.tape"
    _unsealed(path)
    with Tape(path) as tape:
        _assert_like_new(tape)
        change(path)
        _assert_like_new(tape)


def test_a_half_written_block_is_read_when_it_is_complete(tmp_path: Path) -> None:
    """Each length of the file between two blocks, and the complete file after it."""
    path = tmp_path / "run.tape"
    sizes = _unsealed(path)
    content = path.read_bytes()
    path.write_bytes(content[: sizes[70]])
    with Tape(path) as tape:
        for size in [*range(sizes[70], sizes[80], 40), len(content)]:
            with path.open("ab") as file:
                file.write(content[path.stat().st_size : size])
            _assert_like_new(tape)


@pytest.mark.seldom(0.15)
def test_a_refresh_reads_only_what_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes and the reads of a refresh do not depend on the length of the tape; the journal is read once."""
    real, counted = os.pread, [0, 0]

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        data = real(descriptor, size, offset)
        counted[:] = counted[0] + 1, counted[1] + len(data)
        return data

    monkeypatch.setattr(os, "pread", pread)
    costs, source = {}, random.Random(1)
    for ticks in (100, 1_500):
        path = tmp_path / f"{ticks}.tape"
        with recorder.Recorder(path, Walkers(), trial_ms=0) as live:
            for tick in range(ticks):
                live.step([(tick % 5, source.randrange(1 << 40)) for _ in range(100)])
            live.flush()
            with Tape(path) as tape:
                tape.refresh()
                live.step([(1, 1)])
                counted[:] = 0, 0
                tape.refresh()
                assert tape.last_tick == ticks + 1
                costs[ticks] = tuple(counted)
    assert path.stat().st_size > 4 * WINDOW_BYTES
    assert costs[1_500][0] <= costs[100][0] + 2  # One of them for the first read, which the short tape fits into.
    assert costs[1_500][1] <= costs[100][1] + WINDOW_BYTES  # The short tape ends inside the first read.


def _descriptors() -> dict[str, str]:
    """The files that this process has open, by number."""
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # That of the listing itself.
            found[path.name] = str(path.readlink())
    return found


def test_a_refresh_keeps_one_descriptor_a_file(tmp_path: Path) -> None:
    """Descriptors of files that a ring has removed are closed; the others stay open."""
    path = tmp_path / "ring.tape"
    with recorder.Recorder(path, Walkers(), keyframe_interval_ticks=5, keep=30, trial_ms=0) as live, Tape(path) as t:
        before = _descriptors()
        for _ in range(300):
            live.step([(1, 1)])
        live.flush()
        t.refresh()
        opened = [name for fd, name in _descriptors().items() if fd not in before]
        assert not [name for name in opened if name.endswith("(deleted)") and "ring.tape" in name]
        expected = {str(segment_path(path, number)) for number in segment_numbers(path)}
        reading = [name for name in opened if "ring.tape" in name]
        assert len(reading) <= 2 * len(expected) + 1  # The writer's, and ours.
