"""Tapes mutated with corrected checksums: reading ends in data or in a RecordingError, never in anything else.

The long, coverage-guided run of the same mutator is tools/campaigns/fuzz.py.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from oracle.exhaust import exhaust
from oracle.mending_mutator import SeededChoices, mutate_tape
from small_worlds import Herd, Saved, record

TAPES_EACH = 150


def make_bases(folder: Path) -> list[list[bytes]]:
    """The segments of a few intact tapes."""
    record(folder / "herd.tape", Herd(1), [None] * 40, keyframe_interval_ticks=6, full_every=3, deterministic=True)
    record(folder / "saved.tape", Saved(), list(range(30)), keyframe_interval_ticks=5, deterministic=True)
    record(folder / "split.tape", Herd(2), [None] * 40, keyframe_interval_ticks=5, deterministic=True, split=2000)
    names = ("herd", "saved", "split")
    return [[file.read_bytes() for file in sorted(folder.glob(f"{name}.tape*"))] for name in names]


@pytest.mark.parametrize("believe_index", [True, False])
def test_every_failure_is_a_recording_error(tmp_path: Path, believe_index: bool) -> None:  # noqa: FBT001
    """A seeded walk through mutated tapes; any other exception passes through, with its seed."""
    bases = make_bases(tmp_path)
    first_seed = random.randrange(1 << 32)
    for seed in range(first_seed, first_seed + TAPES_EACH):
        choices = SeededChoices(seed)
        segments = list(bases[choices.integer(0, len(bases) - 1)])
        changed = choices.integer(0, len(segments) - 1)
        segments[changed] = mutate_tape(segments[changed], choices)
        try:
            exhaust(segments, believe_index=believe_index)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_mutator_mends_what_it_changes(tmp_path: Path) -> None:
    """Most mutated tapes still open: the changes pass the checksums."""
    (base, *_), *_ = make_bases(tmp_path)
    opened = [exhaust([mutate_tape(base, SeededChoices(seed))]) for seed in range(100)]
    assert opened.count("read") > 80
    assert len({mutate_tape(base, SeededChoices(seed)) for seed in range(100)}) > 90
