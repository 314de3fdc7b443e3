"""Verify a recording: read every block, check the seal, re-simulate every interval and compare every hash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError
from recorder.format.recording.change_replay import ChangeLog
from recorder.processes.engines.engine import Engine, engine_pool
from recorder.processes.fork_hazard import forks_refused
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from recorder.processes.pool import Pool, Report
from replayer.html_renderers import RenderedAsHtml
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.seal_check import check_seals
from replayer.tape.tape import Tape
from replayer.timeline.interval_processes import IntervalProcesses
from replayer.timeline.intervals import (
    Interval,
    IntervalResult,
    list_intervals,
    make_for_copies,
    run_each,
)
from replayer.timeline.keyframe_values import KeyframeValues, find_path
from replayer.value_text import tick_range
from sim.kernel.exactness import Level
from sim.kernel.hooks import ComparesValues, KeepsValues, hook
from sim.kernel.simulation import inner_of

if TYPE_CHECKING:
    from replayer.desync.finding import Finding

Progress = Callable[[int, int], None]  # Ticks verified so far, ticks in all.

_KEYFRAMES_NAMED = 10


@attrs.frozen
class Unreached:
    """A range of ticks that could not be verified, because frames or keyframes before them are lost.

    Attributes:
        first_tick, last_tick: the range.
        why: the loss, for people.
    """

    first_tick: int
    last_tick: int
    why: str


@attrs.frozen(eq=False)
class VerificationReport(RenderedAsHtml):
    """The result of a verification.

    Attributes:
        status: status of the tape: "intact", "incomplete" or "corrupt".
        verified_ticks: number of ticks whose replayed state has the recorded hash.
        tick_count: number of ticks on the tape.
        dropped_ticks: number of ticks that the recording could not keep, as its DROP blocks state.
        first_bad: the first divergent tick: the first whose hash differs; None if there is none.
        findings: details of that tick; empty if there is none.
        problems: damage, and keyframes that do not give the recorded state.
        dump_path: the folder of the dump; None if there is none.
        unreached: ticks that could not be verified, because of damage or a torn block; without dropped ticks.
        proved_keyframes: number of keyframes that restore the recorded values of the simulation's objects.
        wrong_keyframes: those that restore other values.
        level: the exactness of a load, as the tape has it.
        not_read: classes of objects whose restored values cannot be compared with the recorded ones.
        notes: what could not be found, because the process could not be forked.
        not_repeated: path of a value that differs between two repeats of the same inputs, at the level inputs_only, where
            a keyframe gave other values than recorded, which is then no evidence; None if there is none.
        unrepeated_keyframes: number of such keyframes. They are neither proved nor wrong.
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
    proved_keyframes: int = 0
    wrong_keyframes: list[KeyframeValues] = attrs.field(factory=list)
    level: str = Level.EXACT.value
    not_read: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    not_repeated: str | None = None
    unrepeated_keyframes: int = 0

    @property
    def ok(self) -> bool:
        """True if every tick was re-simulated to its recorded hash, no block is damaged and no keyframe is wrong."""
        return not (self.first_bad is not None or self.problems or self.unreached or self.wrong_keyframes)

    @property
    def unverified(self) -> list[str]:
        """Why ticks before the first divergent one could not be verified."""
        unreached = [f"{tick_range(ticks.first_tick, ticks.last_tick)}: {ticks.why}" for ticks in self.unreached]
        return [*map(str, self.problems), *unreached]


