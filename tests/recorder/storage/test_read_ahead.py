"""Reading a large state with a second thread gives the same result, including errors, and leaves no thread behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer
from recorder import Recorder
from recorder.errors import CorruptError
from recorder.format.copier import Copier
from recorder.storage.parallel_copy import COPY_BYTES_MIN, copy_side_by_side
from recorder.storage.read_ahead import AHEAD_BYTES_MIN, PIECES_AHEAD, ThreadedCopier
from sim import Field, Schema, State

ENOUGH = AHEAD_BYTES_MIN


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """After every test."""
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.mark.parametrize("size", [0, 1, COPY_BYTES_MIN - 1, COPY_BYTES_MIN, COPY_BYTES_MIN + 1])
@pytest.mark.parametrize("aside", [Copier(), ThreadedCopier()])
def test_copies(aside: Copier, size: int) -> None:
    """Both halves are copied to new memory."""
    arena = np.arange(size, dtype=np.uint32).astype(np.uint8)
    copy = aside.copy_of(arena)
    assert copy.tobytes() == arena.tobytes()
    assert not np.shares_memory(copy, arena)
    copy[:] = 0  # Its own memory.


@pytest.mark.parametrize(
    "sizes", [[], [0], [5, 0, 7], [COPY_BYTES_MIN, 0, 3], [3, 0, COPY_BYTES_MIN], [COPY_BYTES_MIN] * 3]
)
@pytest.mark.parametrize("has_threads", [True, False])
def test_pairs_are_copied(monkeypatch: pytest.MonkeyPatch, sizes: list[int], *, has_threads: bool) -> None:
    """All bytes of each pair, for any sizes; also if the system refuses to start a thread."""
    if not has_threads:
        monkeypatch.setattr(threading.Thread, "start", _refuse)
    random = np.random.Generator(np.random.PCG64(len(sizes)))
    pairs = [(np.zeros(size, np.uint8), random.integers(0, 256, size, np.uint8)) for size in sizes]
    copy_side_by_side(pairs)
    for target, source in pairs:
        assert np.array_equal(target, source)


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("count", [0, 1, PIECES_AHEAD, PIECES_AHEAD + 1, 50])
@pytest.mark.parametrize("size", [ENOUGH - 1, ENOUGH])
def test_pieces_come_in_order(count: int, size: int) -> None:
    """For any number and any size of pieces."""
    pieces = [bytes([number]) for number in range(count)]
    assert list(ThreadedCopier().ahead(iter(pieces), size)) == pieces


def test_pieces_are_made_before_they_are_asked_for() -> None:
    """But not all of them: memory holds a few."""
    made: list[int] = []
    full = threading.Event()

    def make() -> Iterator[bytes]:
        for number in range(50):
            made.append(number)
            if number == PIECES_AHEAD + 1:  # One was taken, one waits for room.
                full.set()
            yield b"piece"

    coming = ThreadedCopier().ahead(make(), ENOUGH)
    assert next(coming) == b"piece"
    assert full.wait(10)
    assert len(made) == PIECES_AHEAD + 2
    coming.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("good", [0, 1, 20])
def test_what_making_them_raises_comes_in_its_place(good: int) -> None:
    """After the pieces before it."""

    def make() -> Iterator[bytes]:
        yield from [b"piece"] * good
        raise CorruptError(7, "not a block")

    coming, found = ThreadedCopier().ahead(make(), ENOUGH), []
    with pytest.raises(CorruptError, match="not a block"):
        found.extend(coming)
    assert found == [b"piece"] * good


def test_without_a_thread_it_reads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system refuses to start a thread, and at the end of a program."""
    monkeypatch.setattr(threading.Thread, "start", _refuse)
    pieces = [bytes([number]) for number in range(20)]
    assert list(ThreadedCopier().ahead(iter(pieces), ENOUGH)) == pieces


@pytest.mark.parametrize("error", [KeyboardInterrupt, CorruptError(5, "no")], ids=["Ctrl-C", "corrupt"])
def test_an_interrupted_read_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any) -> None:
    """Even while a caller keeps the exception, and with it all frames of the stack."""

    def fail(pieces: Iterator[bytes], *_: Any) -> None:
        next(pieces)
        assert threading.active_count() == count + 1
        raise error

    path, count = tmp_path / "run.tape", threading.active_count()
    with Recorder(path, Noise()) as tape:
        tape.step()
    monkeypatch.setattr("recorder.format.recording.cached_blocks.decode_full", fail)
    with replayer.Tape(path) as tape:
        (place,) = tape.keyframes
        with pytest.raises((KeyboardInterrupt, CorruptError)) as caught:
            tape.snapshot(place)
        assert threading.active_count() == count
        assert caught.value


class Noise:
    """A few MB that LZ4 cannot shrink."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "u8", (400_000,))))
        self.state["x"][:] = np.random.Generator(np.random.PCG64(5)).integers(0, 1 << 64, 400_000, np.uint64)

    def step(self, _: object) -> None:
        """Change one number."""
        self.state["x"][3] += np.uint64(1)


def test_a_damaged_large_keyframe_is_refused(tmp_path: Path) -> None:
    """With damage at any offset: by the same error as with one thread."""
    path = tmp_path / "run.tape"
    with Recorder(path, Noise()) as tape:
        tape.step()
    intact = path.read_bytes()
    with replayer.Tape(path) as tape:
        (place,) = tape.keyframes
        assert place.end_offset - place.entry.offset > AHEAD_BYTES_MIN
        assert tape.snapshot(place).arena.tobytes() == Noise().state.arena.tobytes()
    for share in (0.01, 0.5, 0.99):
        at = place.entry.offset + int(share * (place.end_offset - place.entry.offset))
        path.write_bytes(intact[:at] + bytes([intact[at] ^ 1]) + intact[at + 1 :])
        told = []
        for aside in (Copier(), ThreadedCopier()):
            with replayer.Tape(path, mode="salvage") as tape:
                tape.recording.copier = aside
                with pytest.raises(CorruptError) as caught:
                    tape.snapshot(place)
                told.append(str(caught.value))
        assert told[0] == told[1]
