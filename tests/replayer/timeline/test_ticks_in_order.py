"""Ticks that are decoded ahead, many blocks at once, are those that each frame gives by itself."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

pytest.importorskip("gymnasium")

import gymnasium

import recorder
from recorder.format.blocks.frame import encode_frame
from recorder.format.recording.decoded_blocks import TicksInOrder, decoded_blocks
from recorder.format.recording.frame_columns import unpack_numbers
from replayer.tape.tape import Tape
from sim.kernel.plain_data import encode_plain

TICKS = 600


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps and resets of CartPole, in blocks of 40 ticks."""
    path = tmp_path_factory.mktemp("ticks") / "cart.tape"
    with recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, keyframe_interval_ticks=40) as env:
        env.action_space.seed(3)
        env.reset(seed=3)
        for _ in range(TICKS):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
    return path


def test_ranges_in_any_order_give_the_frames(tape: Path) -> None:
    with Tape(tape) as opened:
        last = opened.last_tick
        frames = {tick: opened.frame(tick) for tick in range(1, last + 1)}
        assert len([*decoded_blocks(opened.recording, 1, last)]) == 1  # Small blocks are decoded together.
        ticks = TicksInOrder(opened.recording, last)
        draw = random.Random(5)
        bounds = [0, *sorted(draw.sample(range(1, last), 30)), last]
        ranges = [(first + 1, end) for first, end in itertools.pairwise(bounds)]
        for first, end in [*ranges, *draw.sample(ranges, 8), (last - 5, last + 9), *ranges[:3]]:
            found = [*ticks.blocks(first, end)]
            expected = [frames[tick] for tick in range(first, min(end, last) + 1)]
            assert [one for block in found for one in block.inputs()] == [frame.inputs for frame in expected], first
            assert [int(one) for block in found for one in block.hashes] == [frame.state_hash for frame in expected]


def test_a_range_that_was_left_before_its_end_is_not_continued(tape: Path) -> None:
    with Tape(tape) as opened:
        ticks = TicksInOrder(opened.recording, opened.last_tick)
        for _ in range(2):  # Afresh, and ahead.
            assert [*ticks.blocks(1, 50)]
            next(ticks.blocks(51, 200))
            (block, *_) = ticks.blocks(201, 260)
            assert block.first_tick == 201
            assert block.inputs_at(0) == opened.frame(201).inputs


def test_frames_of_two_blocks_have_to_part_where_the_blocks_do() -> None:
    frames = [encode_frame(1 + n, n, encode_plain({"<i8": n})) for n in range(9)]
    payload, seam = b"".join(frames), sum(map(len, frames[:4]))
    assert unpack_numbers(payload, 1, 9, {seam: 4}) is not None
    assert unpack_numbers(payload, 1, 9, {seam + 1: 4}) is None
    assert unpack_numbers(payload, 1, 9, {seam: 5}) is None
