"""Resuming after a kill at any operation, five times over: nothing acknowledged is lost, and the run goes on the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recorder import Recorder
from recorder.errors import MissingTickError, UnreadableError

from oracle import second_reader
from oracle.crashes import Moment, lay_out, live_run, record_until, watch_recording, watch_resuming
from oracle.fake_files import MemoryFiles
from oracle.live_runs import Live, assert_agrees
from oracle.second_reader import META, SESSION_START
from oracle.second_state import unpack
from small_worlds import Walkers

DEATHS = 5
INTERVAL = 5

Make = Callable[[], Any]


def push(tick: int) -> Any:
    """Inputs for walkers."""
    return [[tick % 20, tick]]


@pytest.fixture(autouse=True)
def small_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal whose areas are used up after some ticks, so that both are used and it has to grow."""
    monkeypatch.setattr("recorder.journal.AREA_BYTES", 300)


def assert_resumed(tape: Recorder, moment: Moment, live: Live, *, nothing_lost: bool) -> None:
    """The world is at the last tick that was recorded, and in the state that it had there."""
    assert not nothing_lost or tape.tick >= moment.acknowledged, moment.label
    assert tape.resumed.tick == tape.tick, moment.label
    assert tape.simulation.state.arena.tobytes() == live[tape.tick][1], moment.label


def assert_tail_kept(moment: Moment, files: MemoryFiles) -> None:
    """What is no longer in the files was, byte for byte, set aside; zeros need not be."""
    gone = files.aside[len(moment.image.aside) :]
    for number, data in moment.image.segments.items():
        now = bytes(files.segments.get(number, b""))
        same = next((n for n, (a, b) in enumerate(zip(data, now, strict=False)) if a != b), min(len(data), len(now)))
        if same < len(data) and files.segments.get(number) is not None:
            assert any(data.endswith(kept) and len(data) - len(kept) <= same for kept in gone), moment.label


def assert_whole(files: MemoryFiles, folder: Path, live: Live, inputs: Any, last_tick: int) -> None:
    """The finished tape, read by the second reader, is that of a run that never crashed."""
    found = second_reader.Tape(lay_out(files, folder))
    first_tick = next(found.keyframes()).tick
    assert_agrees(found, live, [inputs(tick) for tick in range(1, last_tick + 1)], first_tick)
    assert [frame[0] for frame in found.frames()] == list(range(first_tick + 1, last_tick + 1))
    assert found.seal["final"]
    assert found.blocks[-1].durable == 0 or found.meta["settings"]["sync_interval_s"] is not None
    assert files.journal is None
    sessions = [unpack(b.payload)[0] for b in found.blocks if b.kind == META and b.flags & SESSION_START]
    ticks = [session["resumed_at_tick"] for session in sessions if "resumed_at_tick" in session]
    assert ticks == sorted(ticks)


LEVELS: list[tuple[str, str, dict[str, Any]]] = [
    ("tick", "1s", {}),
    ("tick", "block", {}),
    ("tick", "never", {}),
    ("tick", "1s", {"split": 700}),
    ("tick", "block", {"keep": 12}),
    ("block", "0s", {}),
    ("block", "never", {"split": 700}),
    ("none", "never", {}),
    ("tick", "1s", {"deterministic": True}),
]


@pytest.mark.parametrize(("durability", "sync", "more"), LEVELS)
def test_five_deaths_from_every_operation_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any, sync: str, more: dict[str, Any]
) -> None:
    """After a kill at an operation, whole or torn, four more sessions die somewhere; the run is the same throughout."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    live = live_run(Walkers, push, 90)
    settings = {"keyframe_interval_ticks": INTERVAL, "full_every": 3, "durability": durability, "sync": sync} | more
    moments = watch_recording(monkeypatch, Walkers, push, 14, **settings)
    finished_count = 0
    for start in chance.sample(moments, min(len(moments), 14)):
        moment = start
        try:
            for _ in range(DEATHS - 1):
                watch, tape = watch_resuming(moment, Walkers)
                assert_resumed(tape, moment, live, nothing_lost=durability == "tick")
                with tape:
                    record_until(tape, push, tape.tick + 5, 4)
                assert_tail_kept(moment, watch.files)
                moment = chance.choice(watch.moments)
        except (UnreadableError, MissingTickError):
            # Before the recorder was there, or before it wrote its first block: nothing to resume from.
            assert moment.acknowledged == 0 or durability != "tick", moment.label
            assert moment is start
            continue
        watch, tape = watch_resuming(moment, Walkers)
        assert_resumed(tape, moment, live, nothing_lost=durability == "tick")
        with tape:
            record_until(tape, push, 60, 7)
        assert_whole(watch.files, tmp_path, live, push, 60)
        finished_count += 1
    assert finished_count > 5
