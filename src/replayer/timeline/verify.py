"""Prove a recording: read every block, check the seal, re-simulate every interval and compare every hash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError
from recorder.format.recording.change_replay import ChangeLog
from recorder.processes.pool import Pool
from replayer.desync.cause_tests import with_causes
from replayer.desync.dump.dump import keep_dump
from replayer.desync.finding import Finding, find_desync
from replayer.desync.isolated_rerun import earlier_hash
from replayer.html_renderers import RenderedAsHtml
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.seal_check import check_seals
from replayer.tape.tape import Tape
from replayer.timeline.intervals import Interval, IntervalResult, list_intervals, run_each, run_intervals
from replayer.value_text import tick_range

Progress = Callable[[int, int], None]  # Ticks verified so far, ticks in all.

_KEYFRAMES_NAMED = 10
APART_BYTES_MAX = 256 << 20  # Of a state: four of them are handed from one process to the other, in one message.


@attrs.frozen
class Unreached:
    """Ticks that could not be proved, because what leads to them is lost.

    Attributes:
        first_tick, last_tick: which.
        why: what is lost.
    """

    first_tick: int
    last_tick: int
    why: str


@attrs.frozen(eq=False)
class VerificationReport(RenderedAsHtml):
    """What a verification found.

    Attributes:
        status: of the tape: "intact", "incomplete" or "corrupt".
        verified_ticks: ticks whose replayed state has the recorded hash.
        tick_count: ticks on the tape.
        dropped_ticks: those that the recording could not keep, as it says itself.
        first_bad: the first tick with another hash; None if there is none.
        findings: what is known of it; empty if there is none.
        problems: damage, and keyframes that do not give the recorded state.
        dump_path: the folder of the dump; None if there is none.
        unreached: ticks that could not be proved, because of damage or a torn block; dropped ones are not among them.
    """

    status: str
    verified_ticks: int
    tick_count: int
    dropped_ticks: int
    first_bad: int | None
    findings: list[Finding]
    problems: list[RecordingError]
    dump_path: Path | None
    unreached: list[Unreached] = attrs.field(factory=list)

    @property
    def ok(self) -> bool:
        """Every tick that was kept was re-simulated to its recorded hash, and no block is damaged."""
        return self.first_bad is None and not self.problems and not self.unreached


def verify_tape(
    path: str | os.PathLike[str],
    world: Factory | None = None,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    dump_folder: Path | None = None,
    pool: Pool | None = None,
) -> VerificationReport:
    """Verify a whole tape; stops simulating after the first bad tick.

    jobs: processes. dump_folder: where to write a dump of the first bad tick; None writes none. pool: what simulates the
    intervals, instead of processes forked here; see recorder.processes.pool.

    Raises as Timeline does on opening; ValueError if jobs is below 1; SimulationFailedError if the simulation raises;
    WorkerDiedError.
    """
    if jobs < 1:
        raise ValueError(f"{jobs} jobs")
    with Tape(path) as tape:
        problems: list[RecordingError] = [
            CorruptError(0, f"segment {number} is missing") for number in tape.missing_segments
        ]
        problems += tape.check_blocks()
        if not tape.keyframes:
            return VerificationReport(
                "corrupt" if problems else tape.status, 0, 0, 0, None, [], _unique(problems), None
            )
        make_simulation(tape, world)  # Once here, so that what is wrong with it is raised here and not in a worker.
        tally = _Tally(tape, progress)
        findings, dump_path, first_bad = [], None, None
        for result in run_intervals(tape, world, list_intervals(tape), jobs, tally.show, pool):
            tally.add(result)
            if result.bad_tick is not None:
                finding = _find_desync(tape, world, result.interval, result.bad_tick, result.actual_hash)
                dump_path, finding = keep_dump(dump_folder, tape, finding)
                findings, first_bad = [finding], finding.tick
                break
        problems += tally.problems(problems)
        problems += _log_problems(tape)
        dropped = sum(drop.last_tick - drop.first_tick + 1 for drop in tape.drops)
        return VerificationReport(
            "corrupt" if problems else tape.status,
            tally.proved_ticks,
            tally.tick_count,
            dropped,
            first_bad,
            findings,
            _unique(problems),
            dump_path,
            tally.unreached(),
        )


class _Tally:
    """What the intervals come to, added in the order of their ticks."""

    def __init__(self, tape: Tape, progress: Progress | None) -> None:
        self._tape = tape
        self._progress = progress
        self._results: list[IntervalResult] = []
        self._next_tick = tape.first_tick
        self._gaps: list[tuple[int, int]] = []
        self._shown = 0
        self.tick_count = tape.last_tick - tape.first_tick + 1
        self.proved_ticks = 0

    def add(self, result: IntervalResult) -> None:
        """Count the ticks of an interval that are not counted yet; two of them share a tick where they meet."""
        self._results.append(result)
        if result.proved is not None:
            first, last = max(result.proved[0], self._next_tick), result.proved[1]
            if first > self._next_tick:
                self._gaps.append((self._next_tick, first - 1))
            self.proved_ticks += max(0, last - first + 1)
            self._next_tick = max(self._next_tick, last + 1)
        self.show(0)

    def show(self, ahead: int) -> None:
        """Tell how far the work is; ahead: ticks that are compared, and not counted yet."""
        self._shown = min(self.tick_count, max(self._shown, self.proved_ticks + ahead))
        if self._progress is not None:
            self._progress(self._shown, self.tick_count)

    def unreached(self) -> list[Unreached]:
        """The ticks of the intervals that were not proved, and why; not those that the recording could not keep."""
        gaps = list(self._gaps)
        if self._results and self._results[-1].bad_tick is None and self._next_tick <= self._tape.last_tick:
            gaps.append((self._next_tick, self._tape.last_tick))
        found = []
        for first, last in gaps:
            reasons = [
                result.problem
                for result in self._results
                if result.problem is not None
                and result.interval.place.tick <= last
                and result.interval.final_tick >= first
            ]
            if reasons:
                found.append(Unreached(first, last, str(reasons[0])))
        return found

    def problems(self, known: list[RecordingError]) -> list[RecordingError]:
        """Damage that the intervals met. known: what reading all blocks has shown."""
        texts = {str(problem) for problem in known}
        found = [result.problem for result in self._results if result.problem is not None]
        # Where a block was torn, or is damaged, ticks behind it cannot be reached; without either they should be.
        explained = bool(known) or any(damage.torn for damage in self._tape.damages)
        problems = [problem for problem in found if not (explained and isinstance(problem, MissingTickError))]
        unfit = [
            (result.interval.place.tick, result.keyframe_problem)
            for result in self._results
            if result.keyframe_problem is not None and str(result.keyframe_problem) not in texts
        ]
        if unfit:
            problems.append(_keyframes_problem([tick for tick, _ in unfit], unfit[0][1]))
        return problems


def _log_problems(tape: Tape) -> list[RecordingError]:
    """Changes on the tape that do not give the recorded states."""
    if not tape.logs_changes:
        return []
    hint = 'did the simulation write without a mark? record with changes="audit" to find out'
    return [
        CorruptError(0, f"the changes of {tick_range(first, last)} do not give the recorded states ({hint})")
        for first, last in ChangeLog(tape.recording).wrong_ticks()
    ]


def _keyframes_problem(ticks: list[int], first: RecordingError) -> RecordingError:
    """One problem for all keyframes whose blocks are sound, but which do not give the state of their tick."""
    if len(ticks) == 1 or not isinstance(first, CorruptError):
        return first
    shown = ", ".join(f"{tick:,}" for tick in ticks[:_KEYFRAMES_NAMED])
    more = f" and {len(ticks) - _KEYFRAMES_NAMED:,} more" if len(ticks) > _KEYFRAMES_NAMED else ""
    what = f"the keyframes of ticks {shown}{more} do not give the recorded hash; {first.what}"
    return CorruptError(first.offset, what, first.kind, first.ticks, first.segment)


def _find_desync(tape: Tape, world: Factory | None, interval: Interval, bad_tick: int, actual_hash: int) -> Finding:
    """Look into the first bad tick, with fresh simulations, in a copy of this process, which stays as it is.

    Of a large state the copy would cost too much: what this process keeps in globals is then not as before.
    """

    def make_cursor() -> Cursor:
        return Cursor(tape, make_simulation(tape, world))

    def find(cursor: Cursor, *_: Any) -> Finding:
        earlier = earlier_hash(make_cursor, bad_tick)
        return with_causes(find_desync(cursor, bad_tick, actual_hash, make_cursor), tape, earlier)

    if make_cursor().state.layout.size_bytes > APART_BYTES_MAX:
        return find(make_cursor())
    [finding] = run_each(tape, world, [interval], 1, lambda _: None, find)
    return finding


def check_seal(tape: Tape) -> list[RecordingError]:
    """Compare digests and counts in END with the blocks that are there; what is wrong, if anything."""
    return check_seals(tape.segments)


def _unique(problems: list[RecordingError]) -> list[RecordingError]:
    """Each problem once: a damaged block is met by reading and again by simulating."""
    return list({str(problem): problem for problem in problems}.values())
