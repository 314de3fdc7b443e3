"""Tapes of several files truncated, emptied and removed: complete blocks are read, the rest is reported (P1, P5)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from recorder import Recorder
from recorder.errors import MissingTickError, RecordingError
from recorder.format.recording.assembly import Assembled, SegmentInput, assemble
from recorder.format.segments.segment_contents import NoTapeError
from recorder.storage.file_names import segment_path

from oracle.readings import Original, end_of
from oracle.second_reader import FRAMES, INDEX, ticks_of
from small_worlds import Walkers

TICKS = 26


def record(path: Path, **settings: Any) -> Original:
    """Record a sealed tape of several files."""
    usual: dict[str, Any] = {"keyframe_interval_ticks": 3, "full_every": 3, "split": 600, "deterministic": True}
    with Recorder(path, Walkers(), **usual | settings) as tape:
        for tick in range(1, TICKS + 1):
            tape.step([[tick % 20, tick]])
    original = Original.at(path)
    assert len(original.files) > 3
    return original


def assembled_of(files: dict[int, bytes], **how: Any) -> Assembled:
    """Assemble the recording in these files."""
    sources = [
        SegmentInput(number, lambda offset, size, data=data: data[offset : offset + size], len(data))
        for number, data in sorted(files.items())
    ]
    return assemble(sources, **how)


def frames_of(assembled: Assembled) -> dict[int, Any]:
    """All frames that can be read; frames may be missing, never damaged."""
    recording, found = assembled.recording, {}
    try:
        ticks = range(recording.first_tick, recording.last_tick + 1)
    except MissingTickError:
        return {}
    for tick in ticks:
        try:
            frame = recording.frame(tick)
            found[tick] = (frame.state_hash, frame.inputs)
        except MissingTickError:
            continue
    return found


@pytest.mark.parametrize("sync", ["never", "block"])
@pytest.mark.seldom(0.15)
def test_every_cut_of_every_file(tmp_path: Path, sync: str) -> None:
    """Opening never raises, the blocks are exactly the complete ones; only the last file may have a torn end."""
    original = record(tmp_path / "run.tape", sync=sync)
    last = max(original.files)
    for number in (0, 1, last):
        data = original.files[number]
        ends = {end_of(block) for block in original.blocks[number]}
        near = {end + distance for end in ends for distance in (-1, 0, 1, 8)}
        for size in sorted(near & set(range(len(data))) | {0, 1, 63, 64, 65} | set(range(number, len(data), 13))):
            assembled = assembled_of(original.files | {number: data[:size]})
            whole = [b for n, blocks in original.blocks.items() for b in blocks if n != number or end_of(b) <= size]
            ticks = {tick for block in whole if block.kind == FRAMES for tick in ticks_of(block)}
            assert assembled.status == ("incomplete" if number == last else "corrupt"), (number, size)
            if size in ends:
                first = assembled.recording.first_tick
                assert frames_of(assembled) == {
                    t: f for t, f in original.truth.frames.items() if t in ticks and t >= first
                }
            listed = {(s.number, e.offset) for s in assembled.recording.segments for e in s.contents.entries}
            assert listed == {
                (n, b.offset)
                for n, blocks in original.blocks.items()
                for b in blocks
                if b in whole and b.kind != INDEX and (n != number or size >= 64)
            }


def test_every_cut_of_an_unsealed_last_file(tmp_path: Path) -> None:
    """The last file as a killed process leaves it."""
    original = record(tmp_path / "run.tape", sync="block")
    last = max(original.files)
    *_, index, _ = original.blocks[last]
    for size in range(index.offset + 1):
        assembled = assembled_of(original.files | {last: original.files[last][:size]})
        assert (assembled.status, assembled.final) == ("incomplete", False)
        ends = {0, 64, *(end_of(block) for block in original.blocks[last])}
        assert [d.torn for d in assembled.damages] == ([] if size in ends - {0} else [True])


def test_each_file_removed(tmp_path: Path) -> None:
    """The missing file is named; ticks of all others can be read."""
    original = record(tmp_path / "run.tape")
    for number in original.files:
        others = {n: data for n, data in original.files.items() if n != number}
        assembled = assembled_of(others)
        is_last = number == max(original.files)
        assert assembled.missing_segments == ([] if is_last else [number])
        assert (assembled.status, assembled.final) == (("incomplete", False) if is_last else ("corrupt", True))
        ticks = {t for n in others for b in original.blocks[n] if b.kind == FRAMES for t in ticks_of(b)}
        assert frames_of(assembled) == {
            t: f for t, f in original.truth.frames.items() if t in ticks and t >= assembled.recording.first_tick
        }


def test_any_files_removed_from_a_ring(tmp_path: Path) -> None:
    """A ring removes its oldest files itself. A sealed one says which ones it had; a gap is a missing file in any case."""
    original = record(tmp_path / "run.tape", keep=100)
    numbers = sorted(set(original.files) - {0})
    assert assembled_of(original.files).status == "not checked"
    for first in range(1, len(numbers)):
        kept = {n: data for n, data in original.files.items() if n == 0 or n >= numbers[first]}
        assembled = assembled_of(kept)
        assert (assembled.status, assembled.missing_segments) == ("corrupt", numbers[:first])
        if len(kept) > 3:
            gap = sorted(kept)[2]
            assembled = assembled_of({n: data for n, data in kept.items() if n != gap})
            assert (assembled.status, assembled.missing_segments) == ("corrupt", [*numbers[:first], gap])
            unsealed = [n for n in kept if n not in (gap, numbers[-1])]
            assembled = assembled_of({n: original.files[n] for n in unsealed})
            assert assembled.missing_segments == ([gap] if gap < max(unsealed) else [])


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_any_damage_at_once(tmp_path: Path, seed: int) -> None:
    """Files truncated, zeroed, smeared, exchanged, missing, all together: RecordingError or the truth, nothing else."""
    original = record(tmp_path / "run.tape")
    chance = random.Random(seed)
    for _ in range(60):
        files = dict(original.files)
        for number in chance.sample(sorted(files), chance.randint(1, len(files))):
            data = files[number]
            place = chance.randrange(len(data))
            changed = {
                "cut": data[:place],
                "zero": bytes(len(data)),
                "smear": data[:place] + chance.randbytes(40) + data[place + 40 :],
                "twice": data + data,
                "other": original.files[chance.choice(sorted(original.files))],
                "empty": b"",
                "missing": None,
            }[chance.choice(["cut", "zero", "smear", "smear", "twice", "other", "empty", "missing"])]
            if changed is None and len(files) > 1:
                del files[number]
            elif changed is not None:
                files[number] = changed
        try:
            assembled = assembled_of(files, believe_index=chance.random() < 0.5)
        except NoTapeError:
            continue
        recording = assembled.recording
        for tick in range(TICKS + 2):
            try:
                frame = recording.frame(tick)
            except RecordingError:
                continue
            assert (frame.state_hash, frame.inputs) == original.truth.frames[tick]
        for place in recording.believing_index(lambda recording=recording: recording.keyframes):
            try:
                snapshot = recording.snapshot(place)
            except RecordingError:
                continue
            assert snapshot.arena.tobytes() == original.truth.states[place.tick][2]


def test_a_foreign_file_after_the_last_one_is_ignored(tmp_path: Path) -> None:
    """A file with the right name, but of a different run or not a segment, is not part of the tape."""
    original = record(tmp_path / "run.tape")
    folder = tmp_path / "other"
    folder.mkdir()
    other = record(folder / "run.tape", run_id=bytes(16))
    next_number = max(original.files) + 1
    assembled = assembled_of(original.files | {next_number: other.files[1]})
    assert (assembled.status, frames_of(assembled)) == ("not checked", original.truth.frames)
    segment_path(original.path, next_number).write_bytes(b"notes")
    assembled = assembled_of(original.files | {next_number: b"notes"})
    assert frames_of(assembled) == original.truth.frames
