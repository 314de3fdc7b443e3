"""Full keyframes of large marked states: built by the writer from the one before and the rows marked since."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer
from recorder import Recorder
from recorder.format.blocks.delta_keyframe import decode_delta
from recorder.format.blocks.full_keyframe import apply_changes, gather_changes
from recorder.storage.file_names import segment_numbers
from recorder.writer.buffer_pool import BufferPool
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State, Table
from sim.kernel.changes.row_changes import MarkedChanges
from sim.kernel.state import Snapshot

from keyframe_payloads import encode_delta
from oracle.second_checks import CheckedTape

pytestmark = pytest.mark.share(0.18)

ROWS = 40_000


class Large:
    """1.9 MB; some fields change everywhere, some in few rows, one never."""

    marks_writes = True

    def __init__(self, forgets_at: int = 0) -> None:
        self.state = State(
            Schema(
                Field("tick", "i8", hot=True),
                Field("dense", "i4", (ROWS,)),
                Field("sparse", "f8", (ROWS,)),
                Field("rows", "u2", (ROWS // 4, 16), row_axes=1),
                Field("still", "i8", (ROWS,)),
                Field("forgotten", "i8", (ROWS,)),
            )
        )
        self.state["still"][:] = np.arange(ROWS)
        self.forgets_at = forgets_at

    def step(self, _: Any) -> None:
        """Mark all writes except one."""
        state = self.state
        tick = int(state["tick"]) + 1
        state.set("tick", 0, tick)
        state["dense"][:] += tick
        state.mark("dense")
        state.set("sparse", [tick * 7919 % ROWS, tick], [tick / 3, -0.0])
        state.set("rows", tick % 100, np.arange(16) + tick)
        if tick == self.forgets_at:
            state["forgotten"][5] = tick


def arenas(path: Path, make: Any, ticks: int, **settings: Any) -> dict[int, bytes]:
    """Arenas of the live run."""
    live = {}
    with Recorder(path, make(), **settings) as tape:
        live[0] = tape.simulation.state.arena.tobytes()
        for tick in range(1, ticks + 1):
            tape.step()
            live[tick] = tape.simulation.state.arena.tobytes()
    return live


@pytest.mark.parametrize("settings", [{}, {"split": 300_000}, {"deterministic": True}, {"mode": "changes"}], ids=str)
@pytest.mark.seldom(0.15)
def test_every_keyframe_is_the_live_state(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Full keyframes and deltas, read by a second reader, hold the live states at the same ticks as without marks."""
    path, scanned = tmp_path / "run.tape", tmp_path / "scanned.tape"
    live = arenas(path, Large, 24, keyframe_interval_ticks=2, full_every=3, **settings)
    arenas(scanned, Large, 24, keyframe_interval_ticks=2, full_every=3, changes="scan", **settings)
    if len(segment_numbers(path)) == 1:
        keyframes = list(CheckedTape(path).keyframes())
        assert [(one.tick, one.is_full) for one in keyframes] == [(tick, tick % 6 == 0) for tick in range(0, 25, 2)]
        assert all(one.arena == live[one.tick] for one in keyframes)
    with replayer.Timeline(path, Large) as run, replayer.Timeline(scanned, Large) as other:
        assert [place.tick for place in run.tape.keyframes] == list(range(0, 25, 2))
        for place, its in zip(run.tape.keyframes, other.tape.keyframes, strict=True):
            assert (
                run.tape.snapshot(place).arena.tobytes() == live[place.tick] == other.tape.snapshot(its).arena.tobytes()
            )
    assert verify_tape(path, Large).ok


def test_a_write_without_a_mark_is_reported_while_recording(tmp_path: Path) -> None:
    """Reported at the next full keyframe, which is copied at the following tick instead; all frames were right."""
    path = tmp_path / "run.tape"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Recorder(path, Large(forgets_at=5), keyframe_interval_ticks=4, full_every=2) as tape:
            live = {}
            for tick in range(1, 41):
                tape.step()
                live[tick] = tape.simulation.state.arena.tobytes()
                tape.flush()
    told = [str(one.message) for one in caught]
    assert len(told) == 1
    assert "the state at tick 8 has changes that were not marked" in told[0]
    with replayer.Timeline(path, lambda: Large(forgets_at=5)) as run:
        for tick in (*range(1, 41), 3, 9, 22):
            assert run[tick].arena.tobytes() == live[tick]
        fulls = [place.tick for place in run.tape.keyframes if place.is_full]
    assert fulls[:2] == [0, 9]  # The tick after that; from there on as usual.
    assert fulls[-1] > 32


