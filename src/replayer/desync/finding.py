"""Find the first tick at which a replay diverges from its recording, and the differences there.

A finding is data; dump.py writes it to files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs

from recorder.errors import CorruptError, MissingTickError, SimulationFailedError, TornError
from recorder.format.blocks.frame import Frame
from replayer.desync.isolated_rerun import Reruns
from replayer.desync.location import DesyncLocation, find_place, nothing_differed, watched_advance
from replayer.desync.object_diff import holds_objects, shown_fields
from replayer.desync.state_diff import FieldDifference, compare_states
from sim.kernel.exactness import Level, level_of
from sim.kernel.hooks import ComparesValues, KeepsValues, hook
from sim.kernel.simulation import Simulation, inner_of, restore
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from replayer.playback.cursor import Cursor

FRAMES_AROUND = 10  # A finding keeps the inputs of this many ticks before and after the divergent one.
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]|\['([^']*)'\]")
_SHOWN = (type(None), bool, int, float, str)
_TEXT_MAX = 60
_MISSING: Any = object()


@attrs.frozen
class TestedCause:
    """One possible cause.

    Attributes:
        cause: a short description.
        found: the result of the test.
        suspicious: True if the result supports the cause; None if it could not be tested.
        is_of_tick: False for a finding that was made at other ticks than the one that is explained.
    """

    cause: str
    found: str
    suspicious: bool | None
    is_of_tick: bool = True


@attrs.frozen(eq=False)
class Finding:
    """The first divergent tick, with the differences and the tested causes.

    Attributes:
        tick: the first tick whose hash differs.
        expected_hash, actual_hash: recorded and replayed hash of that tick.
        keyframe_tick: tick of the keyframe that the re-simulation started from.
        frames: recorded frames around the tick.
        before: the state at tick - 1, on which recording and replay agree; None if the run begins at tick.
        replayed: the replayed state at the tick.
        compared_tick: tick of the next recorded keyframe, where recorded values are known; None if there is none.
        compared_recorded, compared_replayed: the states there; None without a keyframe, or if the replay failed before.
        differences: differences at compared_tick, by field, in the arena's order.
        note: an additional remark, in a sentence.
        place: the location of the divergence inside the tick, if the tape's frame has enough hashes.
        tested: causes that were tested.
        rerun_count: how often the interval was run again, each time with a fresh simulation.
        other_count: how often it was run again after another simulation had been made, each time with the same hashes, which were
            not those of the others; 0 if they were the same, or if that is not known.
        latest_tick: a later tick, if the run that went wrong is known to differ at or before that one only: tick is the
            first one of another run, which did not repeat it. None if tick is the first.
        first_value: the first value that differs at compared_tick, by its path, where only a simulation can read the state.
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
    rerun_count: int = 0
    other_count: int = 0
    latest_tick: int | None = None
    first_value: str | None = None

    @property
    def compared_states(self) -> tuple[Snapshot, Snapshot] | None:
        """The recorded and the replayed state at compared_tick; None unless there are both."""
        if self.compared_recorded is None or self.compared_replayed is None:
            return None
        return self.compared_recorded, self.compared_replayed

    @property
    def hints_at_hidden_state(self) -> bool:
        """True if a test, or two runs of the interval, showed a step that reads more than the state and the inputs."""
        was_found = any(tested.cause in (HIDDEN_STATE, RESTORE) and tested.suspicious for tested in self.tested)
        return was_found or self.other_count > 0 or self.note in (NOT_DETERMINISTIC, RIGHT_THE_SECOND_TIME)

    def __repr__(self) -> str:
        is_later = self.place.fields is None and self.compared_tick not in (None, self.tick)
        differing = self.place.fields if self.place.fields is not None else [one.field for one in self.differences]
        fields = ", ".join(shown_fields(differing))
        if not fields:
            return f"<Finding: first bad tick {self.tick}>"
        if is_later:
            return (
                f"<Finding: first bad tick {self.tick}; the fields that differ are those of tick {self.compared_tick}, the "
                f"next keyframe: {fields}>"
            )
        return f"<Finding: first bad tick {self.tick}, fields {fields}>"


