"""Make a sound tape of a damaged one: copy what is whole, rebuild what can be proved, write down what is lost.

The original is only read. A keyframe that is damaged is made again by re-simulating from the one before it, a lost
first keyframe from a fresh simulation, and counts only if its hash is the recorded one. Inputs cannot be made again:
ticks whose frames are lost get a DROP block.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError, SimulationFailedError, TornError
from recorder.format.blocks.block import Flags
from recorder.format.blocks.frame import Frame
from recorder.format.limits import BLOCK_TICKS_MAX, PIECE_RAW_BYTES
from recorder.format.segments.block_location import KeyframeLocation, optional_blocks
from recorder.format.segments.segment_contents import Damage
from recorder.format.segments.segment_reader import Segment
from recorder.session.session import encode_small
from recorder.storage.tape_copy import TapeCopy, copied_meta, why_missing
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import Factory, UnfitSimulationError, make_simulation
from replayer.tape.tape import STOPPED_EARLY, Tape
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot

Progress = Callable[[int, int], None]  # Ticks copied so far, ticks in all.


class NothingToRepairError(MissingTickError):
    """There is no state on the tape, and none can be made; ``damaged`` tells whether there was one."""

    def __str__(self) -> str:
        return self.why


@attrs.frozen
class RepairReport:
    """What came of a repair.

    Attributes:
        path: of the new tape.
        first_tick, last_tick: of the new tape.
        copied_keyframes: as they were.
        rebuilt_ticks: of keyframes that were re-simulated, and proved by the recorded hash.
        lost_keyframe_ticks: of keyframes that were damaged and could not be rebuilt, with the reason.
        lost_ticks: ranges, first and last, whose frames are lost, with the reason.
        lost_optional: blocks of kinds that need not be known and are damaged: name of the kind and reason.
    """

    path: Path
    first_tick: int
    last_tick: int
    copied_keyframes: int
    rebuilt_ticks: list[int]
    lost_keyframe_ticks: list[tuple[int, str]]
    lost_ticks: list[tuple[int, int, str]]
    lost_optional: list[tuple[str, str]]

    @property
    def whole(self) -> bool:
        """Nothing that was recorded is lost."""
        return not (self.lost_ticks or self.lost_keyframe_ticks or self.lost_optional)


def repair_tape(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    world: Factory | None = None,
    *,
    progress: Progress | None = None,
) -> RepairReport:
    """Write a repaired copy of the tape at path to target.

    world: makes the simulation, for a tape that names no registered world; without any simulation, keyframes are copied
    but none is rebuilt.

    Raises as Tape does on opening; FileExistsError if there is a target; NothingToRepairError if no tick can be had.
    """
    with Tape(path) as tape:
        tape.distrust_index()
        return _Repair(tape, world, progress).write(Path(target))


# What a step raises when it meets a state or inputs that are not those of its own world.
STEP_ERRORS = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError)

_KNOWN_KINDS = {"META", "FRAMES", "FULL", "DELTA", "END", "DROP", "INDEX"}
_OTHER_HASH = "re-simulating gives another hash than the recorded one"


@attrs.define
class _Keyframe:
    """A keyframe that the new tape should have."""

    tick: int
    place: KeyframeLocation | None  # None: only the ticks around it say that it was there.


class _Repair:
    """One repair, while it runs."""

    def __init__(self, tape: Tape, world: Factory | None, progress: Progress | None) -> None:
        self._tape = tape
        self._progress = progress
        self._simulation, self._why_none = _simulation_of(tape, world)
        self._fresh = (lambda: make_simulation(tape, world)) if self._simulation is not None else None
        self._copied = 0
        self._rebuilt: list[int] = []
        self._lost_keyframes: list[tuple[int, str]] = []
        self._lost: list[tuple[int, int, str]] = []
        self._lost_optional = [
            (d.kind, d.what) for d in tape.damages if d.kind is not None and d.kind not in _KNOWN_KINDS
        ]
        self._optional = deque(optional_blocks(tape.segments))
        self._full_copied = False
        self._full_seq = -1  # Number, in the original, of the full keyframe that was copied last.
        self._last_rebuilt: tuple[int, Snapshot] | None = None

    def write(self, target: Path) -> RepairReport:
        """Copy, rebuild, seal."""
        tape = self._tape
        keyframes = self._wanted_keyframes()
        first, start = self._find_start(keyframes)
        last = max([keyframe.tick for keyframe in keyframes] + [self._last_frame()], default=first)
        run_id = bytes.fromhex(tape.run_id) or os.urandom(16)
        status = "corrupt" if tape.check_blocks() else tape.status
        meta = copied_meta(tape.assembled, repaired={"from": tape.path.name, "status": status})
        with TapeCopy(target, run_id, meta) as copy:
            if start is not None:
                copy.full(first, start, rebuilt=True)
                self._rebuilt.append(first)
                self._full_copied, self._last_rebuilt = True, (first, start)
            self._note_lost_front(keyframes, first)
            next_tick = first + 1
            for keyframe in keyframes:
                if keyframe.tick < first or (keyframe.tick == first and start is not None):
                    continue
                next_tick = self._copy_frames(copy, next_tick, keyframe.tick)
                if keyframe.place is not None:
                    self._copy_optional(copy, (keyframe.place.segment, keyframe.place.entry.offset))
                self._copy_keyframe(copy, keyframe)
                if self._progress is not None:
                    self._progress(keyframe.tick - first, last - first)
            self._copy_frames(copy, next_tick, last)
            self._copy_optional(copy, None)
            copy.finish(_outcome_of(tape))
        lost = (self._lost_keyframes, self._lost, self._lost_optional)
        return RepairReport(target, first, last, self._copied, self._rebuilt, *lost)

    # --- what there should be

    def _wanted_keyframes(self) -> list[_Keyframe]:
        """The keyframes that are on the tape, and those that a damaged stretch will have held, by tick."""
        found: dict[int, _Keyframe] = {}
        for segment in self._tape.segments:
            for part in segment.parts:
                loaded = part.load()
                for row in loaded.keyframe_rows:
                    place = KeyframeLocation.of(loaded, int(row), segment.number)
                    if place.tick not in found or place.is_full:
                        found[place.tick] = _Keyframe(place.tick, place)
        for tick in self._ticks_in_damage():
            found.setdefault(tick, _Keyframe(tick, None))
        return [found[tick] for tick in sorted(found)]

    def _ticks_in_damage(self) -> list[int]:
        """Ticks where the cadence of the recording puts a keyframe and the file is damaged."""
        settings = self._tape.meta.get("settings") or self._tape.meta
        interval = settings.get("keyframe_interval_ticks")
        if not isinstance(interval, int) or interval < 1:
            return []
        ticks: list[int] = []
        neighbours = {segment.number: _Neighbours(segment) for segment in self._tape.segments}
        for damage in self._tape.damages:
            around = neighbours[damage.segment].of(damage) if damage.segment in neighbours else None
            if around is None or damage.torn:
                continue
            before, after = around
            if after - before <= 2 * interval:
                ticks += range(-(-before // interval) * interval, after, interval)
        return ticks

    def _find_start(self, keyframes: Sequence[_Keyframe]) -> tuple[int, Snapshot | None]:
        """The first tick of the new tape; its state, if that has to be rebuilt from a fresh simulation."""
        readable = next((k for k in keyframes if k.place is not None and self._snapshot(k.place) is not None), None)
        first_frame = self._first_frame()
        if self._fresh is not None and first_frame is not None and (readable is None or first_frame <= readable.tick):
            last = readable.tick if readable is not None else self._last_frame()
            start = self._rebuild_start(self._fresh(), first_frame, last)
            if start is not None:
                return first_frame - 1, start
        if readable is None:
            damaged = bool(self._tape.check_blocks())
            why = "no keyframe can be read and none can be rebuilt" if damaged else STOPPED_EARLY
            raise NothingToRepairError(0, f"{why}: there is nothing to repair", damaged)
        return readable.tick, None

    def _note_lost_front(self, keyframes: Sequence[_Keyframe], first: int) -> None:
        """Note the ticks before the new tape's first one: there are frames of them, but no state that leads to them."""
        earlier = [keyframe.tick for keyframe in keyframes if keyframe.tick < first]
        first_frame = self._first_frame()
        seals = [segment.contents.seal for segment in self._tape.segments]
        sealed = [seal.first_tick for seal in seals if seal is not None and seal.frame_count]
        begin = min([*earlier, *sealed, first_frame - 1 if first_frame is not None else first])
        settings = self._tape.meta.get("settings") or {}
        is_ring = any(settings.get(name) is not None for name in ("keep_ticks", "keep_s"))
        if 0 in self._tape.missing_segments and first and not is_ring:
            self._lost.append((0, min(begin, first) - 1, "the first file is missing"))
        if begin < first:
            why = self._why_none or "a fresh simulation does not give the recorded states"
            self._lost_keyframes += [(tick, why) for tick in earlier]
            self._lost.append((begin, first - 1, "the keyframe that leads to them is lost"))

    def _rebuild_start(self, simulation: Simulation, first_frame: int, last: int) -> Snapshot | None:
        """The state before the first frame, if a fresh simulation in that state steps to the recorded hashes up to last.

        last: the first keyframe's tick that can be read: from there on the tape proves itself.
        """
        start = simulation.state.snapshot()
        proved = 0
        try:
            for tick in range(first_frame, last + 1):
                frame = self._tape.frame(tick)
                simulation.step(frame.inputs)
                if simulation.state.hash() != frame.state_hash:
                    return None
                proved += 1
        except RecordingError:
            pass  # As far as there are frames; one that agrees is proof.
        except STEP_ERRORS:
            return None  # The step does not take this state: it is another one.
        return start if proved else None

    def _first_frame(self) -> int | None:
        ticks = [
            int(p.load().frame_ticks[0]) for s in self._tape.segments for p in s.parts if len(p.load().frame_ticks)
        ]
        ticks += [frame.tick for frame in self._tape.recording.journal[:1]]
        return min(ticks, default=None)

    def _last_frame(self) -> int:
        """The last tick of which there is a frame, or of which a seal says that there was one."""
        entries = [e for s in self._tape.segments for p in s.parts for e in p.load().entries() if e.tick_count]
        ticks = [entry.final_tick for entry in entries] + [frame.tick for frame in self._tape.recording.journal[-1:]]
        ticks += [s.contents.seal.last_tick for s in self._tape.segments if s.contents.seal is not None]
        return max(ticks, default=0)

    # --- copying

    def _copy_frames(self, copy: TapeCopy, first: int, last: int) -> int:
        """Copy the frames of these ticks; where there are none, write that down. The tick to go on with."""
        frames: list[Frame] = []
        gathered_bytes = 0
        lost: tuple[int, int, str] | None = None
        for run in self._tape.recording.runs(first, last):
            if run.error is not None:
                why = lost[2] if lost else why_missing(self._tape.recording, run.first_tick, run.error)
                lost = (lost[0] if lost else run.first_tick, run.last_tick, why)
                copy.frames(frames)
                frames = []
                continue
            if lost is not None:
                self._note_lost(copy, *lost)
                lost = None
            frames += run.frames
            gathered_bytes += sum(len(frame.encoded_inputs) for frame in run.frames)
            if (
                gathered_bytes > PIECE_RAW_BYTES or len(frames) > BLOCK_TICKS_MAX
            ):  # All may be more than fits into memory.
                copy.frames(frames)
                frames, gathered_bytes = [], 0
        copy.frames(frames)
        if lost is not None:
            self._note_lost(copy, *lost)
        return max(first, last + 1)

    def _note_lost(self, copy: TapeCopy, first: int, last: int, why: str) -> None:
        copy.drop(first, last, why)
        self._lost.append((first, last, why))

    def _copy_optional(self, copy: TapeCopy, position: tuple[int, int] | None) -> None:
        """Copy the blocks of kinds that need not be known that stand before a position; None: all that are left."""
        while self._optional and (position is None or self._optional[0].position < position):
            block = self._optional.popleft()
            try:
                copy.optional(block)
            except (CorruptError, TornError) as error:
                kind = error.kind if isinstance(error, CorruptError) else None
                self._lost_optional.append((kind or f"kind {block.entry.kind}", str(error)))

    def _copy_keyframe(self, copy: TapeCopy, keyframe: _Keyframe) -> None:
        """Copy a keyframe as it is if its state is proved, else rebuild it as a full one."""
        place = keyframe.place
        snapshot = self._snapshot(place) if place is not None else None
        if place is not None and snapshot is not None:
            if place.is_full:
                copy.full(place.tick, snapshot, rebuilt=bool(place.entry.flags & Flags.REBUILT))
                self._full_seq = place.entry.seq
            elif self._full_copied and self._full_seq == place.entry.seq - place.entry.baseline:
                copy.delta(place.tick, self._tape.recording.payload(place))
            else:
                copy.full(place.tick, snapshot)  # What it builds upon was not copied: it stands for itself.
                self._full_seq = -1
            self._full_copied = True
            self._copied += 1
            return
        rebuilt, why = self._rebuild(keyframe.tick)
        if rebuilt is not None:
            copy.full(keyframe.tick, rebuilt, rebuilt=True)
            self._full_copied, self._full_seq = True, -1
            self._rebuilt.append(keyframe.tick)
        elif place is not None:
            self._lost_keyframes.append((keyframe.tick, why))

    def _snapshot(self, place: KeyframeLocation) -> Snapshot | None:
        try:
            return self._tape.snapshot(place)
        except (CorruptError, TornError):
            return None

    def _rebuild(self, tick: int) -> tuple[Snapshot | None, str]:
        """The state at tick, re-simulated and proved by the hash in its frame; or why not."""
        if self._simulation is None:
            return None, self._why_none
        cursor = Cursor(self._tape, self._simulation)
        try:
            try:
                cursor.seek(tick)
            except MissingTickError:
                if self._last_rebuilt is None:
                    raise
                cursor.put(*self._last_rebuilt)  # No keyframe of the tape leads here, but one that was rebuilt may.
                while cursor.tick != tick:
                    cursor.advance()
                if cursor.difference() is not None:
                    return None, _OTHER_HASH
        except MismatchError:
            return None, _OTHER_HASH
        except SimulationFailedError as error:
            return None, f"re-simulating raised {type(error.__cause__).__name__}: {error.__cause__}"
        except RecordingError as error:
            return None, str(error)
        self._last_rebuilt = (tick, cursor.state.snapshot())
        return self._last_rebuilt[1], ""


