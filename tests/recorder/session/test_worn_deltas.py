"""Deltas grow with the distance to their full keyframe: a new full one comes before they cost more than it saves."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer
from recorder import Recorder
from recorder.format.blocks.block import BlockKind
from sim import Field, Schema, State

from oracle.repair_runs import all_blocks

KEYFRAMES, INTERVAL, ROWS = 60, 2, 4000


class Spreading:
    """Noise that takes ``share`` more of the rows with every keyframe."""

    marks_writes = True

    def __init__(self, share: float = 0.0) -> None:
        self.state, self.share = State(Schema(Field("noise", "u8", (ROWS,)), Field("tick", "i8"))), share
        self.state["noise"][:] = np.random.Generator(np.random.PCG64(1)).integers(0, 1 << 63, ROWS)

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it lives on its own
        tick = int(self.state["tick"]) + 1
        first = int(tick * self.share * ROWS / INTERVAL) % ROWS
        rows = np.arange(first, min(ROWS, first + max(1, int(self.share * ROWS))))
        self.state.set("noise", rows, np.random.Generator(np.random.PCG64(tick)).integers(0, 1 << 63, len(rows)))
        self.state.set("tick", 0, tick)


def recorded(path: Path, share: float, full_every: int, **settings: Any) -> list[tuple[int, int]]:
    """Return the kind and the stored bytes of each keyframe."""
    with Recorder(
        path, Spreading(share), keyframe_interval_ticks=INTERVAL, full_every=full_every, sync="never", **settings
    ) as tape:
        live = []
        for _ in range(INTERVAL * KEYFRAMES):
            tape.step()
            live.append(tape.simulation.state.arena.tobytes())
            tape.flush()
    with replayer.Timeline(path, Spreading) as run:
        for tick in range(INTERVAL, INTERVAL * KEYFRAMES, 7 * INTERVAL):
            assert run[tick].arena.tobytes() == live[tick - 1]
    blocks = [block for block in all_blocks(path) if block.kind in (BlockKind.FULL, BlockKind.DELTA)]
    return [(block.kind, block.stored) for block in blocks]


@pytest.mark.parametrize("changes", ["marks", "scan"])
@pytest.mark.seldom(0.18)
def test_a_full_keyframe_comes_when_the_deltas_have_grown(tmp_path: Path, changes: Any) -> None:
    """At most the last delta takes their sum above the size of the full one; other intervals give more bytes."""
    found = recorded(tmp_path / "run.tape", 0.03, 1000, changes=changes)
    fulls = [number for number, (kind, _) in enumerate(found) if kind == BlockKind.FULL]
    assert len(fulls) > 3
    for begin, end in pairwise(fulls):
        deltas = [size for _, size in found[begin + 1 : end]]
        assert sum(deltas[:-1]) < found[begin][1] <= sum(deltas)
    total = sum(size for _, size in found)
    for full_every in (2, 3, 30):
        other = recorded(tmp_path / f"{full_every}.tape", 0.03, full_every, changes=changes, deterministic=True)
        assert total < sum(size for _, size in other), full_every


@pytest.mark.parametrize(("share", "settings"), [(0.0, {}), (0.03, {"deterministic": True})])
def test_otherwise_every_nth_is_full(tmp_path: Path, share: float, settings: Any) -> None:
    """full_every applies where little changes, and where equal runs must give equal bytes."""
    found = recorded(tmp_path / "run.tape", share, 6, **settings)
    assert [kind == BlockKind.FULL for kind, _ in found] == [number % 6 == 0 for number in range(KEYFRAMES + 1)]
