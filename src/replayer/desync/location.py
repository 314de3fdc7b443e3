"""Locate a divergence inside a step: the fields that differ at the divergent tick, and the phase that caused it.

Fields and phases come from the 16-bit hashes in the tape's frame; no recorded state is needed. If a frame has no hashes
of phases, the phases that write a differing field in the replay are listed instead.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import attrs
import numpy as np

from recorder.errors import CorruptError, RecordingError, TornError
from recorder.format.blocks.frame import Frame
from sim.kernel.hashing import FIELD_HASH_BYTES, differing_fields, hash_fields, short_hash, split_short
from sim.kernel.simulation import watched_phases
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from replayer.playback.cursor import Cursor
    from replayer.tape.tape import Tape


@attrs.frozen
class DesyncLocation:
    """The location of a divergence inside a tick.

    Attributes:
        fields: fields whose hash differs, in the arena's order; None if they are not known.
        unknown: why fields are not known although the tape has hashes of them; empty if it has none.
        room: columns and blobs whose hash differs only because of a different capacity for rows; not in fields.
        phase: the first phase after which the state's hash differs; None if the tape has no hashes of phases, or none
            differs.
        writers: phases that wrote one of these fields in the replayed step, in their order; useful if phase is None.
    """

    fields: list[str] | None = None
    phase: str | None = None
    writers: list[str] = attrs.field(factory=list)
    room: list[str] = attrs.field(factory=list)
    unknown: str = ""


def nothing_differed(frame: Frame) -> DesyncLocation:
    """The location in the tick of frame, if the run in which its fields were to be compared had the recorded hash."""
    return DesyncLocation(
        unknown="run again to compare them, the tick had the recorded hash" if frame.field_hashes else ""
    )


def find_place(
    cursor: Cursor, frame: Frame, before: Snapshot | None, replayed: Snapshot, steps: list[PhaseStep]
) -> DesyncLocation:
    """Locate the divergence in the tick of frame. Moves the cursor.

    before: the state before the tick. steps: the phases of the tick in the run that diverged; if empty, the tick is run
    again.
    """
    if not steps and before is not None:
        steps = _watch(cursor, frame.tick, before, replayed)
    place = place_of(frame, replayed, steps)
    room = [name for name in place.fields or () if _only_room(cursor.tape, frame, replayed, name)]
    return (
        attrs.evolve(place, fields=[name for name in place.fields or () if name not in room], room=room)
        if room
        else place
    )


def _only_room(tape: Tape, frame: Frame, replayed: Snapshot, name: str) -> bool:
    """Return True if the field would have the recorded hash with the capacity that a neighbouring keyframe has."""
    slot, number = replayed.layout.slots[name], list(replayed.layout.slots).index(name)
    if slot.owner is None:
        return False
    count = len(frame.field_hashes) // FIELD_HASH_BYTES
    recorded = frame.field_hashes[number : number + 1] + frame.field_hashes[count + number : count + number + 1]
    live = replayed[name].tobytes()
    for place in (next(tape.keyframes_at_or_before(frame.tick), None), tape.keyframe_after(frame.tick)):
        try:
            capacity = tape.snapshot(place).layout.capacities.get(slot.owner) if place is not None else None
        except (CorruptError, TornError):
            continue
        if capacity is not None and capacity * slot.row_bytes >= len(live):
            padded = np.frombuffer(live.ljust(capacity * slot.row_bytes, b"\0"), np.uint8)
            if hash_fields([padded.data]) == recorded:
                return True
    return False


def place_of(frame: Frame, replayed: Snapshot, steps: list[PhaseStep]) -> DesyncLocation:
    """Compare a replayed state with the hashes in the frame of its tick. steps: the phases of the replayed tick."""
    names = list(replayed.layout.slots)
    replayed_hashes = replayed.field_hashes()
    fields, unknown = None, ""
    if frame.field_hashes and len(frame.field_hashes) == len(replayed_hashes):
        fields = differing_fields(names, frame.field_hashes, replayed_hashes)
    elif frame.field_hashes:  # Those of objects come and go with the classes of these.
        recorded_count = len(frame.field_hashes) // FIELD_HASH_BYTES
        unknown = (
            f"the recorded state has {recorded_count} fields there, and the replayed one {len(names)}; a value of another "
            "type, or an object of another class, is kept in a field of its own"
        )
    if not steps:
        return DesyncLocation(fields, unknown=unknown)
    recorded = split_short(frame.phase_hashes)
    phase = None
    if len(recorded) == len(steps):
        pairs = zip(steps, recorded, strict=True)
        phase = next((step.phase for step, recorded_hash in pairs if step.state_hash != recorded_hash), None)
    return DesyncLocation(fields, phase, _writers(steps, fields), unknown=unknown)


def place_between(fields: list[str], first: list[PhaseStep], second: list[PhaseStep]) -> DesyncLocation:
    """Locate the divergence of two runs of one tick.

    fields: the fields that differ at the end of the tick. first, second: the phases of the two runs.
    """
    for step_a, step_b in zip(first, second, strict=False):
        if step_a.phase != step_b.phase:
            break  # Two versions of the code with different phases: later phases cannot be compared.
        if step_a.state_hash != step_b.state_hash:
            return DesyncLocation(fields, step_a.phase, _writers(first, fields))
    return DesyncLocation(fields, None, _writers(first, fields))


def _writers(steps: list[PhaseStep], fields: list[str] | None) -> list[str]:
    return [step.phase for step in steps if fields and {*fields} & {*step.written}]


def phase_text(place: DesyncLocation) -> str | None:
    """A line about the phase of the divergence; None if nothing is known about it."""
    if place.phase is not None:
        return f"phase: {place.phase}"
    if len(place.writers) == 1:
        return f"phase: {place.writers[0]}, the only one that writes a differing field"
    if place.writers:
        return f"phase: one of {', '.join(place.writers)}; a tape recorded with --blame phases shows which one"
    return None


@attrs.frozen
class PhaseStep:
    """The effect of one phase of the replayed tick.

    Attributes:
        phase: name of the phase.
        state_hash: 16 bits of the state's hash after it, big-endian.
        written: names of the fields that it changed; all, if it changed the layout.
    """

    phase: str
    state_hash: bytes
    written: list[str]


def watched_advance(cursor: Cursor, before: Snapshot) -> list[PhaseStep]:
    """Advance the cursor from before by one tick; return the effect of each phase, [] if the simulation has none.

    Raises as Cursor.advance does.
    """
    steps: list[PhaseStep] = []
    last = before

    def after(phase: str) -> None:
        nonlocal last
        now = cursor.state.snapshot()
        same_layout = now.layout.hash_seed == last.layout.hash_seed
        names = list(now.layout.slots)
        written = differing_fields(names, last.field_hashes(), now.field_hashes()) if same_layout else names
        steps.append(PhaseStep(phase, short_hash(now.hash()), written))
        last = now

    def before_phase(_: str) -> None:
        nonlocal last
        last = cursor.state.snapshot()  # What the step wrote between two phases was written by neither.

    with ExitStack() as watching:
        with suppress(TypeError):  # It has no phases, or they cannot be replaced.
            watching.enter_context(watched_phases(cursor.simulation, after, before_phase))
        cursor.advance()
    return steps


def _watch(cursor: Cursor, tick: int, before: Snapshot, replayed: Snapshot) -> list[PhaseStep]:
    """Run the tick again and return its phases; [] if the simulation has none, or the result differs from replayed."""
    try:
        cursor.put(tick - 1, before)
        steps = watched_advance(cursor, before)
    except RecordingError:
        return []
    return steps if cursor.state.hash() == replayed.hash() else []
