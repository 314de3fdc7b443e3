"""Re-run an interval of a tape in a forked copy of this process, as verify does: runs do not influence each other.

The globals of modules have the values from before any step. They can neither hide nor cause a difference. The random
generators of the process (random, numpy.random) are reseeded, as in a new process, or have the seed that the import of
the user's module gave them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from recorder.ambient.outside.outside_read import OutsideRead
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.outside.read_watch import ReadWatch
from recorder.errors import CorruptError, MissingTickError, RecordingError, SimulationFailedError, TornError
from recorder.processes.fork_call import in_a_copy
from recorder.processes.seeds.process_generators import begin_with_imported_states
from replayer.desync.stack_depth import at_depth, differs_by_depth
from replayer.playback.cursor import MismatchError
from replayer.playback.lost_on_load import lost_on_load
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from replayer.playback.cursor import Cursor

RERUNS_MAX = 9  # A step that differs in one run of three differs in nine runs with a probability of 97 %.
SMALL_BYTES_MAX, ALIGNED_BYTES = 480, 16  # Of the objects of one size that Python keeps side by side.
TURNS_MIN, TURNS_MAX = 4, 8  # Of each kind of run, where two kinds differ: one that differs by chance would show it.
RERUN_S = 1.0  # Of each finding: after that no further run begins.
EARLIER_S = 3.0  # Of each run from an earlier start, which may be as long as the recording.

MakeCursor = Callable[[], "Cursor"]


@attrs.frozen
class Reruns:
    """The hashes of the ticks from an interval's keyframe to the next one, or up to a failure, of several runs.

    Attributes:
        alone: of runs in processes that made one simulation.
        after_another: of runs in processes that made another simulation before, which was not used.
        differs_by_count: True if those of one kind are all alike, and not like those of the other kind, in enough runs of both.
    """

    alone: list[list[int]] = attrs.field(factory=list)
    after_another: list[list[int]] = attrs.field(factory=list)
    differs_by_count: bool = False

    @property
    def comparable(self) -> list[list[int]]:
        """Those that must be alike if the steps are deterministic, as far as these runs show it."""
        return self.alone if self.differs_by_count else [*self.alone, *self.after_another]


def isolated_reruns(make_cursor: MakeCursor, make_another: MakeCursor, bad_tick: int, actual_hash: int) -> Reruns:
    """Run the interval before bad_tick again: RERUNS_MAX times, or fewer if that takes RERUN_S, or if two runs differ.

    Two that differ tell only that something besides the state takes part. If all that made another simulation before are alike,
    and the others are alike, too, it is how many were made: a counter that a class keeps. Without those whose process died.

    make_cursor, make_another: called in copies of this process, once in each. The second makes another simulation before.
    actual_hash: of bad_tick in the run that is repeated.
    """
    runs = Reruns()
    kinds = [(make_another, runs.after_another), (make_cursor, runs.alone)]
    started_s, count = time.monotonic(), 0
    while kinds and count < RERUNS_MAX and (not count or time.monotonic() - started_s < RERUN_S):
        make, found = kinds[count % len(kinds)]
        try:
            again = in_a_copy(partial(_hashes, make, bad_tick))
        except RuntimeError:
            kinds.remove((make, found))  # It may be that two cannot be made in one process.
            continue
        found.append(again["hashes"])
        count += 1
        place = bad_tick - again["start"] - 1
        is_as_before = found[-1][place : place + 1] in ([actual_hash], [])
        if not is_as_before or any(one != found[-1] for one in runs.comparable):
            return _by_count(make_cursor, make_another, bad_tick, runs)
    return runs


def _by_count(make_cursor: MakeCursor, make_another: MakeCursor, bad_tick: int, runs: Reruns) -> Reruns:
    """Go on by turns, after two runs differed, until two of one kind differ, or there are enough of both."""
    ended_s = time.monotonic() + RERUN_S
    kinds = [(make_another, runs.after_another), (make_cursor, runs.alone)]

    def is_open() -> bool:
        fewest = min(len(found) for _, found in kinds)
        return fewest < TURNS_MIN or (fewest < TURNS_MAX and time.monotonic() < ended_s)

    while is_open():
        kinds.sort(key=lambda kind: len(kind[1]))
        make, found = kinds[0]
        try:
            found.append(in_a_copy(partial(_hashes, make, bad_tick))["hashes"])
        except RuntimeError:
            return runs
        if found[-1] != found[0] or (runs.alone and runs.after_another and runs.alone[0] == runs.after_another[0]):
            return runs
    return attrs.evolve(runs, differs_by_count=True)


def interval_differs_by_depth(make_cursor: MakeCursor, bad_tick: int) -> bool:
    """Return True if the hashes of the interval before bad_tick differ where the steps are called from deeper in the stack."""

    def run(deeper: int) -> list[int] | None:
        work = partial(_hashes, make_cursor, bad_tick)
        try:
            hashes: list[int] = in_a_copy(partial(at_depth, deeper, work))["hashes"]
        except RuntimeError:
            return None
        return hashes

    return differs_by_depth(run)


@attrs.frozen
class EarlierRun:
    """A run up to the bad tick from an earlier start than that of its interval.

    Attributes:
        start_tick: the tick at which it began.
        is_restored: True if it began with a keyframe, False if with the new simulation as it was made.
        state_hash: of the state at the bad tick; None if it was not reached.
        why: the reason for that.
    """

    start_tick: int
    is_restored: bool
    state_hash: int | None
    why: str = ""


def earlier_runs(make_cursor: MakeCursor, bad_tick: int) -> list[EarlierRun]:
    """Run to bad_tick from the keyframe before the usual one, from the first one, and from a simulation as it was made.

    Those that the tape has, each in a copy of this process. Empty if the usual keyframe cannot be loaded.
    """
    try:
        starts = in_a_copy(partial(_starts, make_cursor, bad_tick))["starts"]
    except RuntimeError:
        return []
    runs = []
    for start, is_restored in starts:
        try:
            found = in_a_copy(partial(_run_from, make_cursor, start, bad_tick, is_restored=is_restored))
        except RuntimeError as error:
            found = {"why": str(error)}
        runs.append(EarlierRun(found.get("start", start), is_restored, found.get("hash"), found.get("why", "")))
    return runs


def lost_field(make_cursor: MakeCursor, bad_tick: int) -> str | None:
    """The first field in which save() differs right after load() of the keyframe before a tick; None if it is equal.

    None as well for a simulation without a save() and a load() of its own, and where they raise.
    """

    def lost() -> dict[str, Any]:
        cursor = _fresh(make_cursor)
        cursor.place_before(max(bad_tick - 1, cursor.tape.first_tick))
        try:
            return {"field": lost_on_load(cursor.simulation)}
        except Exception:  # noqa: BLE001 - of the user's save(): what it would return is not known
            return {"field": None}

    try:
        field: str | None = in_a_copy(lost)["field"]
    except (RuntimeError, RecordingError):
        return None
    return field


def gives_recorded_as_made(make_cursor: MakeCursor, tick: int, recorded_hash: int) -> bool:
    """Return True if a new simulation, into which nothing is restored, runs to a tick and has the recorded hash there."""
    try:
        found = in_a_copy(partial(_run_from, make_cursor, 0, tick, is_restored=False))
    except RuntimeError:
        return False
    return bool(found.get("hash") == recorded_hash)


def step_reads(make_cursor: MakeCursor, tick: int, before: Snapshot | None) -> list[OutsideRead] | None:
    """What the step to a tick reads of the outside world; None if a copy of this process cannot make it.

    before: the state at tick - 1.
    """
    for functions in (True, False):  # Replaced functions may stop code from being compiled.
        try:
            watched = in_a_copy(partial(_watched, make_cursor, tick, before, functions=functions))
        except RuntimeError:
            return None
        if watched["is_made"]:
            return list(map(OutsideRead.from_plain, watched["reads"]))
    return None


def _watched(make_cursor: MakeCursor, tick: int, before: Snapshot | None, *, functions: bool) -> dict[str, Any]:
    cursor = _fresh(make_cursor)
    watch, is_made = ReadWatch(OwnCode(cursor.simulation)), False
    try:
        if before is not None:
            cursor.put(tick - 1, before)
            with watch.watching(functions=functions):
                cursor.advance()
            is_made = True
    except RecordingError:  # Of a step that raises; or the state cannot be put.
        pass
    return {"is_made": is_made, "reads": [read.to_plain() for read in watch.reads]}


def _hashes(make_cursor: MakeCursor, bad_tick: int) -> dict[str, Any]:
    """The hashes of the ticks after the keyframe before bad_tick, up to the next one, and the tick of that keyframe."""
    cursor = _fresh(make_cursor)
    start = bad_tick
    keyframe = cursor.tape.keyframe_after(bad_tick)
    last = keyframe.tick if keyframe is not None else bad_tick
    hashes: list[int] = []
    try:
        start = cursor.place_before(max(bad_tick - 1, cursor.tape.first_tick))
        while cursor.tick != last:
            cursor.advance()
            hashes.append(cursor.state.hash())
    except (CorruptError, TornError, MissingTickError, SimulationFailedError):
        pass  # The caller compares the hashes up to here.
    return {"hashes": hashes, "start": start}


def _starts(make_cursor: MakeCursor, bad_tick: int) -> dict[str, Any]:
    """The ticks to start from, each with True if a keyframe is restored there."""
    cursor = _fresh(make_cursor)
    tape = cursor.tape
    try:
        usual = cursor.place_before(max(bad_tick - 1, tape.first_tick))
        earlier = (
            [cursor.place_before(usual - 1), cursor.place_before(tape.first_tick)] if usual > tape.first_tick else []
        )
    except RecordingError:
        return {"starts": []}
    return {"starts": [*((start, True) for start in dict.fromkeys(earlier)), (tape.first_tick, False)]}


def _run_from(make_cursor: MakeCursor, start: int, bad_tick: int, *, is_restored: bool) -> dict[str, Any]:
    cursor = _fresh(make_cursor)
    started_s = time.monotonic()
    try:
        if is_restored:
            start = cursor.place_before(start)
        else:
            cursor.begin()
        while cursor.tick != bad_tick:
            cursor.advance()
            if time.monotonic() - started_s > EARLIER_S:
                return {"why": f"it takes more than {EARLIER_S:g} s"}
    except MismatchError:
        return {"why": "a new simulation does not begin in the first recorded state"}
    except RecordingError as error:  # The re-simulation failed: that says nothing about hidden state.
        return {"why": str(error)}
    return {"start": start, "hash": cursor.state.hash()}


def _fresh(make_cursor: MakeCursor) -> Cursor:
    _held.extend(_scattered())
    begin_with_imported_states(reseeds=True)
    return make_cursor()


_held: list[bytes] = []  # In a copy, until it ends.


def _scattered() -> list[bytes]:
    """Small objects with gaps between them at random: new objects get other addresses than in the copies before.

    Copies of one process would otherwise order sets of objects alike, each time, and a new process would not.
    """
    chance = random.Random()  # noqa: S311 - not that of the module: the step may draw from it
    made = [bytes(size) for size in range(0, SMALL_BYTES_MAX, ALIGNED_BYTES) for _ in range(chance.randrange(400))]
    chance.shuffle(made)
    return made[: len(made) // 2]
