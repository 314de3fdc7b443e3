"""The modes of a reader: read everything intact, only what comes before the damage, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import replayer
from recorder import CorruptError
from recorder.format.blocks.block import BlockKind

from small_worlds import Walkers, record

TICKS = 40


@pytest.fixture
def tape_path(tmp_path: Path) -> Path:
    """A tape of three files or more."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), [None] * TICKS, keyframe_interval_ticks=5, split=600, deterministic=True)
    assert Path(f"{path}.2").exists()
    return path


def damage_second_frames(path: Path) -> tuple[int, int]:
    """Destroy a block of frames in the first file; return its first and last tick."""
    with replayer.Tape(path) as tape:
        frames = [entry for entry in tape.segments[0].contents.entries if entry.kind == BlockKind.FRAMES][1]
    data = bytearray(path.read_bytes())
    data[frames.offset + 10] ^= 1
    path.write_bytes(data)
    return frames.first_tick, frames.final_tick


def test_an_intact_tape_is_the_same_in_every_mode(tape_path: Path) -> None:
    """All modes read everything."""
    for mode in ("salvage", "prefix", "strict"):
        with replayer.Timeline(tape_path, Walkers, mode=mode) as run:
            assert (run.first_tick, run.last_tick, run.tape.missing_ticks()) == (0, TICKS, [])


def test_damage(tape_path: Path) -> None:
    """Salvage reads the ticks after it, prefix ends before it, strict refuses."""
    first, last = damage_second_frames(tape_path)
    with replayer.Timeline(tape_path, Walkers) as run:
        assert run.last_tick == TICKS
        with pytest.raises(CorruptError):
            run.seek(first)
        assert run.tape.status == "corrupt"  # The index hid it until a block was missed.
        run.seek(last + 1)
    with replayer.Timeline(tape_path, Walkers, mode="prefix") as run:
        assert run.last_tick == first - 1
        run.seek(-1)
    with pytest.raises(CorruptError):
        replayer.Timeline(tape_path, Walkers, mode="strict")


def test_a_missing_file(tape_path: Path) -> None:
    """Prefix ends before the gap, strict refuses."""
    with replayer.Tape(tape_path) as tape:
        final = tape.segments[1].parts[0].load()
        gap_first = int(final.keyframe_ticks[0])
    Path(f"{tape_path}.1").unlink()
    with replayer.Timeline(tape_path, Walkers) as run:
        assert (run.last_tick, run.tape.status, run.tape.missing_segments) == (TICKS, "corrupt", [1])
    with replayer.Timeline(tape_path, Walkers, mode="prefix") as run:
        assert run.last_tick == gap_first
    with pytest.raises(CorruptError, match="segment 1 is missing"):
        replayer.Timeline(tape_path, Walkers, mode="strict")


def test_an_unknown_mode_is_refused(tape_path: Path) -> None:
    """The message lists the modes."""
    with pytest.raises(ValueError, match="salvage"):
        replayer.Timeline(tape_path, Walkers, mode="lenient")  # type: ignore[arg-type]