def _outcome_of(tape: Tape) -> Any:
    """The recording's own outcome if it is there, and is one that can be written."""
    if tape.outcome is not None:
        with contextlib.suppress(ValueError):
            encode_small(tape.outcome, "outcome")
            return tape.outcome
    return {"reason": "repaired"}


class _Neighbours:
    """The ticks before and after each place of a segment, found without going through its blocks for each damage."""

    def __init__(self, segment: Segment) -> None:
        entries = [entry for part in segment.parts for entry in part.load().entries() if entry.tick_count]
        self._offsets = [entry.offset for entry in entries]
        self._last_before = [*itertools.accumulate((entry.final_tick for entry in entries), max)]
        self._first_after = [*itertools.accumulate((entry.first_tick for entry in reversed(entries)), min)][::-1]

    def of(self, damage: Damage) -> tuple[int, int] | None:
        """The last tick of the frames before a damage and the first of those behind it; None if it has not both."""
        before = bisect.bisect_left(self._offsets, damage.offset) - 1
        after = bisect.bisect_left(self._offsets, damage.end_offset)
        if before < 0 or after == len(self._offsets):
            return None
        return self._last_before[before], self._first_after[after]


def _simulation_of(tape: Tape, world: Factory | None) -> tuple[Simulation | None, str]:
    try:
        return make_simulation(tape, world), ""
    except (UnknownWorldError, ConfigError, UnfitSimulationError) as error:
        if world is not None:
            raise
        why: Any = error.args[0] if error.args else error
        return None, str(why)
