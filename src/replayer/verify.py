"""Prove a recording: read every block, check the seal, re-simulate every interval and compare every hash.

Intervals are independent, because every keyframe is a starting point. Each is verified in a process of its own, forked
from one that has simulated nothing, with a fresh simulation: what a step keeps outside of the state (an attribute, a
module's global, a random generator) is not carried from one interval into the next, where it would hide that it is
missing from the keyframe. So the report is the same for any number of processes.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.format.block import encode_header
from recorder.format.contents import hop
from recorder.format.index import TICKING_KINDS
from recorder.format.seal import DIGEST_BYTES, Seal
from recorder.format.segment import Segment
from replayer.cursor import Cursor
from replayer.desync.dump import keep_dump
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
        actual_hash: the hash that it had.
        problem: why some ticks could not be verified; None if all were.
    """

    verified_ticks: int
    bad_tick: int | None = None
    actual_hash: int = 0
    problem: RecordingError | None = None


@attrs.frozen(eq=False)
class Report:
    """What a verification found.

    Attributes:
        status: of the tape: "intact", "incomplete" or "corrupt".
        verified_ticks: ticks whose replayed state has the recorded hash.
        tick_count: ticks on the tape.
        dropped_ticks: those that the recording could not keep, as it says itself.
        first_bad: the first tick with another hash; None if there is none.
        findings: what is known of it; empty if there is none.
        problems: damage and ticks that could not be reached.
        dump_path: the folder of the dump; None if there is none.
    """

    status: str
    verified_ticks: int
    tick_count: int
    dropped_ticks: int
    first_bad: int | None
    findings: list[Finding] = attrs.field(repr=lambda found: f"<{len(found)}>")
    problems: list[RecordingError]
    dump_path: Path | None

    @property
    def ok(self) -> bool:
        """Every tick that was kept was re-simulated to its recorded hash, and no block is damaged."""
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
            CorruptError(0, f"segment {number} is missing") for number in tape.missing_segments
        ]
        problems += check_seal(tape) + tape.check_blocks()
        if not tape.keyframes:
            return Report("corrupt" if problems else tape.status, 0, 0, 0, None, [], _unique(problems), None)
        make_simulation(tape, world)  # Once here, so that what is wrong with it is raised here and not in a worker.
        intervals = list_intervals(tape)
        tick_count = tape.last_tick - tape.first_tick + 1
        verified, bad = 0, None
        for result in _results(tape, world, intervals, jobs):
            verified += result.verified_ticks
            if result.problem is not None:
                problems.append(result.problem)
            if progress is not None:
                progress(verified, tick_count)
            if result.bad_tick is not None:
                bad = result
                break
        findings, dump_path, first_bad = [], None, None
        if bad is not None and bad.bad_tick is not None:
            finding = find_desync(Cursor(tape, make_simulation(tape, world)), bad.bad_tick, bad.actual_hash)
            dump_path, finding = keep_dump(dump_folder, tape, _with_hint(tape, world, finding))
            findings, first_bad = [finding], finding.tick
        status = "corrupt" if problems else tape.status
        dropped = sum(drop.last_tick - drop.first_tick + 1 for drop in tape.drops)
        return Report(status, verified, tick_count, dropped, first_bad, findings, _unique(problems), dump_path)


def _with_hint(tape: Tape, world: Factory | None, finding: Finding) -> Finding:
    """Say so if the bad tick is right when it is reached from an earlier keyframe: then a keyframe lacks something."""
    if finding.note is not None or finding.keyframe_tick == tape.first_tick:
        return finding
    cursor = Cursor(tape, make_simulation(tape, world))
    try:
        start = cursor.place_before(finding.keyframe_tick - 1)
        while cursor.tick != finding.tick:
            cursor.advance()
    except (RecordingError, ArithmeticError, LookupError, ValueError, TypeError):
        return finding  # The simulation fails on another way, too; that is no hint.
    if cursor.state.hash() != finding.expected_hash:
        return finding
    return attrs.evolve(
        finding,
        note=f"from the keyframe at tick {start} this tick is re-simulated right, from that at {finding.keyframe_tick} it "
        "is not: something outside of the state takes part in the step, and keyframes do not hold it",
    )


def list_intervals(tape: Tape) -> list[Interval]:
    """The intervals of a tape in the order of their ticks; the first one includes the first tick's own state."""
    ticks = [place.tick for place in tape.keyframes]
    return [Interval(first, final) for first, final in zip(ticks, [*ticks[1:], tape.last_tick], strict=True)]


def check_seal(tape: Tape) -> list[RecordingError]:
    """Compare digests and counts in END with the blocks that are there; what is wrong, if anything."""
    problems: list[RecordingError] = []
    before: Segment | None = None
    for segment in tape.segments:
        if segment.clip is None and segment.contents.seal is not None and segment.contents.header is not None:
            problems += _check_segment(segment, segment.contents.seal, before)
        before = segment
    return problems


