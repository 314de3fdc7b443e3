"""Readers whose calls come in any order: a tape that is read again, changes, or fails to be read in between."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.errors import CorruptError, MissingTickError
from recorder.format.blocks.block import HEADER_BYTES
from recorder.storage import open_tape
from replayer import Tape

from small_worlds import Herd, Saved, Walkers, record

OPTIONS: dict[str, Any] = {"keyframe_interval_ticks": 3, "full_every": 2, "trial_ms": 0}


def three_sessions(path: Path) -> dict[int, bytes]:
    """Record a sealed tape of three sessions; the live states."""
    live = record(path, Walkers(), [None] * 20, **OPTIONS)
    for _ in range(2):
        with recorder.resume(path, Walkers()) as tape:
            for _ in range(20):
                tape.step(None)
                live[tape.tick] = tape.simulation.state.arena.tobytes()
    return live


def test_a_flipped_bit_in_any_keyframe_header_costs_no_tick(tmp_path: Path) -> None:
    """Seek reads on behind it, also where that shows that the index is wrong while keyframes are walked."""
    path = tmp_path / "run.tape"
    live = three_sessions(path)
    data = path.read_bytes()
    with Tape(path) as tape:
        keyframes = [(place.tick, place.entry.offset) for place in tape.keyframes]
    assert len(keyframes) > 15
    for keyframe_tick, offset in keyframes[1:]:
        path.write_bytes(data[: offset + 20] + bytes([data[offset + 20] ^ 4]) + data[offset + 21 :])
        for tick in (keyframe_tick, 60):
            with replayer.open(path, Walkers) as run:
                run.seek(tick)

                assert run.state.arena.tobytes() == live[tick]


@pytest.mark.parametrize("place", [20, HEADER_BYTES + 3], ids=["header", "content"])
def test_the_hash_of_a_tick_with_two_keyframes_and_no_frame(tmp_path: Path, place: int) -> None:
    """Tick 0 of a tape that was resumed before its first step: where one of the keyframes is lost, by the other."""
    path = tmp_path / "run.tape"
    recorder.Recorder(path, Walkers(), **OPTIONS).close()
    recorder.resume(path, Walkers()).close()
    data = path.read_bytes()
    with Tape(path) as tape:
        offsets = [keyframe.entry.offset for keyframe in tape.keyframes]
        expected = tape.state_hash(0)
    assert len(offsets) == 2
    for offset in offsets:
        at = offset + place
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with Tape(path) as tape:
            assert tape.state_hash(0) == expected
    one, other = (offset + place for offset in offsets)
    path.write_bytes(
        data[:one] + bytes([data[one] ^ 4]) + data[one + 1 : other] + bytes([data[other] ^ 4]) + data[other + 1 :]
    )
    with Tape(path) as tape, pytest.raises((CorruptError, MissingTickError)):
        tape.state_hash(0)


def test_a_walk_over_keyframes_goes_on_when_the_index_is_found_wrong(tmp_path: Path) -> None:
    """Each keyframe comes once, whatever the caller reads in between."""
    path = tmp_path / "run.tape"
    three_sessions(path)
    with Tape(path) as tape:
        expected = {place.entry.offset for place in tape.keyframes}
        walk = tape.keyframes_at_or_before(60)
        offsets = [next(walk).entry.offset]
        assert not tape.recording.distrust_index()
        offsets += [place.entry.offset for place in walk]

    assert len(offsets) == len(set(offsets))
    assert set(offsets) == expected


def test_what_was_begun_before_a_refresh_goes_on(tmp_path: Path) -> None:
    """A loop over frames of a growing tape shows the files as they were, and reads from no other file."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Walkers(), **OPTIONS) as tape:
        for _ in range(30):
            tape.step(None)
        tape.flush()
        with Tape(path) as opened:
            expected = {place.entry.offset for place in opened.keyframes}
            walk = opened.keyframes_at_or_before(30)
            offsets = [next(walk).entry.offset]
            before = opened.recording
            opened.refresh()
            others = [os.open(__file__, os.O_RDONLY) for _ in range(3)]  # They take the numbers of closed files.
            try:
                offsets += [place.entry.offset for place in walk]
                states = [before.snapshot(place).hash() for place in before.keyframes]
            finally:
                for descriptor in others:
                    os.close(descriptor)

            assert set(offsets) == expected
            assert states == [opened.snapshot(place).hash() for place in opened.keyframes]


