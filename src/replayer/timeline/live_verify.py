"""Verify a tape while it is recorded, behind its head: each interval as soon as the keyframe after it is on the disk.

Each interval is re-simulated by a fresh simulation in a process of its own, from its keyframe on. What the live run
keeps outside of its state is therefore not there, and shows within one interval of the first step that reads it.

Invariant: the tape is only read, and no lock of it is held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from recorder.processes.fork_hazard import forks_refused
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from replayer.desync.dump.dump import keep_dump
from replayer.desync.finding import Finding
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape
from replayer.timeline.divergence.analysed_desync import analysed_desync
from replayer.timeline.interval_processes import IntervalProcesses
from replayer.timeline.intervals import Interval, IntervalResult, list_intervals, make_for_copies
from replayer.timeline.verify import unrepeated_values
from sim.closed_on_exit import ClosedOnExit


@attrs.frozen
class IntervalCheck:
    """One interval that was verified behind the head of a recording.

    Attributes:
        first_tick, last_tick: from its keyframe to the next one, or to the end.
        head_tick: the last tick on the tape when it was verified.
        finding: the first divergent tick; None if all that could be compared are the same.
        dump_path: the folder of its dump; None if there is none.
        problem: why some ticks could not be compared, or a keyframe does not restore what was recorded; None if all is
            well.
        not_repeated: path of a value that differs between two repeats of the inputs before its keyframe, whose values are
            not the recorded ones: it is not known whether the others are. None if there is none.
    """

    first_tick: int
    last_tick: int
    head_tick: int
    finding: Finding | None = None
    dump_path: Path | None = None
    problem: str | None = None
    not_repeated: str | None = None


class LiveVerifier(ClosedOnExit):
    """Verifies what a growing tape has, again and again; a context manager.

    Attributes:
        tape: as it was when it was read last.
        is_over: True once the recording is closed and all of it was verified.
    """

    def __init__(
        self, path: str | os.PathLike[str], world: Factory | None = None, *, dump_folder: Path | None = None
    ) -> None:
        """Open the tape. Raises as Tape and make_simulation do, MissingTickError if it has no keyframe yet."""
        self.tape = Tape(path)
        self.is_over = False
        self._world, self._dump_folder = world, dump_folder
        self._next_tick: int | None = None  # The keyframe that the next interval begins with.
        self._processes: IntervalProcesses | None = None

    def poll(self) -> Iterator[IntervalCheck]:
        """Read what is new, and yield each interval that is complete by now. Raises as verify_tape does."""
        self.tape.refresh()
        is_closed = self.tape.sealed
        if self.tape.keyframes:
            for interval in self._new_intervals(is_closed=is_closed):
                yield self._check(interval)
        self.is_over = is_closed

    def rest(self) -> Iterator[IntervalCheck]:
        """Yield the ticks after the last keyframe that are on the tape now, as one interval."""
        if self.tape.keyframes:
            for interval in self._new_intervals(is_closed=True):
                yield self._check(interval)

    def _new_intervals(self, *, is_closed: bool) -> Iterator[Interval]:
        """The complete intervals not yielded before; of a closed tape, also the one without a keyframe after it."""
        intervals = list_intervals(self.tape)
        for number, interval in enumerate(intervals):
            is_complete = is_closed or number + 1 < len(intervals)
            is_new = self._next_tick is None or interval.place.tick >= self._next_tick
            is_empty = self._next_tick is not None and interval.final_tick == interval.place.tick
            if is_new and is_complete and not is_empty:
                self._next_tick = interval.final_tick
                yield interval

    def _check(self, interval: Interval) -> IntervalCheck:
        if self._processes is None:
            fresh = make_for_copies(self.tape, self._world)
            self._processes = IntervalProcesses(self.tape, self._world, 1, None, fresh, PATIENCE_S)
        processes = self._processes
        [result] = processes.verify([interval], lambda _: None)
        ticks = interval.place.tick, interval.final_tick, self.tape.last_tick
        if result.bad_tick is None:
            with forks_refused(processes.hazard):
                problem, not_repeated = self._problem(result)
            return IntervalCheck(*ticks, problem=problem, not_repeated=not_repeated)
        with forks_refused(processes.hazard):
            made = processes.fresh.simulation
            finding = analysed_desync(self.tape, self._world, result, made, tests_causes=True)
        dump_path, finding = keep_dump(self._dump_folder, self.tape, finding)
        return IntervalCheck(*ticks, finding, dump_path)

    def _problem(self, result: IntervalResult) -> tuple[str | None, str | None]:
        """The problem of an interval without a bad tick; else the path of a value that no repeat of the inputs gives again."""
        problem = result.problem or result.keyframe_problem
        if problem is not None:
            return str(problem), None
        if result.values is None or result.values.proved:
            return None, None
        if result.values.differing and not result.values.recaptured:
            [path] = unrepeated_values(self.tape, self._world, [result.interval])
            if path is not None:
                return None, path
        return f"the keyframe of tick {result.interval.place.tick:,} does not restore the recorded values", None

    def close(self) -> None:
        """Close the tape."""
        self.tape.close()