class Growing:
    """Marks what it writes, but for one field; its table grows from 1 KB to 170 KB."""

    marks_writes = True

    def __init__(self) -> None:
        self.state = State(
            Schema(Field("tick", "i8"), Field("forgotten", "i8"), Table("t", Field("a", "i8"), capacity=8))
        )

    def step(self, _: Any) -> None:
        """Add rows, write all of the last ones, and one number without a mark while the state is small."""
        state = self.state
        tick = int(state["tick"]) + 1
        state.set("tick", 0, tick)
        if len(state.arena) < 1 << 16:
            state["forgotten"][...] = tick
        new = state.add_rows("t", 700)
        state["t.a"][new] = tick
        state.mark("t.a", np.arange(new.start, new.stop))


def test_auto_scans_a_small_state_and_takes_the_marks_of_a_large_one(tmp_path: Path) -> None:
    """Every keyframe is the live state, also of fields without marks while the state is small enough for a scan."""
    path = tmp_path / "run.tape"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live = arenas(path, Growing, 30, keyframe_interval_ticks=2, full_every=3)
    assert len(live[0]) < 1 << 16 < len(live[30])
    assert not any(live[tick] == live[tick - 1] for tick in range(1, 31))
    assert [one.tick for one in CheckedTape(path).keyframes()] == list(range(0, 31, 2))
    assert all(one.arena == live[one.tick] for one in CheckedTape(path).keyframes())
    assert verify_tape(path, Growing).ok


def test_few_rows_are_gathered_and_many_are_copied() -> None:
    """Gathering rows and copying fields give the same delta and the same full state."""
    world = Large()
    marks = MarkedChanges(world.state)
    marks.reset(None)
    baseline = world.state.snapshot()
    for _ in range(3):
        world.step(None)
    chosen = marks.changed_fields()
    assert chosen["dense"] is None
    assert chosen["sparse"] is None  # Checking its flags takes longer than copying it.
    assert len(chosen["rows"]) == 3
    assert "still" not in chosen
    ways = [chosen, marks.changed_rows(), dict.fromkeys(chosen)]
    arena, layout = world.state.arena, world.state.layout
    made = [gather_changes(arena, layout, rows) for rows in ways]
    for changes in made:
        copy = Snapshot(layout, baseline.arena.copy())
        assert apply_changes(copy, changes).arena.tobytes() == arena.tobytes()
    payloads = [bytes(encode_delta(3, world.state.hash(), changes, baseline)) for changes in made]
    assert len(set(payloads)) == 1
    assert decode_delta(payloads[0], baseline, 0)[1].arena.tobytes() == arena.tobytes()


def test_memory_is_used_again_and_nothing_in_it_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Returned memory is overwritten at once, as its next user would do: no keyframe may still need it."""

    def give(self: BufferPool, buffer: np.ndarray[Any, Any]) -> None:
        given.append(len(buffer))
        buffer.flags.writeable = True
        buffer[:] = 0xA5  # Before it is returned: afterwards a different thread may own it.
        before(self, buffer)

    before, given = BufferPool.give, list[int]()
    monkeypatch.setattr(BufferPool, "give", give)
    for settings in ({}, {"changes": "scan"}, {"mode": "changes"}, {"changes": "scan", "mode": "changes"}):
        path = tmp_path / "run.tape"
        live = arenas(path, Large, 24, keyframe_interval_ticks=2, full_every=3, **settings)
        with replayer.Tape(path) as tape:
            for place in tape.keyframes:
                assert tape.snapshot(place).arena.tobytes() == live[place.tick], settings
        path.unlink()
    assert len(given) > 40
    buffers = BufferPool()
    buffers.give(np.zeros(100, np.uint8))
    one = buffers.take(50)
    assert (len(one), len(buffers.take(100)), len(buffers.take(100))) == (50, 100, 100)
