"""A disk that takes one megabyte a second: the simulation waits, the waiting is counted, and nothing is lost."""

from __future__ import annotations

import random
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

import recorder
from recorder.storage.tape_files import TapeFile
from replayer.tape.tape import Tape
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State

BYTES_A_SECOND = 1_000_000
LIMIT_BYTES = 256 << 10
INPUT_BYTES = 2_000
MEMORY_BYTES_MAX = 8 << 20  # Of limits of 256 KiB for the queue and for each of two journal areas, and of blocks.

pytestmark = pytest.mark.seldom(0.15)


class Digester:
    """Adds up its inputs, which do not compress."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "u8", (4,))))

    def step(self, inputs: bytes) -> None:
        self.state["sum"][0] += sum(inputs)


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk of this speed, and limits that a second of it reaches."""
    append, never = TapeFile.append, threading.Event()
    free_at_s = 0.0

    def slowly(self: TapeFile, data: bytes) -> None:
        nonlocal free_at_s
        free_at_s = max(free_at_s, time.monotonic()) + len(data) / BYTES_A_SECOND
        never.wait(free_at_s - time.monotonic())
        append(self, data)

    monkeypatch.setattr(TapeFile, "append", slowly)
    monkeypatch.setattr("recorder.writer.handoff_queue.WAITING_BYTES_MAX", LIMIT_BYTES)
    monkeypatch.setattr("recorder.writer.handoff_queue.WAKE_BYTES", LIMIT_BYTES // 8)
    monkeypatch.setattr("recorder.writer.journal.AREA_BYTES", LIMIT_BYTES)
    monkeypatch.setattr("recorder.writer.journal.SLOW_AREA_BYTES_MAX", LIMIT_BYTES)


@pytest.mark.usefixtures("slow_disk")
@pytest.mark.parametrize("durability", ["tick", "block"])
@pytest.mark.seldom(0.15)
def test_a_slow_disk_slows_the_simulation_and_loses_nothing(durability: recorder.Durability, tmp_path: Path) -> None:
    """Every tick is on the tape. While it is written, each tick that step has returned is in the tape or its journal."""
    path, source = tmp_path / "run.tape", random.Random(1)
    inputs = [source.randbytes(INPUT_BYTES) for _ in range(1_200)]
    most_waiting, peak = 0, 0
    tracemalloc.start()
    try:
        with recorder.Recorder(path, Digester(), durability=durability, trial_ms=0) as live:
            before = tracemalloc.get_traced_memory()[0]
            for tick, sent in enumerate(inputs, 1):
                live.step(sent)
                most_waiting = max(most_waiting, live.statistics().writer.waiting_bytes)
                if tick % 250 == 0 and durability == "tick":
                    with Tape(path) as tape:
                        assert (tape.last_tick, tape.missing_ticks()) == (tick, [])
                        assert tape.frame(tick).inputs == sent
            peak = tracemalloc.get_traced_memory()[1] - before
            statistics = live.statistics()
    finally:
        tracemalloc.stop()
    assert statistics.writer.wait_s > 0.1
    assert most_waiting <= LIMIT_BYTES + LIMIT_BYTES // 8 + 2 * INPUT_BYTES  # It is checked when the writer is woken.
    assert peak <= MEMORY_BYTES_MAX
    with Tape(path) as tape:
        assert (tape.check_blocks(), tape.status, tape.drops, tape.missing_ticks()) == ([], "intact", [], [])
        assert [tape.frame(tick).inputs for tick in range(1, len(inputs) + 1)] == inputs
    assert verify_tape(path, Digester).ok
