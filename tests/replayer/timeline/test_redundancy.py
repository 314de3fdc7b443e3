"""A tape is redundant: with any block destroyed, every tick that does not need it is reached and right (promise P6)."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

import replayer
from recorder import CorruptError, MissingTickError
from recorder.storage.file_names import segment_path

from oracle.live_runs import Live
from oracle.readings import Original
from oracle.repair_runs import Pushed, destroy, record_small
from oracle.second_reader import DELTA, FRAMES, FULL
from small_worlds import Herd, Saved

pytestmark = pytest.mark.share(0.18)

WORLDS: dict[str, Any] = {"walkers": Pushed, "herd": Herd, "saved": Saved}
TICKS = 40


def unreachable(original: Original, number: int, block: Any) -> range:
    """The ticks that need this block: nothing else on the tape leads to them."""
    keyframes = [b for blocks in original.blocks.values() for b in blocks if b.kind in {FULL, DELTA}]
    if block.kind == FRAMES:
        following = [k.first_tick for k in keyframes if k.first_tick >= block.first_tick]
        return range(block.first_tick, min(following, default=TICKS + 1))
    if (number, block.kind, block.first_tick) == (0, FULL, 0):
        following = [k.first_tick for k in keyframes if k.kind == FULL and k.first_tick > 0]
        return range(min(following, default=TICKS + 1))
    return range(0)


def assert_reached_but(path: Path, make: Any, live: Live, lost: range, order: list[int]) -> None:
    """Seek each tick in this order: the live state, or, for a lost tick, an error with the reason."""
    with replayer.Timeline(path, make) as run:
        for tick in order:
            if tick in lost:
                with pytest.raises((CorruptError, MissingTickError)):
                    run.seek(tick)
            else:
                run.seek(tick)
                assert (run.state.hash(), run.state.arena.tobytes()) == live[tick][:2], tick


FORMS: dict[str, Any] = {"one file": {}, "files": {"split": 900, "deterministic": True}}
ORDINARY = {  # Each world, each way, each form.
    ("walkers", "payload", "files"),
    ("walkers", "header", "one file"),
    ("herd", "header", "files"),
    ("herd", "zeros", "one file"),
    ("saved", "zeros", "files"),
    ("saved", "payload", "one file"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "how", "form"),
    [
        pytest.param(*one, marks=() if one in ORDINARY else pytest.mark.long)
        for one in itertools.product(WORLDS, ["payload", "header", "zeros"], FORMS)
    ],
)
def test_every_tick_outside_of_a_destroyed_block(tmp_path: Path, name: str, how: str, form: str) -> None:
    """Each block of each file in turn, every tick in random order, compared with the live run."""
    path, make = tmp_path / "run.tape", WORLDS[name]
    live = record_small(path, make(), TICKS, **FORMS[form])
    original = Original.at(path)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    for number, blocks in original.blocks.items():
        file = segment_path(path, number)
        for block in blocks:
            file.write_bytes(destroy(original.files[number], block, how))
            order = chance.sample(range(TICKS + 1), TICKS + 1)
            assert_reached_but(path, make, live, unreachable(original, number, block), order)
        file.write_bytes(original.files[number])


@pytest.mark.parametrize("name", WORLDS)
def test_with_all_keyframes_but_the_first_destroyed(tmp_path: Path, name: str) -> None:
    """The first one and the inputs are enough."""
    path, make = tmp_path / "run.tape", WORLDS[name]
    live = record_small(path, make(), TICKS)
    original = Original.at(path)
    data = original.files[0]
    for block in original.blocks[0]:
        if block.kind in {FULL, DELTA} and block.first_tick:
            data = destroy(data, block, "payload")
    path.write_bytes(data)
    assert_reached_but(path, make, live, range(0), list(range(TICKS + 1)))


@pytest.mark.parametrize("name", WORLDS)
def test_with_all_frames_destroyed(tmp_path: Path, name: str) -> None:
    """Keyframes are verified by their own hash; each is reached without a frame of its tick."""
    path, make = tmp_path / "run.tape", WORLDS[name]
    live = record_small(path, make(), TICKS)
    original = Original.at(path)
    data = original.files[0]
    keyframes = {block.first_tick for block in original.blocks[0] if block.kind in {FULL, DELTA}}
    for block in original.blocks[0]:
        if block.kind == FRAMES:
            data = destroy(data, block, "payload")
    path.write_bytes(data)
    with replayer.Timeline(path, make) as run:
        for tick in range(TICKS + 1):
            if tick in keyframes:
                run.seek(tick)
                assert run.state.arena.tobytes() == live[tick][1]
            else:
                with pytest.raises((CorruptError, MissingTickError)):
                    run.seek(tick)