NOT_DETERMINISTIC = (
    "the same interval, run again, gave different hashes: something besides the state and the inputs takes part in the "
    "step (possible: a clock, random numbers without a seed, memory addresses, threads, values that no keyframe holds)"
)


RIGHT_THE_SECOND_TIME = (
    "the hash was wrong once and right when the interval was run again (possible: code outside of the step changed the "
    "state, a clock, random numbers without a seed, values that no keyframe holds)"
)
STACK_DEPTH = (
    "the same interval, run from deeper in the stack, gave different hashes, and each time the same from one depth: the "
    "state depends on how deep the stack is when a step is called"
)
MADE_BEFORE = "how many simulations the process made before"
HIDDEN_STATE = "hidden state, which keyframes do not hold"
HIDDEN_FROM_RUN = "hidden state that the run itself left behind, which keyframes do not hold"
RESTORE = "a restore that does not bring back all"


def find_desync(cursor: Cursor, bad_tick: int, actual_hash: int, reruns: Reruns | None = None) -> Finding:
    """Re-simulate the interval before bad_tick, where the hash actual_hash was seen, and analyse the first wrong tick.

    Afterwards the cursor is not at any tick. reruns: of the same interval, from isolated_reruns. If it is not None, the
    simulation of cursor must be fresh, as theirs was, and bad_tick must be the first wrong tick of its run.

    Raises MissingTickError if no keyframe before bad_tick can be read, SimulationFailedError if the simulation raises.
    """
    tape = cursor.tape
    # From a keyframe before the bad tick, even if that tick has one: its frame may contradict it.
    start_tick = cursor.place_before(max(bad_tick - 1, tape.first_tick))
    again = reruns.comparable if reruns is not None else []
    tick, mismatch = start_tick, None
    replayed, before = cursor.state.snapshot(), None
    hashes: list[int] = []
    steps = []
    while mismatch is None and tick < bad_tick:
        before = replayed
        if tick + 1 == bad_tick:  # Watched in this run: with hidden state, a second run may behave differently.
            steps = watched_advance(cursor, before)
        else:
            cursor.advance()
        tick += 1
        replayed = cursor.state.snapshot()
        hashes.append(replayed.hash())
        mismatch = cursor.difference()
    note, matched = None, mismatch is None
    if matched and reruns is not None:
        note = NOT_DETERMINISTIC
    elif matched:
        note = RIGHT_THE_SECOND_TIME
    compared = _compare_at_next_keyframe(cursor, tick, hashes)
    if note is None and (
        (reruns is not None and tick != bad_tick)
        or _hash_at(cursor, bad_tick - start_tick, hashes) not in (None, actual_hash)
        or any(one[: len(hashes)] != hashes or one != again[0] for one in again)
    ):
        note = NOT_DETERMINISTIC
    frame = tape.frame(tick)
    place = nothing_differed(frame) if matched else find_place(cursor, frame, before, replayed, steps)
    cursor.leave()
    return Finding(
        tick=tick,
        expected_hash=replayed.hash() if mismatch is None else mismatch[0],
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
        rerun_count=len(again),
        other_count=other_count(reruns, hashes) if reruns is not None else 0,
        first_value=_first_value(cursor.simulation, (compared[1], compared[2])),
    )


def other_count(reruns: Reruns, hashes: list[int]) -> int:
    """How often the interval was run after another simulation had been made, if that alone decided; 0 otherwise.

    hashes: of the run that is told. It must be of the kind without another one: that of a large state may be made in a process that
    has one already.
    """
    is_alone = bool(reruns.alone) and reruns.alone[0][: len(hashes)] == hashes
    return len(reruns.after_another) if reruns.differs_by_count and is_alone else 0


