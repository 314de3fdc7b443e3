"""Everything that a reader gets from the files of a tape, with all problems that it reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from recorder import RecordingError
from recorder.storage.file_names import segment_numbers, segment_path
from replayer.tape.tape import Tape
from replayer.timeline.verify import check_seal

from oracle import second_reader
from oracle.second_checks import CheckedTape

Range = tuple[int, int, int]  # Number of a file, offset, end offset.


@attrs.frozen
class Found:
    """The result of reading everything on a tape; two equal ones are the same recording.

    Attributes:
        frames: by tick, hash and inputs.
        states: by tick, True for a full keyframe, hash, bytes.
        meta: the description of the recording.
        sealed: True if the recording was closed.
    """

    frames: dict[int, Any]
    states: dict[int, Any]
    meta: dict[str, Any]
    sealed: bool

    def is_part_of(self, truth: Found) -> bool:
        """Return True if nothing was invented: everything that was found is true."""
        return (
            self.frames.items() <= truth.frames.items()
            and self.states.items() <= truth.states.items()
            and _of_the_run(self.meta) in ({}, _of_the_run(truth.meta))
        )


def _of_the_run(meta: dict[str, Any]) -> dict[str, Any]:
    """META without facts about a single file."""
    return {key: value for key, value in meta.items() if key != "segment"}


@attrs.frozen
class Reading:
    """The result of one reading.

    Attributes:
        found: the content; None if the tape could not be opened.
        status: of the tape after all of it was read; "unreadable" if it could not be opened.
        problems: all reported problems.
    """

    found: Found | None
    status: str
    problems: list[Any]

    @property
    def offsets(self) -> list[int]:
        """The offsets of all reported problems, in any file."""
        return [problem.offset for problem in self.problems if hasattr(problem, "offset")]


def read_everything(path: Path) -> Reading:
    """Open the tape and read everything; exceptions other than RecordingError pass through."""
    try:
        tape = Tape(path)
    except RecordingError as error:
        return Reading(None, "unreadable", [error])
    with tape:
        problems: list[Any] = [*tape.damages, *check_seal(tape), *tape.check_blocks()]
        problems += tape.missing_segments
        problems += [] if tape.meta else ["META is lost"]
        frames: dict[int, Any] = {}
        states: dict[int, Any] = {}
        try:
            problems += tape.missing_ticks()
            last_tick = tape.last_tick
        except RecordingError as error:
            problems.append(error)
            last_tick = 0
        for tick in range(1, last_tick + 1):
            try:
                frame = tape.frame(tick)
                frames[tick] = (frame.state_hash, frame.inputs)
            except RecordingError as error:
                problems.append(error)
        for place in tape.keyframes:
            try:
                snapshot = tape.snapshot(place)
                states[place.tick] = (place.is_full, snapshot.hash(), snapshot.arena.tobytes())
            except RecordingError as error:
                problems.append(error)
        return Reading(Found(frames, states, tape.meta, tape.sealed), tape.status, problems)


def truth_of(path: Path) -> Found:
    """The content of an undamaged tape, by the second reader."""
    tape = CheckedTape(path)
    frames = {tick: (state_hash, inputs) for tick, state_hash, inputs in tape.frames()}
    states = {keyframe.tick: (keyframe.is_full, keyframe.state_hash, keyframe.arena) for keyframe in tape.keyframes()}
    return Found(frames, states, tape.meta, tape.seal is not None and tape.seal["final"])


@attrs.frozen(eq=False)
class Original:
    """An undamaged tape.

    Attributes:
        path: of its first file.
        files: the bytes of each, by number.
        blocks: of each file, as the second reader sees them.
        truth: all that is on it.
    """

    path: Path
    files: dict[int, bytes]
    blocks: dict[int, list[Any]]
    truth: Found

    @classmethod
    def at(cls, path: Path) -> Original:
        """The tape at path."""
        files = {number: segment_path(path, number).read_bytes() for number in segment_numbers(path)}
        blocks = {number: second_reader.Reader(data, number).blocks for number, data in files.items()}
        return cls(path, files, blocks, truth_of(path))

    def read_with(self, number: int, data: bytes) -> Reading:
        """Read the tape with changed bytes in one of its files, which is restored afterwards."""
        changed = segment_path(self.path, number)
        changed.write_bytes(data)
        try:
            return read_everything(self.path)
        finally:
            changed.write_bytes(self.files[number])

    def hit(self, number: int, start: int, end: int) -> list[Any]:
        """The blocks with bytes from start up to end."""
        return [b for b in self.blocks[number] if b.offset < end and end_of(b) > start]

    def places(self, number: int, start: int, end: int) -> list[int]:
        """The offsets of the structures with bytes from start up to end: file header, blocks, trailer."""
        starts = [0] if start < 64 else []
        trailer = len(self.files[number]) - 24
        return starts + [block.offset for block in self.hit(number, start, end)] + ([trailer] if end > trailer else [])

    def lost_by(self, hit: list[Any]) -> Found:
        """The content that is left when these blocks are gone."""
        seqs = {block.seq for block in hit}
        ticks = {tick for block in hit if block.kind == second_reader.FRAMES for tick in second_reader.ticks_of(block)}
        gone = set()
        for block in (block for blocks in self.blocks.values() for block in blocks):
            built_upon = {second_reader.FULL: {block.seq}, second_reader.DELTA: {block.seq, block.seq - block.baseline}}
            if built_upon.get(block.kind, set()) & seqs:
                gone.add(block.first_tick)
        frames = {tick: frame for tick, frame in self.truth.frames.items() if tick not in ticks}
        states = {tick: state for tick, state in self.truth.states.items() if tick not in gone}
        return Found(frames, states, self.truth.meta, self.truth.sealed)


def end_of(block: Any) -> int:
    """The end of a block in its file."""
    return block.offset + 72 + -(-block.stored // 8) * 8
