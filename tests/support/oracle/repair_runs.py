"""Recordings of many small blocks, ways to damage them, and the guarantees of a repair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import replayer
from recorder import Recorder
from recorder.format.blocks.block import HEADER_BYTES
from replayer.timeline.verify import check_seal, verify_tape

from oracle.live_runs import Live, look_at
from oracle.second_checks import CheckedTape
from oracle.second_reader import Reader
from small_worlds import Walkers

TICKS = 40


class Pushed(Walkers):
    """Walkers that a number pushes."""

    def step(self, inputs: Any) -> None:
        super().step([[inputs % 20, inputs]])


def record_small(path: Path, simulation: Any, ticks: int = TICKS, inputs: Any = None, **settings: Any) -> Live:
    """Record some ticks in many small blocks; return the live states. inputs: of each tick, by default its number."""
    with Recorder(path, simulation, **{"keyframe_interval_ticks": 7, "full_every": 3} | settings) as tape:
        live = {0: look_at(tape.simulation.state)}
        for tick in range(1, ticks + 1):
            tape.step(tick if inputs is None else inputs)
            live[tick] = look_at(tape.simulation.state)
            if tick % 4 == 0:
                tape.flush()
        tape.close({"reason": "tea"})
    return live


def destroy(data: bytes, block: Any, how: str) -> bytes:
    """The file with one damaged block."""
    start = block.offset + {"payload": HEADER_BYTES, "header": 30, "zeros": 0}[how]
    size = HEADER_BYTES + -(-block.stored // 8) * 8 if how == "zeros" else 1
    spoilt = bytes(size) if how == "zeros" else bytes([data[start] ^ 0x10])
    return data[:start] + spoilt + data[start + size :]


def all_blocks(path: Path) -> list[Any]:
    """All blocks of the repaired tape, read by the second reader, which is strict about everything."""
    return CheckedTape(path).blocks


def assert_right(target: Path, live: Live, lost: range, make: Any) -> None:
    """All frames except the lost ones, and states as they were live; lost ones as a DROP; no problem is reported."""
    found = CheckedTape(target)
    frames = {tick: state_hash for tick, state_hash, _ in found.frames()}
    first = next(found.keyframes()).tick
    assert frames == {tick: live[tick][0] for tick in range(first + 1, max(live) + 1) if tick not in lost}
    for keyframe in found.keyframes():
        assert (keyframe.state_hash, keyframe.arena) == live[keyframe.tick][:2]
    with replayer.Timeline(target, make) as run:
        assert [(drop.first_tick, drop.last_tick) for drop in run.tape.drops] == ([(lost[0], lost[-1])] if lost else [])
        assert run.tape.status == ("incomplete" if lost else "not checked")
        assert run.tape.check_blocks() + check_seal(run.tape) == []
        next_keyframe = min((k.tick for k in run.tape.keyframes if lost and k.tick >= lost[-1]), default=max(live) + 1)
        for tick in range(first, max(live) + 1):
            if not lost or not lost[0] <= tick < next_keyframe:
                run.seek(tick)
                assert run.state.arena.tobytes() == live[tick][1], tick


def assert_verified(target: Path, make: Any) -> None:
    """Assert that ``replay verify`` reports nothing."""
    report = verify_tape(target, make)
    assert report.problems == []
    assert report.ok


def record_pushed(path: Path) -> tuple[Path, Live, list[Any]]:
    """A tape of walkers at path, their states, and its blocks."""
    live = record_small(path, Pushed())
    return path, live, Reader(path.read_bytes()).blocks


def spoil(path: Path, *blocks: Any) -> bytes:
    """Destroy the payloads of these blocks; return the damaged file."""
    data = path.read_bytes()
    for block in blocks:
        data = destroy(data, block, "payload")
    path.write_bytes(data)
    return data


def block_at(blocks: list[Any], kind: int, tick: int) -> Any:
    """The block of this kind that contains this tick."""
    return next(b for b in blocks if b.kind == kind and b.first_tick <= tick <= b.first_tick + max(0, b.tick_count - 1))