def verify_tape(
    path: str | os.PathLike[str],
    world: Factory | None = None,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    dump_folder: Path | None = None,
    pool: Pool | None = None,
    engine: str | Engine | None = None,
    patience_s: float = PATIENCE_S,
    tests_causes: bool = True,
) -> VerificationReport:
    """Verify a complete tape; stops simulating after the first divergent tick.

    jobs: number of processes. dump_folder: folder for a dump of the first divergent tick; None writes none.
    pool: simulates the intervals instead of forked processes; see recorder.processes.pool. engine: "ray", "ray:ADDRESS" or a
    RayEngine simulates them there; jobs, if more than 1, is then the number of intervals at a time, instead of one for each
    processor. patience_s: a process that does nothing for longer is ended: it makes no progress and uses no processor time. tests_causes: False tests no causes
    of a divergence: its runs from earlier starts may take seconds.

    Raises as Timeline does on opening; ValueError if jobs is below 1; SimulationFailedError if the simulation raises;
    WorkerDiedError, and WorkerStuckError for a process that waits without end; EngineError if the engine cannot be used.

    Examples:
        >>> report = replayer.verify_tape("run.tape", Walkers, jobs=2)
        >>> report.ok, report.verified_ticks, report.first_bad
        (True, 1001, None)
    """
    if jobs < 1:
        raise ValueError(f"jobs: expected at least 1, got {jobs}")
    with engine_pool(engine, jobs if jobs > 1 else None, other=pool) as found, Tape(path) as tape:
        problems = block_problems(tape)
        if not tape.keyframes:
            return VerificationReport("corrupt" if problems else tape.status, 0, 0, 0, None, [], unique(problems), None)
        fresh = make_for_copies(tape, world)  # Once here: an error is then raised here and not in a worker.
        processes = IntervalProcesses(tape, world, jobs, found, fresh, patience_s)
        tally = _Tally(tape, progress)
        findings, dump_path, first_bad = [], None, None
        for result in processes.verify(list_intervals(tape), tally.show):
            tally.add(result)
            if result.bad_tick is not None:
                from replayer.desync.dump.dump import keep_dump  # noqa: PLC0415 - only a desync needs these
                from replayer.timeline.divergence.analysed_desync import analysed_desync  # noqa: PLC0415

                with forks_refused(processes.hazard):
                    finding = analysed_desync(tape, world, result, fresh.simulation, tests_causes=tests_causes)

                dump_path, finding = keep_dump(dump_folder, tape, finding)
                findings, first_bad = [finding], finding.tick
                break
        problems += tally.problems(problems)
        problems += _log_problems(tape)
        with forks_refused(processes.hazard):
            wrong, not_repeated = tally.wrong_keyframes, list[str]()
            if first_bad is None:
                wrong, not_repeated = _without_unrepeated(tape, world, wrong, jobs)
            wrong_keyframes = _with_path(tape, world, wrong)
        dropped = sum(drop.last_tick - drop.first_tick + 1 for drop in tape.drops)
        return VerificationReport(
            "corrupt" if problems else tape.status,
            tally.proved_ticks,
            tally.tick_count,
            dropped,
            first_bad,
            findings,
            unique(problems),
            dump_path,
            tally.unreached(),
            tally.proved_keyframes,
            wrong_keyframes,
            str(tape.meta.get("level", Level.EXACT.value)),
            tuple(sorted(tally.not_read)),
            (processes.note,) if processes.note is not None else (),
            not_repeated[0] if not_repeated else None,
            len(not_repeated),
        )


class _Tally:
    """Sum of the results of intervals, added in the order of their ticks."""

    def __init__(self, tape: Tape, progress: Progress | None) -> None:
        self._tape = tape
        self._progress = progress
        self._results: list[IntervalResult] = []
        self._next_tick = tape.first_tick
        self._gaps: list[tuple[int, int]] = []
        self._shown = 0
        self.tick_count = tape.last_tick - tape.first_tick + 1
        self.proved_ticks = 0
        self.proved_keyframes = 0
        self.wrong_keyframes: list[tuple[Interval, KeyframeValues]] = []
        self.not_read: set[str] = set()

    def add(self, result: IntervalResult) -> None:
        """Count the ticks of an interval that are not counted yet; two of them share a tick where they meet."""
        self._results.append(result)
        if result.values is not None:
            self.not_read |= {*result.values.not_read}
        if result.values is not None and result.values.proved:
            self.proved_keyframes += 1
        elif result.values is not None:
            self.wrong_keyframes.append((result.interval, result.values))
        if result.proved is not None:
            first, last = max(result.proved[0], self._next_tick), result.proved[1]
            if first > self._next_tick:
                self._gaps.append((self._next_tick, first - 1))
            self.proved_ticks += max(0, last - first + 1)
            self._next_tick = max(self._next_tick, last + 1)
        self.show(0)

    def show(self, ahead: int) -> None:
        """Report progress. ahead: ticks that were compared and are not counted yet."""
        self._shown = min(self.tick_count, max(self._shown, self.proved_ticks + ahead))
        if self._progress is not None:
            self._progress(self._shown, self.tick_count)

    def unreached(self) -> list[Unreached]:
        """Ranges of ticks that were not verified, with the reasons; without ticks that the recording dropped."""
        gaps = list(self._gaps)
        if self._results and self._results[-1].bad_tick is None and self._next_tick <= self._tape.last_tick:
            gaps.append((self._next_tick, self._tape.last_tick))
        unreached = []
        for first, last in gaps:
            reasons = [
                result.problem
                for result in self._results
                if result.problem is not None
                and result.interval.place.tick <= last
                and result.interval.final_tick >= first
            ]
            if reasons:
                unreached.append(Unreached(first, last, str(reasons[0])))
        return unreached

    def problems(self, damaged_blocks: list[RecordingError]) -> list[RecordingError]:
        """Problems of the intervals. damaged_blocks: the problems found by reading all blocks, not repeated here."""
        texts = {str(problem) for problem in damaged_blocks}
        met = [result.problem for result in self._results if result.problem is not None]
        # A damaged or torn block explains that later ticks cannot be reached; otherwise that is reported as a problem.
        explained = bool(damaged_blocks) or any(damage.torn for damage in self._tape.damages)
        problems = [problem for problem in met if not (explained and isinstance(problem, MissingTickError))]
        unfit = [
            (result.interval.place.tick, result.keyframe_problem)
            for result in self._results
            if result.keyframe_problem is not None and str(result.keyframe_problem) not in texts
        ]
        if unfit:
            problems.append(_keyframes_problem([tick for tick, _ in unfit], unfit[0][1]))
        return problems