def test_files_of_earlier_readings_are_closed(tmp_path: Path) -> None:
    """A tape that is read again and again keeps one set of files open."""
    path = tmp_path / "run.tape"
    record(path, Saved(), list(range(20)), **OPTIONS)
    with replayer.open(path, Saved) as run:
        run.seek(3)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            run.tape.refresh()
            run.seek(11)

        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_a_refresh_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Its files were removed: it says so, and reads the open ones."""
    path = tmp_path / "run.tape"
    live = record(path, Walkers(), [None] * 20, **OPTIONS)
    with replayer.open(path, Walkers) as run:
        path.unlink()
        with pytest.raises(FileNotFoundError):
            run.tape.refresh()

        assert run.at(17).arena.tobytes() == live[17]


def test_a_closed_tape_reads_from_no_other_file(tmp_path: Path) -> None:
    """The number of its file may belong to another one by then."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), [None] * 20, **OPTIONS)
    tape = Tape(path)
    tape.close()
    with path.open("rb"), pytest.raises(ValueError, match="closed"):
        tape.frame(3)


def test_step_back_at_the_start_of_a_ring_that_went_on(tmp_path: Path) -> None:
    """The tick before is gone: this is said, and the timeline does not go to the end."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Walkers(), keep=6, **OPTIONS) as tape, replayer.open(path, Walkers) as run:
        run.seek(0)
        for _ in range(40):
            tape.step(None)
        tape.flush()
        run.tape.refresh()
        assert run.first_tick > 0
        with pytest.raises(MissingTickError):
            run.step_back()

        assert run.tick == 0


def test_a_tape_whose_last_ticks_were_recorded_again_is_not_called_a_desync(tmp_path: Path) -> None:
    """A resume may continue at an earlier tick, with other inputs: states in memory are of ticks that were cut off."""
    path, other = tmp_path / "run.tape", tmp_path / "other.tape"
    inputs = [[[0, tick]] for tick in range(1, 13)]
    record(path, Walkers(), inputs, **OPTIONS)
    live = record(other, Walkers(), [*inputs[:4], *[[[1, -tick]] for tick in range(5, 16)]], **OPTIONS)
    with replayer.open(path, Walkers) as run:
        run.seek(7)
        run.seek(8)
        other.replace(path)
        run.tape.refresh()
        for go in (lambda: run.seek(9), run.step_back, run.step):
            report = go()

            assert run.state.arena.tobytes() == live[report.tick]


def fail_once(monkeypatch: pytest.MonkeyPatch, error: BaseException, number: int) -> None:
    """Let one later read of a tape fail."""
    read, errors = os.pread, iter([*[None] * number, error])

    def failing(descriptor: int, size: int, offset: int) -> bytes:
        raised = next(errors, None)
        if raised is not None:
            raise raised
        return read(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", failing)


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EIO, "EIO")])
@pytest.mark.parametrize("number", range(5))
def test_a_read_that_fails_once_spoils_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, number: int
) -> None:
    """The tape has a damaged index: what was found out by half is found out again."""
    path = tmp_path / "run.tape"
    live = three_sessions(path)
    with Tape(path) as tape:
        index = max(part.summary.offset for part in tape.segments[0].parts)
    data = bytearray(path.read_bytes())
    data[index + 100] ^= 1
    path.write_bytes(data)
    with replayer.open(path, Walkers) as run:
        with monkeypatch.context() as patched:
            fail_once(patched, error, number)
            try:
                run.seek(60)
            except (MemoryError, OSError) as raised:
                assert raised is error  # noqa: PT017 - it may be met or not

        for tick in (60, 33, 5):
            run.seek(tick)

            assert run.state.arena.tobytes() == live[tick]


def test_no_block_is_left_of_an_open_tape(tmp_path: Path) -> None:
    """Its file was emptied: an error of the recording, and not one of the format's own."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), [None] * 20, **OPTIONS)
    with replayer.open(path, Walkers) as run:
        os.truncate(path, 0)
        with pytest.raises((CorruptError, MissingTickError)):
            run.seek(13)


