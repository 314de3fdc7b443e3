"""Verification of a tape by re-simulation, block checks and the seal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import google_crc32c
import lz4.block
import msgpack
import pytest

import replayer
from recorder.format.blocks.block import HEADER_BYTES, BlockKind, decode_header, encode_header, pad
from replayer.timeline.verify import verify_tape

from small_worlds import Walkers, record

INPUTS = [[[i % 20, 2]] for i in range(50)]


@pytest.fixture
def tape_path(tmp_path: Path) -> Path:
    """Fifty ticks of walkers with a keyframe each eight."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), INPUTS, keyframe_interval_ticks=8, full_every=3)
    return path


def test_every_tick_of_an_intact_tape_is_verified(tape_path: Path) -> None:
    """All ticks, the first one included, are counted as verified."""
    report = verify_tape(tape_path, Walkers)

    assert report.ok
    assert (report.status, report.verified_ticks, report.tick_count) == ("intact", 51, 51)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_the_report_is_the_same_for_any_number_of_processes(tape_path: Path, jobs: int) -> None:
    """Progress ends at the number of ticks and the report does not depend on jobs."""
    seen: list[tuple[int, int]] = []
    report = verify_tape(tape_path, Walkers, jobs=jobs, progress=lambda done, total: seen.append((done, total)))

    assert (report.ok, report.verified_ticks) == (True, 51)
    assert seen[-1] == (51, 51)
    assert seen == sorted(seen)


class Wrong(Walkers):
    """Walkers with a different tick 29."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["rng"][2] == 29 * 40:
            self.state["y"][7] ^= 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_first_bad_tick_is_exact(tape_path: Path, jobs: int) -> None:
    """One wrong tick in the middle of an interval is found, with the differences at the next keyframe."""
    report = verify_tape(tape_path, Wrong, jobs=jobs, dump_folder=tape_path.parent)

    assert not report.ok
    assert report.first_bad == 29
    (difference,) = report.findings[0].differences
    assert (difference.field, difference.rows) == ("y", [(7,)])
    assert report.dump_path == tape_path.parent / "run.desync-29"


def rewrite_frames(path: Path, tick: int, change: Any) -> None:
    """Change one frame on a tape and mend all checksums of its block, as a careful forger would."""
    with replayer.Tape(path) as tape:
        (segment,) = tape.segments
        blocks = [e for e in segment.contents.entries if e.kind == BlockKind.FRAMES]
        entry = next(e for e in blocks if e.first_tick <= tick <= e.final_tick)
        payload = segment.joined(entry, 0)
    data = bytearray(path.read_bytes())
    header = decode_header(bytes(data[entry.offset : entry.offset + HEADER_BYTES]), entry.offset)
    frames = list(_frames(payload))
    change(frames[tick - entry.first_tick])
    raw = b"".join(
        bytes([0x90 + len(f)])
        + b"\xcf"
        + f[0].to_bytes(8)
        + b"\xcf"
        + f[1].to_bytes(8)
        + b"".join(map(msgpack.packb, f[2:]))
        for f in frames
    )
    room = header.padded_bytes
    stored = lz4.block.compress(raw, mode="high_compression", compression=12, store_size=False)
    assert len(stored) <= room, "the forged block must fit into its place"
    stored_bytes = len(stored)
    forged = attrs.evolve(
        header,
        stored_bytes=stored_bytes,
        raw_bytes=len(raw),
        payload_crc=google_crc32c.value(pad(stored)),
    )
    assert forged.padded_bytes == room
    data[entry.offset : forged.end_offset] = encode_header(forged) + pad(stored)
    path.write_bytes(data)


def _frames(payload: bytes) -> Any:
    unpacker = msgpack.Unpacker()
    unpacker.feed(payload)
    return unpacker


def test_a_changed_input_with_mended_checksums_is_a_desync_at_its_tick(tape_path: Path) -> None:
    """The re-simulated state of that tick does not have the recorded hash, and the seal is broken."""

    def change(frame: list[Any]) -> None:
        frame[2][0][1] = 3

    rewrite_frames(tape_path, 21, change)
    report = verify_tape(tape_path, Walkers)

    assert report.first_bad == 21
    assert any("seal" in str(problem) for problem in report.problems)


def test_a_changed_hash_is_found_even_at_a_keyframe(tape_path: Path) -> None:
    """A frame that contradicts the keyframe of its own tick is a finding at that tick."""

    def change(frame: list[Any]) -> None:
        frame[1] ^= 1

    rewrite_frames(tape_path, 24, change)
    report = verify_tape(tape_path, Walkers)

    assert report.first_bad == 24


def test_an_unsealed_tape_is_the_same_but_incomplete(tape_path: Path) -> None:
    """Cut before END: every tick verifies, ok is true, the status says incomplete."""
    data = tape_path.read_bytes()
    with replayer.Tape(tape_path) as tape:
        end = tape.segments[0].contents.entries[-1]
    tape_path.write_bytes(data[: end.offset])
    report = verify_tape(tape_path, Walkers)

    assert (report.ok, report.status, report.verified_ticks) == (True, "incomplete", 51)


def test_jobs_below_one_are_refused(tape_path: Path) -> None:
    """Zero processes cannot verify anything."""
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        verify_tape(tape_path, Walkers, jobs=0)


class Counted:
    """A factory that notes its calls in a file; its worlds open a pipe if they are to."""

    def __init__(self, calls: Path, *, opens: bool) -> None:
        self.calls, self.opens = calls, opens

    def __call__(self) -> Walkers:
        with self.calls.open("a", encoding="ascii") as file:
            file.write("x")
        made = Walkers()
        if self.opens:
            made.pipe = os.pipe()
        return made


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it is not known what a process has opened")
@pytest.mark.parametrize(("opens", "calls"), [(False, 1), (True, 2 + 7)])
def test_each_interval_begins_with_a_fresh_simulation(tape_path: Path, *, opens: bool, calls: int) -> None:
    """It is the copy of one that nothing has stepped; one that has opened files cannot be copied: each gets a new one."""
    made = tape_path.with_name("calls")
    factory = Counted(made, opens=opens)

    assert verify_tape(tape_path, factory).ok
    assert len(made.read_text(encoding="ascii")) == calls
