"""Re-simulate a recorded object in one go, and compare its values at the keyframes alone.

Taking the state of an object at each tick costs several times what its step costs. Here no state is taken: a keyframe
has a digest of the values, made by other code, and what the steps lead to must have the same one. What this proves is
less than what ``verify_tape`` proves: the states between keyframes are not compared, and no keyframe is restored but the
first, and those after lost frames.

Where steps cost little, a digest costs more than an interval of them: keyframes are then skipped, but never the last one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError, SimulationFailedError, TornError
from recorder.format.segments.block_location import KeyframeLocation
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.intervals import is_dropped
from replayer.timeline.keyframe_values import asked
from replayer.timeline.verify import block_problems, unique
from sim.kernel.exactness import Level
from sim.kernel.hooks import ComparesValues, HasValueDigest, NamesUnreadValues, SkipsCapture, hook
from sim.kernel.simulation import inner_of

DIGESTS_SHARE = 0.125  # Of the time of the steps, so that the whole costs little more than they do.
REPORT_TICKS = 64  # Progress is reported at each of so many ticks.


class NoValuesError(ValueError):
    """The keyframes of a tape have no digests of values that this simulation can make: compare the states."""


@attrs.frozen
class ValuesReport:
    """The result of a check of the values.

    Attributes:
        status: status of the tape: "intact", "incomplete" or "corrupt".
        tick_count: number of ticks on the tape.
        compared: ticks of the keyframes whose values were compared and are the recorded ones.
        last_compared: the last of them.
        skipped: number of keyframes whose values were not compared, to save time.
        differing: tick of the first compared keyframe at which the values differ from the recorded ones; None if none
            does.
        path: of the first value that differs; empty if it was not found.
        problems: damage, and frames that are missing.
        not_read: classes of objects whose values cannot be compared.
    """

    status: str
    tick_count: int
    compared: int
    last_compared: int
    skipped: int
    differing: int | None
    path: str
    problems: list[RecordingError]
    not_read: tuple[str, ...]


def check_values(
    path: str | os.PathLike[str],
    world: Factory | None = None,
    *,
    digests_share: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ValuesReport:
    """Compare the values at the keyframes; stops at the first that differs.

    digests_share: the processor time that digests of values may take, as a share of that of the steps, DIGESTS_SHARE by
    default. A keyframe whose digest would exceed it is skipped, except the last one; math.inf skips none, and neither
    does a tape with damage or lost frames. progress: called with the ticks simulated so far and in all.

    Raises ValueError for a negative share; NoValuesError; as Timeline does on opening; SimulationFailedError if the simulation raises.
    """
    share = DIGESTS_SHARE if digests_share is None else digests_share
    if not share >= 0:
        raise ValueError(f"digests_share: expected at least 0, got {digests_share}")
    with Tape(path) as tape:
        problems = block_problems(tape)
        if not tape.keyframes:
            raise NoValuesError("the tape has no keyframe")
        # Of a damaged tape, the last keyframe before each gap counts: which one that is shows when it is too late.
        share = math.inf if problems or tape.drops else share
        run = _Run(Cursor(tape, make_simulation(tape, world)), share, progress)
        run.to_the_end()
        if not run.compared and run.differing is None and not run.problems:
            raise NoValuesError("no keyframe of the tape has a digest of values: compare its states")
        problems += run.problems
        status = "corrupt" if problems else tape.status
        unread = hook(inner_of(run.cursor.simulation), NamesUnreadValues)
        return ValuesReport(
            status,
            tape.last_tick - tape.first_tick + 1,
            run.compared,
            run.last_compared,
            run.skipped,
            run.differing,
            "" if run.differing is None else _path_of(run.cursor, world),
            unique(problems),
            () if unread is None else tuple(unread.values_not_read()),
        )


@attrs.frozen
class SpeedOfValues:
    """How long steps take where values alone are compared.

    Attributes:
        ticks: number of ticks that were stepped.
        cpu_s: their processor time in seconds, without that of a digest.
    """

    ticks: int
    cpu_s: float


def measure_values_alone(
    path: str | os.PathLike[str], world: Factory | None = None, *, budget_s: float = 0.25
) -> SpeedOfValues | None:
    """Step the first ticks as check_values does, for so many seconds of processor time or to the end of the tape.

    Returns None where check_values could compare nothing, or stops in the first of these ticks. Raises as Timeline does
    on opening.
    """
    with Tape(path) as tape:
        try:
            run = _Run(Cursor(tape, make_simulation(tape, world)), 0.0, None)
            return run.for_a_while(budget_s)
        except (NoValuesError, CorruptError, TornError, MissingTickError, SimulationFailedError):
            return None


class _Run:
    """One pass over a tape.

    Attributes:
        cursor: with the simulation as it is at the end, or where the values differ.
        compared, last_compared, skipped, differing, problems: see ValuesReport.
    """

    def __init__(self, cursor: Cursor, digests_share: float, progress: Callable[[int, int], None] | None) -> None:
        """Raises NoValuesError."""
        self.cursor, self._share, self._progress = cursor, digests_share, progress
        self._inner = inner_of(cursor.simulation)
        digests, skips = hook(self._inner, HasValueDigest), hook(self._inner, SkipsCapture)
        if digests is None or skips is None or cursor.tape.meta.get("level") == Level.CANONICAL.value:
            raise NoValuesError(
                f"{type(self._inner).__name__} is no captured object at the level exact: compare its states, which costs little"
            )
        self._digests = digests
        cursor.compares = False
        skips.capture_skipped = True
        self.compared, self.last_compared, self.skipped = 0, cursor.tape.first_tick, 0
        self._start_s = self._digests_s = self._last_digest_s = 0.0  # Processor time.
        self.differing: int | None = None
        self.problems: list[RecordingError] = []

    def to_the_end(self) -> None:
        """Step from the first keyframe to the last tick, or to the first keyframe whose values differ."""
        tape, cursor = self.cursor.tape, self.cursor
        places = {place.tick: place for place in tape.keyframes}
        first, last, last_digest = tape.first_tick, tape.last_tick, self._last_with_digest()
        self._load(places[first])
        self._start_s, self._digests_s = time.process_time(), 0.0
        while cursor.tick is not None and cursor.tick < last and self.differing is None:
            tick = cursor.tick + 1
            try:
                cursor.advance()
            except (CorruptError, TornError, MissingTickError) as error:
                if not is_dropped(tape, tick):
                    self.problems.append(error)
                self._load(tape.keyframe_after(tick))
                continue
            if tick in places and (tick == last_digest or self._has_time()):
                self._compare(places[tick])
            elif tick in places:
                self.skipped += 1
            if self._progress is not None and (tick % REPORT_TICKS == 0 or tick == last):
                self._progress(tick - first + 1, last - first + 1)

    def for_a_while(self, budget_s: float) -> SpeedOfValues | None:
        """Step from the first keyframe for so much processor time; None if its values were not compared, or differ."""
        tape, cursor = self.cursor.tape, self.cursor
        self._load(tape.keyframe_at(tape.first_tick))
        if not self.compared:
            return None
        start_s, spent_s, ticks = time.process_time(), 0.0, 0
        while tape.first_tick + ticks < tape.last_tick and spent_s < budget_s:
            cursor.advance()
            ticks += 1
            spent_s = time.process_time() - start_s
        return SpeedOfValues(ticks, spent_s) if ticks else None

    def _last_with_digest(self) -> int:
        """The tick of the last keyframe whose values can be compared; -1 without any."""
        recording = self.cursor.tape.recording
        for place in reversed(self.cursor.tape.keyframes):
            try:
                if recording.value_digest(place):
                    return place.tick
            except (CorruptError, TornError):
                continue  # It is reported where the run comes to it, or as a damaged block.
        return -1

    def _has_time(self) -> bool:
        """Return True if one more digest does not take more than its share of the time."""
        if math.isinf(self._share):
            return True
        steps_s = time.process_time() - self._start_s - self._digests_s
        return self._digests_s + self._last_digest_s <= self._share * steps_s

    def _load(self, place: KeyframeLocation | None) -> None:
        """Load a keyframe, or the next one that can be read; without one the cursor is at no tick."""
        cursor, tape = self.cursor, self.cursor.tape
        cursor.leave()
        while place is not None:
            try:
                cursor.put(place.tick, tape.snapshot(place))
            except (CorruptError, TornError) as error:
                self.problems.append(error)
                place = tape.keyframe_after(place.tick + 1)
                continue
            self._compare(place)
            return

    def _compare(self, place: KeyframeLocation) -> None:
        try:
            recorded = self.cursor.tape.recording.value_digest(place)
        except (CorruptError, TornError) as error:
            self.problems.append(error)
            return
        if not recorded:
            return
        start_s = time.process_time()
        made = asked(place.tick, "value_digest", self._digests.value_digest)
        self._last_digest_s = time.process_time() - start_s
        self._digests_s += self._last_digest_s
        if made[:1] != recorded[:1]:
            raise NoValuesError("another version of the recorder made the digests of this tape: compare its states")
        if made == recorded:
            self.compared, self.last_compared = self.compared + 1, place.tick
        else:
            self.differing = place.tick


def _path_of(cursor: Cursor, world: Factory | None) -> str:
    """The path of the first value that differs from what the keyframe at the cursor's tick restores."""
    tape, tick = cursor.tape, cursor.tick
    place = None if tick is None else tape.keyframe_at(tick)
    compares = hook(inner_of(cursor.simulation), ComparesValues)
    if place is None or compares is None:
        return ""
    restored = Cursor(tape, make_simulation(tape, world))
    restored.put(place.tick, tape.snapshot(place))
    return compares.value_difference(inner_of(restored.simulation)) or ""