def test_a_keyframe_of_a_file_that_a_ring_has_dropped(tmp_path: Path) -> None:
    """A location that was found before a refresh: the tick is missing, which is said."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Walkers(), keep=6, **OPTIONS) as recording:
        for _ in range(20):
            recording.step(None)
        recording.flush()
        with Tape(path) as tape:
            place = tape.keyframes[0]
            for _ in range(40):
                recording.step(None)
            recording.flush()
            tape.refresh()
            assert place.segment not in {segment.number for segment in tape.segments}
            with pytest.raises(MissingTickError, match="no longer"):
                tape.snapshot(place)


def run_out_of_memory(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Let one call raise MemoryError."""

    def raise_once(*_: Any, **__: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(name, raise_once)
        yield


@pytest.mark.parametrize("world", [Walkers, Herd])
@pytest.mark.parametrize("name", ["gather_changes", "copy_side_by_side", "KeyframeJob", "Baseline"])
def test_a_keyframe_for_which_memory_ran_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, world: Any
) -> None:
    """The next one is full: no later keyframe is based on one that is not on the tape."""
    path = tmp_path / "run.tape"
    live = {}
    with recorder.Recorder(path, world(), keyframe_interval_ticks=1, full_every=7, trial_ms=0) as tape:
        for tick in range(1, 31):
            if tick in (7, 10, 14, 28):  # The next full one, and a delta.
                for _ in run_out_of_memory(monkeypatch, f"recorder.session.keyframe_policy.{name}"):
                    try:
                        tape.step(None)
                    except MemoryError:
                        assert tape.tick == tick
            else:
                tape.step(None)
            live[tick] = tape.simulation.state.arena.tobytes()
    with Tape(path) as opened:
        assert len(opened.keyframes) > 10
        for place in opened.keyframes[1:]:
            assert opened.snapshot(place).arena.tobytes() == live[place.tick]


def test_a_ring_that_turns_over_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files that were listed are gone when they are opened: those that are there now are read."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Walkers(), keep=6, **OPTIONS) as tape:
        for tick in range(60):
            tape.step(None)
            if tick % 10 == 0:
                tape.flush()
    listed, listings = open_tape.following_segments, list[int]()

    def stale_at_first(first: Path) -> list[int]:
        listings.append(1)
        return [100_000] if len(listings) == 1 else listed(first)

    monkeypatch.setattr(open_tape, "following_segments", stale_at_first)
    with Tape(path) as opened:
        assert (opened.last_tick, opened.status) == (60, "not checked")


def test_a_tape_whose_next_file_is_begun_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file grows up to its end between its opening and the listing of the others: no tick is missing."""
    path, listed = tmp_path / "run.tape", open_tape.following_segments
    with recorder.Recorder(path, Walkers(), split=2000, **OPTIONS) as tape:
        tape.step(None)
        tape.flush()

        def after_a_split(first: Path) -> list[int]:
            while not listed(first):
                tape.step(None)
                tape.flush()
            return listed(first)

        with monkeypatch.context() as patched:
            patched.setattr(open_tape, "following_segments", after_a_split)
            with Tape(path) as opened:
                assert [segment.number for segment in opened.segments] == [0, 1]
                assert (opened.missing_ticks(), opened.damages, opened.status) == ([], [], "incomplete")