def _hash_at(cursor: Cursor, count: int, hashes: list[int]) -> int | None:
    """The hash after count ticks of a run, which is continued if necessary; None if it cannot be continued."""
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
    """Continue from the bad tick to the next keyframe; returns its tick, both states there, and a note on a failure.

    hashes: the hash of each tick on the way is appended.
    """
    keyframe = cursor.tape.keyframe_after(tick)
    if keyframe is None:
        return None, None, None, "the tape has no later keyframe: recorded values are unknown"
    try:
        recorded = cursor.tape.snapshot(keyframe)
        while cursor.tick != keyframe.tick:
            cursor.advance()
            hashes.append(cursor.state.hash())
    except (CorruptError, TornError, MissingTickError) as error:
        return None, None, None, f"the next keyframe cannot be reached: {error}"
    except SimulationFailedError as error:  # A diverged simulation may fail in any way; that is a finding, too.
        return keyframe.tick, recorded, None, f"the replay failed after the divergent tick, at {error}"
    return keyframe.tick, recorded, cursor.state.snapshot(), None


def _frames_around(cursor: Cursor, tick: int) -> list[Frame]:
    frames = []
    for near in range(tick - FRAMES_AROUND, tick + FRAMES_AROUND + 1):
        try:
            frames.append(cursor.tape.frame(near))
        except (MissingTickError, CorruptError, TornError):
            continue  # Before the first tick, after the last one, or damaged: the dump lists the ticks that it has.
    return frames


def _first_value(simulation: Simulation, states: tuple[Snapshot | None, Snapshot | None]) -> str | None:
    """The path of the first value that differs, of states that only their simulation can read, as of pickled models.

    With both values where they are plain; None if it is not known.

    states: as recorded and as replayed. Both are restored into the simulation, which is in another state afterwards.
    """
    recorded, replayed = states
    if recorded is None or replayed is None or holds_objects(recorded) or level_of(simulation) is not Level.EXACT:
        return None  # A restore at inputs_only repeats all inputs.
    inner = inner_of(simulation)
    keeps, compares = hook(inner, KeepsValues), hook(inner, ComparesValues)
    if keeps is None or compares is None:
        return None
    try:
        restore(simulation, recorded)
        kept = keeps.kept_values()
        restore(simulation, replayed)
        path = compares.value_difference(kept)
        if path is None:
            return None
        theirs = _shown(simulation, path)
        restore(simulation, recorded)
        ours = _shown(simulation, path)
    except Exception:  # noqa: BLE001 - of the user's classes: the fields that differ are told without it
        return None
    return path if ours is None or theirs is None else f"{path}: recorded {ours}, replayed {theirs}"


def _shown(simulation: Simulation, path: str) -> str | None:
    """The value at a path, if it is a plain one that only dicts, lists and attributes in dicts lead to."""
    find_roots = getattr(inner_of(simulation), "value_subject", None)
    roots: Any = {} if find_roots is None else find_roots().roots
    name = next((one for one in roots if re.match(rf"{re.escape(one)}(?![\w])", path)), None)
    if name is None:
        return None
    value, start = roots[name], len(name)
    while start < len(path):
        step = _STEP.match(path, start)
        if step is None:
            return None
        start = step.end()
        value = _part(value, step)
    if type(value) not in _SHOWN:
        return None
    text = repr(value)
    return text if len(text) <= _TEXT_MAX else None  # Of two long texts, the beginnings may be alike.


def _part(value: Any, step: re.Match[str]) -> Any:
    attribute, index, key = step.groups()
    if attribute is not None:
        return getattr(value, "__dict__", {}).get(attribute, _MISSING)
    if index is not None and type(value) in (list, tuple):
        return value[int(index)] if int(index) < len(value) else _MISSING
    return value.get(key, _MISSING) if type(value) is dict and key is not None else _MISSING
