"""Prove a recording: read every block, check the seal, re-simulate every interval and compare every hash.

Intervals are independent, because every keyframe is a starting point; they are verified in order, by one process or
by several, and the report is the same for any number of them.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.format.block import HEADER_BYTES, Kind
from recorder.format.scan import read_header
from recorder.format.seal import DIGEST_BYTES
from replayer.cursor import Cursor
from replayer.desync.dump import write_dump
from replayer.desync.finding import Finding, find_desync
from replayer.tape import Tape
from replayer.worlds import Factory, make_simulation

Progress = Callable[[int, int], None]  # Ticks verified so far, ticks in all.


@attrs.frozen
class Interval:
    """What one keyframe leads to.

    Attributes:
        keyframe_tick: where it starts.
        final_tick: the last tick that is compared: the next keyframe's, or the last of the tape.
    """

    keyframe_tick: int
    final_tick: int


@attrs.frozen
class IntervalResult:
    """What came of an interval.

    Attributes:
        verified_ticks: how many ticks had the recorded hash.
        bad_tick: the first with another one; None if there is none.
        problem: why some ticks could not be verified; None if all were.
    """

    verified_ticks: int
    bad_tick: int | None = None
    problem: RecordingError | None = None


@attrs.frozen(eq=False)
class Report:
    """What a verification found.

    Attributes:
        status: of the tape: "intact", "incomplete" or "corrupt".
        verified_ticks: ticks whose replayed state has the recorded hash.
        tick_count: ticks on the tape.
        first_bad: the first tick with another hash; None if there is none.
        findings: what is known of it; empty if there is none.
        problems: damage and ticks that could not be reached.
        dump_path: the folder of the dump; None if there is none.
    """

    status: str
    verified_ticks: int
    tick_count: int
    first_bad: int | None
    findings: list[Finding]
    problems: list[RecordingError]
    dump_path: Path | None

    @property
    def ok(self) -> bool:
        """Every tick on the tape was re-simulated to its recorded hash, and no block is damaged."""
        return self.first_bad is None and not self.problems


def verify_tape(
    path: str | os.PathLike[str],
    world: Factory | None = None,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    dump_folder: Path | None = None,
) -> Report:
    """Verify a whole tape; stops simulating after the first bad tick.

    jobs: processes. dump_folder: where to write a dump of the first bad tick; None writes none.
    Raises as Timeline does on opening; ValueError if jobs is below 1; whatever the simulation raises.
    """
    if jobs < 1:
        raise ValueError(f"{jobs} jobs")
    with Tape(path) as tape:
        problems: list[RecordingError] = [
            CorruptError(damage.offset, damage.what) for damage in tape.damages if not damage.torn
        ]
        problems += check_seal(tape) + tape.check_blocks()
        intervals = list_intervals(tape)
        tick_count = tape.last_tick - tape.first_tick + 1
        verified, bad_tick = 0, None
        for result in _results(tape, world, intervals, jobs):
            verified += result.verified_ticks
            if result.problem is not None:
                problems.append(result.problem)
            if progress is not None:
                progress(verified, tick_count)
            if result.bad_tick is not None:
                bad_tick = result.bad_tick
                break
        findings, dump_path = [], None
        if bad_tick is not None:
            findings = [find_desync(Cursor(tape, make_simulation(tape, world)), bad_tick)]
            bad_tick = findings[0].tick
            if dump_folder is not None:
                dump_path = write_dump(dump_folder, tape, findings[0])
        status = "corrupt" if problems else tape.status
        return Report(status, verified, tick_count, bad_tick, findings, _unique(problems), dump_path)


def list_intervals(tape: Tape) -> list[Interval]:
    """The intervals of a tape in the order of their ticks; the first one includes the first tick's own state."""
    ticks = [place.tick for place in tape.keyframes]
    return [Interval(first, final) for first, final in zip(ticks, [*ticks[1:], tape.last_tick], strict=True)]


def check_seal(tape: Tape) -> list[RecordingError]:
    """Compare the digest and counts in END with the blocks that are there; what is wrong, if anything."""
    seal = tape.contents.seal
    if seal is None or tape.contents.header is None:
        return []
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    offset, count = tape.contents.header.size_bytes, 0
    try:
        while True:
            header = read_header(tape.read, offset, tape.contents.marker)
            if header.kind == Kind.END:
                break
            digest.update(tape.read(offset, HEADER_BYTES))
            offset, count = header.end_offset, count + 1
    except (CorruptError, TornError) as error:
        return [error]
    if digest.digest() != seal.digest or count != seal.block_count:
        return [CorruptError(offset, "the seal does not fit the blocks: some were changed, added, removed or moved")]
    return []


def verify_interval(cursor: Cursor, interval: Interval) -> IntervalResult:
    """Re-simulate one interval, comparing each tick's hash, the keyframe's own included."""
    tape = cursor.tape
    place = next(place for place in tape.keyframes if place.tick == interval.keyframe_tick)
    verified = 0
    try:
        cursor.place(place)
        if place is tape.keyframes[0]:
            verified += 1
        elif cursor.state.hash() != tape.frame(place.tick).state_hash:
            return IntervalResult(verified, place.tick)
        for tick in range(interval.keyframe_tick + 1, interval.final_tick + 1):
            cursor.advance()
            if cursor.state.hash() != tape.frame(tick).state_hash:
                return IntervalResult(verified, tick)
            verified += 1
    except (CorruptError, TornError, MissingTickError) as error:
        return IntervalResult(verified, None, error)
    return IntervalResult(verified)


def _results(tape: Tape, world: Factory | None, intervals: list[Interval], jobs: int) -> Iterator[IntervalResult]:
    if jobs == 1 or len(intervals) == 1:
        cursor = Cursor(tape, make_simulation(tape, world))
        for interval in intervals:
            yield verify_interval(cursor, interval)
        return
    # Forked, so that a factory defined in a script or a notebook reaches the workers without pickling, and a script
    # without a __main__ guard is not run again. Python 3.12 warns of forking beside other threads, whose locks stay
    # locked in the child; a worker takes none of ours: it opens the tape anew and runs the simulation.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context, _start_worker, (tape.path, world)) as pool:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
                results = pool.map(_verify_in_worker, intervals)
            yield from results
        finally:
            pool.shutdown(cancel_futures=True)


_worker_cursor: Cursor | None = None  # One a worker process, made by its initializer.


def _start_worker(path: Path, world: Factory | None) -> None:
    global _worker_cursor  # noqa: PLW0603 - the one way to keep something between the tasks of a process pool
    tape = Tape(path)
    _worker_cursor = Cursor(tape, make_simulation(tape, world))


def _verify_in_worker(interval: Interval) -> IntervalResult:
    assert _worker_cursor is not None
    return verify_interval(_worker_cursor, interval)


def _unique(problems: list[RecordingError]) -> list[RecordingError]:
    """Each problem once: a damaged block is met by reading and again by simulating."""
    return list({str(problem): problem for problem in problems}.values())