def _log_problems(tape: Tape) -> list[RecordingError]:
    """Problems of ticks whose recorded changes do not give the recorded states."""
    if not tape.logs_changes:
        return []
    hint = 'did the simulation write without a mark? record with changes="audit" to find out'
    return [
        CorruptError(0, f"the changes of {tick_range(first, last)} do not give the recorded states ({hint})")
        for first, last in ChangeLog(tape.recording).wrong_ticks()
    ]


def _keyframes_problem(ticks: list[int], first: RecordingError) -> RecordingError:
    """One problem for all keyframes whose blocks are intact and do not give the state of their tick."""
    if len(ticks) == 1 or not isinstance(first, CorruptError):
        return first
    shown = ", ".join(f"{tick:,}" for tick in ticks[:_KEYFRAMES_NAMED])
    more = f" and {len(ticks) - _KEYFRAMES_NAMED:,} more" if len(ticks) > _KEYFRAMES_NAMED else ""
    what = f"the keyframes of ticks {shown}{more} do not give the recorded hash; {first.what}"
    return CorruptError(first.offset, what, first.kind, first.ticks, first.segment)


_Wrong = list[tuple[Interval, KeyframeValues]]


def _without_unrepeated(tape: Tape, world: Factory | None, wrong: _Wrong, jobs: int) -> tuple[_Wrong, list[str]]:
    """The keyframes that are wrong, and of each other one the path of a value that no repeat of its inputs gives again."""
    of_values = [interval for interval, values in wrong if values.differing and not values.recaptured]
    paths: dict[int, str] = {}
    for start in range(0, len(of_values), jobs):  # The values of so many keyframes are in memory.
        asked_of = of_values[start : start + jobs]
        for interval, path in zip(asked_of, unrepeated_values(tape, world, asked_of, jobs), strict=True):
            if path is not None:
                paths[interval.place.tick] = path
    return [one for one in wrong if one[0].place.tick not in paths], list(paths.values())


def unrepeated_values(tape: Tape, world: Factory | None, intervals: list[Interval], jobs: int = 1) -> list[str | None]:
    """For each interval, the path of the first value that differs between two restores of its keyframe, in two processes.

    None if there is none, and at any other level than inputs_only: there a keyframe is restored by repeating inputs, and what
    is no function of them, such as the time, the id of the process or a generator without a seed, differs from the recorded
    value, also if no step reads it. Raises SimulationFailedError if the simulation raises; WorkerDiedError; WorkerStuckError.
    """
    if tape.meta.get("level") != Level.INPUTS_ONLY.value:
        return [None] * len(intervals)

    def restored(cursor: Cursor, interval: Interval) -> Any:
        # Made here: a copy of one that the parent made has its process and its time.
        again = Cursor(cursor.tape, make_simulation(cursor.tape, world))
        again.put(interval.place.tick, cursor.tape.snapshot(interval.place))
        return inner_of(again.simulation)

    def keep(cursor: Cursor, interval: Interval, _: Report) -> Any:
        keeps = hook(restored(cursor, interval), KeepsValues)
        return None if keeps is None else keeps.kept_values()

    made = run_each(tape, world, intervals, jobs, lambda _: None, keep)
    kept = {interval.place.tick: values for interval, values in zip(intervals, made, strict=True)}

    def compare(cursor: Cursor, interval: Interval, _: Report) -> str | None:
        compares, values = hook(restored(cursor, interval), ComparesValues), kept[interval.place.tick]
        return None if compares is None or values is None else compares.value_difference(values)

    return list(run_each(tape, world, intervals, jobs, lambda _: None, compare))


def _with_path(tape: Tape, world: Factory | None, wrong: _Wrong) -> list[KeyframeValues]:
    """The keyframes that restore other values; the first one with the path of a value, found with fresh simulations."""
    found = [values for _, values in wrong]
    if found and found[0].differing:

        def find(cursor: Cursor, interval: Interval, *_: Any) -> str:
            return find_path(lambda: Cursor(cursor.tape, make_simulation(cursor.tape, world)), interval.place)

        [path] = run_each(tape, world, [wrong[0][0]], 1, lambda _: None, find)
        found[0] = attrs.evolve(found[0], path=path)
    return found


def block_problems(tape: Tape) -> list[RecordingError]:
    """Read every block; the files that are missing and the blocks that are damaged."""
    missing = [CorruptError(0, f"segment {number} is missing") for number in tape.missing_segments]
    return [*missing, *tape.check_blocks()]


def check_seal(tape: Tape) -> list[RecordingError]:
    """Compare digests and counts in END with the blocks in the files; returns the problems."""
    return check_seals(tape.segments)


def unique(problems: list[RecordingError]) -> list[RecordingError]:
    """Remove duplicates: both reading and simulating report a damaged block."""
    return list({str(problem): problem for problem in problems}.values())
