"""Find the first tick at which a replay parts from its recording, and what differs there.

A finding is data; writing it down is dump.py's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from recorder.errors import CorruptError, MissingTickError, SimulationFailedError, TornError
from recorder.format.blocks.frame import Frame
from replayer.desync.isolated_rerun import hashes_apart
from replayer.desync.location import DesyncLocation, find_place, watched_advance
from replayer.desync.state_diff import FieldDifference, compare_states
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from replayer.playback.cursor import Cursor

FRAMES_AROUND = 10  # Inputs of so many ticks before and after the bad one are kept.


@attrs.frozen
class TestedCause:
    """One possible cause.

    Attributes:
        cause: in a few words.
        found: what the test showed.
        suspicious: whether that speaks for the cause; None where it could not be tested.
    """

    cause: str
    found: str
    suspicious: bool | None


@attrs.frozen(eq=False)
class Finding:
    """The first bad tick and what is known of it.

    Attributes:
        tick: the first whose hash differs.
        expected_hash, actual_hash: recorded and replayed, at that tick.
        keyframe_tick: from where it was re-simulated.
        frames: recorded frames around the tick.
        before: the state at tick - 1, on which both agree; None if the run begins at tick.
        replayed: the state at the tick as replayed.
        compared_tick: of the next recorded keyframe, where recorded values are known; None if there is none.
        compared_recorded, compared_replayed: the states there; None if there is no keyframe or replay failed before.
        differences: by field, in the arena's order, at compared_tick.
        note: what else must be said, in a sentence.
        place: where in the tick states part, as far as the tape's frame says it.
        tested: causes that were tested.
    """

    tick: int
    expected_hash: int
    actual_hash: int
    keyframe_tick: int
    frames: list[Frame]
    before: Snapshot | None
    replayed: Snapshot
    compared_tick: int | None
    compared_recorded: Snapshot | None
    compared_replayed: Snapshot | None
    differences: list[FieldDifference]
    note: str | None
    place: DesyncLocation = attrs.field(factory=DesyncLocation)
    tested: list[TestedCause] = attrs.field(factory=list)

    def __repr__(self) -> str:
        fields = ", ".join(difference.field for difference in self.differences)
        return f"<Finding: tick {self.tick}{', fields ' if fields else ''}{fields}>"


NOT_DETERMINISTIC = (
    "the step is not deterministic: the same interval gave other hashes when it was run again "
    "(something outside of the state takes part in it)"
)


def find_desync(
    cursor: Cursor, bad_tick: int, actual_hash: int, make_cursor: Callable[[], Cursor] | None = None
) -> Finding:
    """Re-simulate the interval before bad_tick, whose hash was seen to be actual_hash, and look at the first wrong tick.

    The cursor stands at no tick afterwards. make_cursor: another one with a fresh simulation, to run the interval once
    more, in a copy of this process as it is now; if it is given, the cursor's is fresh, too, and bad_tick was the first
    wrong one when it was seen.

    Raises MissingTickError if no keyframe before bad_tick can be read, SimulationFailedError if the simulation raises.
    """
    tape = cursor.tape
    # From a keyframe before the bad tick, even if there is one at it: its frame may contradict it.
    start_tick = cursor.place_before(max(bad_tick - 1, tape.first_tick))
    again = hashes_apart(make_cursor, start_tick, bad_tick) if make_cursor is not None else None
    tick, apart = start_tick, None
    replayed, before = cursor.state.snapshot(), None
    hashes: list[int] = []
    steps = []
    while apart is None and tick < bad_tick:
        before = replayed
        if tick + 1 == bad_tick:  # Watched now: with state outside of the state it may do something else the next time.
            steps = watched_advance(cursor, before)
        else:
            cursor.advance()
        tick += 1
        replayed = cursor.state.snapshot()
        hashes.append(replayed.hash())
        apart = cursor.difference()
    note, matched = None, apart is None
    if matched and make_cursor is not None:
        note = NOT_DETERMINISTIC
    elif matched:
        note = (
            "the hash was wrong once and right when the interval was run again: "
            "something outside of the state takes part in the step, or the state was changed from outside"
        )
    compared = _compare_at_next_keyframe(cursor, tick, hashes)
    if note is None and (
        (make_cursor is not None and tick != bad_tick)
        or _hash_at(cursor, bad_tick - start_tick, hashes) not in (None, actual_hash)
        or (again is not None and again[: len(hashes)] != hashes)
    ):
        note = NOT_DETERMINISTIC
    place = find_place(cursor, tape.frame(tick), before, replayed, steps) if not matched else DesyncLocation()
    cursor.leave()
    return Finding(
        tick=tick,
        expected_hash=replayed.hash() if apart is None else apart[0],
        actual_hash=actual_hash if matched else replayed.hash(),
        keyframe_tick=start_tick,
        frames=_frames_around(cursor, tick),
        before=before,
        replayed=replayed,
        compared_tick=compared[0],
        compared_recorded=compared[1],
        compared_replayed=compared[2],
        differences=compare_states(compared[1], compared[2]) if compared[1] and compared[2] else [],
        note=note or compared[3],
        place=place,
    )


def _hash_at(cursor: Cursor, count: int, hashes: list[int]) -> int | None:
    """The hash after so many ticks of a run, which goes on if it is not there yet; None if it cannot."""
    try:
        while len(hashes) < count and cursor.tick is not None:
            cursor.advance()
            hashes.append(cursor.state.hash())
    except (CorruptError, TornError, MissingTickError, SimulationFailedError):
        return None
    return hashes[count - 1] if len(hashes) >= count else None


def _compare_at_next_keyframe(
    cursor: Cursor, tick: int, hashes: list[int]
) -> tuple[int | None, Snapshot | None, Snapshot | None, str | None]:
    """Run on from the bad tick to the next keyframe: its tick, both states there, and what went wrong on the way.

    hashes: those on the way are added.
    """
    keyframe = cursor.tape.keyframe_after(tick)
    if keyframe is None:
        return None, None, None, "the tape has no later keyframe, so that recorded values are not known"
    try:
        recorded = cursor.tape.snapshot(keyframe)
        while cursor.tick != keyframe.tick:
            cursor.advance()
            hashes.append(cursor.state.hash())
    except (CorruptError, TornError, MissingTickError) as error:
        return None, None, None, f"the next keyframe cannot be reached: {error}"
    except SimulationFailedError as error:  # A diverged simulation may fail in any way; that is a finding too.
        return keyframe.tick, recorded, None, f"going on from the bad tick, at {error}"
    return keyframe.tick, recorded, cursor.state.snapshot(), None


def _frames_around(cursor: Cursor, tick: int) -> list[Frame]:
    frames = []
    for near in range(tick - FRAMES_AROUND, tick + FRAMES_AROUND + 1):
        try:
            frames.append(cursor.tape.frame(near))
        except (MissingTickError, CorruptError, TornError):
            continue  # Before the first tick, after the last one, or damaged: the dump shows which ticks it has.
    return frames