def _check_segment(segment: Segment, seal: Seal, before: Segment | None) -> list[RecordingError]:
    contents = segment.contents
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    first_tick, last_tick, count = None, 0, 0
    header = None
    try:
        start = contents.header.size_bytes if contents.header is not None else 0
        for following in hop(segment.read, start, contents.good_end, contents.marker):
            if header is not None:
                digest.update(encode_header(header))
                count += 1
                if header.kind in TICKING_KINDS:
                    first_tick = header.first_tick if first_tick is None else first_tick
                    last_tick = max(last_tick, header.final_tick)
            header = following
    except CorruptError as error:
        return [error.inside(segment.number)]
    except TornError as error:
        return [error]
    offset = header.offset if header is not None else 0
    ticks_fit = first_tick is None or (first_tick, last_tick) == (seal.first_tick, seal.last_tick)
    if digest.digest() != seal.digest or count != seal.block_count or not ticks_fit:
        what = "the seal does not fit the blocks: some were changed, added, removed or moved"
        return [CorruptError(offset, what, "END", segment=segment.number)]
    if before is None or before.number != segment.number - 1 or not seal.previous_digest:
        return []
    other = before.contents.seal
    if before.clip is not None or (other is not None and seal.previous_digest != other.digest):
        what = f"the segment before {segment.number} is not the one that was recorded"
        return [CorruptError(offset, what, "END", segment=segment.number)]
    return []


def verify_interval(cursor: Cursor, interval: Interval) -> IntervalResult:
    """Re-simulate one interval, comparing each tick's hash; at the first tick of the tape the keyframe's own.

    If the interval's keyframe is damaged, the one before it is where the simulation starts.
    """
    tape = cursor.tape
    verified, problem = 0, None
    try:
        started = cursor.place_before(interval.keyframe_tick)
        while cursor.tick != interval.keyframe_tick:
            cursor.advance()
        if interval.keyframe_tick == tape.first_tick:
            verified += 1
        elif (
            started == interval.keyframe_tick
            and not _is_dropped(tape, started)
            and cursor.state.hash() != tape.frame(started).state_hash
        ):
            return IntervalResult(verified, started, cursor.state.hash())
        for tick in range(interval.keyframe_tick + 1, interval.final_tick + 1):
            cursor.advance()
            actual_hash = cursor.state.hash()
            if actual_hash != tape.frame(tick).state_hash:
                return IntervalResult(verified, tick, actual_hash)
            verified += 1
    except (CorruptError, TornError, MissingTickError) as error:
        if not isinstance(error, MissingTickError) or not _is_dropped(tape, error.tick):
            problem = error
    return IntervalResult(verified, problem=problem)


def _is_dropped(tape: Tape, tick: int) -> bool:
    """Whether the recording itself says that it has no frame of this tick."""
    return tape.recording.drop_at(tick) is not None


def _results(tape: Tape, world: Factory | None, intervals: list[Interval], jobs: int) -> Iterator[IntervalResult]:
    """The results of the intervals, in their order; at most jobs processes at a time."""
    # Forked, so that a factory defined in a script or a notebook reaches the workers without pickling, and a script
    # without a __main__ guard is not run again.
    context = multiprocessing.get_context("fork")
    running: dict[Any, tuple[int, BaseProcess]] = {}
    done: dict[int, IntervalResult] = {}
    started = 0
    try:
        for index in range(len(intervals)):
            while index not in done:
                while len(running) < jobs and started < len(intervals):
                    ours, theirs = context.Pipe(duplex=False)
                    process: BaseProcess = context.Process(
                        target=_verify_alone, args=(theirs, tape, world, intervals[started])
                    )
                    _start(process)
                    theirs.close()
                    running[ours] = (started, process)
                    started += 1
                for ready in wait(list(running)):
                    number, process = running.pop(ready)
                    done[number] = _receive(ready, process, intervals[number])
            yield done.pop(index)
    finally:
        for pipe, (_, process) in running.items():
            process.terminate()
            process.join()
            pipe.close()


def _start(process: BaseProcess) -> None:
    # Python 3.12 warns of forking beside other threads, whose locks stay locked in the child. The child takes none of
    # ours: it reads the tape with pread and runs the simulation.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        process.start()


def _verify_alone(pipe: Connection, tape: Tape, world: Factory | None, interval: Interval) -> None:
    """The whole life of a worker."""
    try:
        pipe.send(verify_interval(Cursor(tape, make_simulation(tape, world)), interval))
    except Exception as error:  # noqa: BLE001 - whatever the simulation raises is raised again in the parent
        error.add_note("".join(traceback.format_exception(error)))
        try:
            pipe.send(error)
        except (TypeError, AttributeError, ValueError):  # Pickle's ways to say that it cannot.
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _receive(pipe: Any, process: BaseProcess, interval: Interval) -> IntervalResult:
    """What a worker sent. Raises what its simulation raised, or RuntimeError if it died."""
    try:
        received = pipe.recv()
    except EOFError:
        process.join()
        raise RuntimeError(
            f"the process that verified ticks {interval.keyframe_tick} to {interval.final_tick} died with exit code "
            f"{process.exitcode}"
        ) from None
    finally:
        pipe.close()
    process.join()
    if isinstance(received, IntervalResult):
        return received
    raise received


def _unique(problems: list[RecordingError]) -> list[RecordingError]:
    """Each problem once: a damaged block is met by reading and again by simulating."""
    return list({str(problem): problem for problem in problems}.values())
