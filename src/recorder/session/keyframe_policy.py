"""Decide when a keyframe is due, and against which baseline it is recorded.

Invariants:
    1. A delta is always against the last full keyframe. After a skipped keyframe, or a change of the layout, the next
       one is full.
    2. A full keyframe that the writer builds from changes has the recorded hash; otherwise it is not written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from recorder.ambient.outside.code_watch import CodeWatch
from recorder.ambient.watches.settings_watch import SettingsWatch
from recorder.format.blocks.full_keyframe import Changes, copied_bytes, gather_changes
from recorder.recording_options import RecordingOptions
from recorder.session.blame_hashes import records_field_hashes
from recorder.session.canonical_reload import loads_at_keyframes
from recorder.session.capture_check import CaptureCheck
from recorder.session.change_source import ChangeSources
from recorder.session.outputs.tick_output import OutputCollector
from recorder.session.rotation_policy import RotationPolicy
from recorder.session.seek_budget import KeyframeTimer, SeekBudget, StepTimer
from recorder.session.written_rows import WrittenRows
from recorder.settings import TICKS_MAX
from recorder.storage.parallel_copy import copy_side_by_side
from recorder.writer.jobs import Baseline, KeyframeJob
from recorder.writer.writer import Writer
from sim.kernel.marks import Rows
from sim.kernel.state import Bytes, Snapshot

GROWING_SHARE = 2  # A half of the ticks so far: the distance of keyframes, up to keyframe_interval_max_ticks.
MARKED_FULL_BYTES_MIN = 1 << 20  # Copying a smaller state is faster than finding the marked rows.
# From this size of a state on, memory decides: where the changes of each tick are recorded, no copy for a keyframe is made
# while many changes wait, and none but a full one that takes more than half a state.
LARGE_STATE_BYTES = 64 << 20


class KeyframePolicy:
    """Puts the keyframes of one session.

    Attributes:
        next_tick: of the next keyframe.
        counts_bytes: True if add_frame has to be told each frame.
        skipped: the number of keyframes that the writer had no room for.
        records_field_hashes: True if frames have hashes of the fields.
        budget: decides when a keyframe is due by the time that steps take, if an option asks for that; else None.
        check: takes the state again before a keyframe, which is a part of its cost; None if nothing is checked.
        watches: look at each keyframe, at the user's code and at settings of the process.
        make_digest: makes the digest of the simulation's values, which a keyframe then holds; None without one.
    """

    def __init__(
        self,
        simulation: Any,
        sources: ChangeSources,
        settings: RecordingOptions,
        writer: Writer,
        outputs: OutputCollector | None,
        tick: int,
    ) -> None:
        self._simulation = simulation
        # Ticks that were compared with the ones before have all changes since a keyframe.
        compares = outputs is not None and outputs.logs_changes and not outputs.keeps_words
        self._make_source = outputs.rows_since if outputs is not None and compares else sources.whole
        self._tracked = simulation.state
        self._source = self._make_source(self._tracked)
        self._settings = settings
        self._writer = writer
        self._outputs = outputs
        self._written = WrittenRows.of(sources, simulation.state, tick, wanted=settings.writes)
        self._logs_changes = outputs is not None and outputs.logs_changes
        self._keeps_words = outputs is not None and outputs.keeps_words
        if outputs is not None:
            outputs.make_room_by(self._make_room)
        self._load = loads_at_keyframes(simulation)
        self._rotation = RotationPolicy(settings, writer, tick)
        budget_ms, after_ms = settings.seek_budget_ms, settings.keyframe_after_ms
        self.budget: KeyframeTimer | None = None
        if budget_ms is not None:
            self.budget = SeekBudget(budget_ms, writer.notify)
        elif after_ms is not None:
            self.budget = StepTimer(after_ms)
        self.check: CaptureCheck | None = None
        self.watches: list[CodeWatch | SettingsWatch] = []
        unit = settings.keyframe_interval_ticks
        self.next_tick = (tick + self._interval_at(tick)) // unit * unit
        self.counts_bytes = settings.deterministic and settings.split_bytes is not None  # See RotationPolicy.
        self._number = 0
        self.skipped = 0
        self._force_full = self._was_skipped = False
        self.make_digest: Callable[[], bytes] | None = None

    def _interval_at(self, tick: int) -> int:
        """Ticks from the keyframe of tick to the next one, if none comes early."""
        if self._settings.seek_budget_ms is not None:
            return TICKS_MAX
        least, most = self._settings.keyframe_interval_ticks, self._settings.keyframe_interval_max_ticks
        if most is None:
            return least
        # Multiples: a keyframe that is damaged is made again at a multiple of the shortest distance.
        return max(least, min(most, tick // GROWING_SHARE) // least * least)

    def defer(self, tick: int) -> None:
        """Take the keyframe that is due at tick at a later one, and a full one then."""
        self.next_tick = min(self.next_tick, tick + 1)
        self._force_full = True

    def add_frame(self, size_bytes: int) -> None:
        """Note the size of a frame that was put."""
        self._rotation.raw_bytes += size_bytes

    def put(self, tick: int, state_hash: int, *, wants_full: bool) -> None:
        """Put the keyframe of the current state, if the writer has room for it. Raises WriterFailedError.

        If anything else goes wrong, such as a lack of memory, a full one is due at the next tick: the baseline may not be
        on the tape.
        """
        try:
            self._put_due(tick, state_hash, wants_full=wants_full)
        except BaseException:
            self.defer(tick)
            raise

    def _make_room(self, size_bytes: int) -> None:
        """Make room for the changes of a tick: wait for those before, and discard the baseline if they are very many.

        A delta would take as much as they do, and hardly less than a full keyframe.
        """
        self._writer.wait_for_changes(keyframes=True)
        self._writer.buffers.clear()
        if size_bytes > self._tracked.layout.size_bytes // 2:
            self._force_full, self._baseline.snapshot = True, None

    def _put_due(self, tick: int, state_hash: int, *, wants_full: bool) -> None:
        start_ns = time.perf_counter_ns() - (self.check.taken_ns if self.check is not None else 0)
        self.next_tick = tick + self._interval_at(tick)
        self._number += 1
        for watch in self.watches:
            watch.look(tick)
        # A source that needs the baseline would not find its memory changed.
        has_own = not self._source.needs_baseline
        is_large = self._logs_changes and has_own and self._simulation.state.layout.size_bytes >= LARGE_STATE_BYTES
        if is_large:
            self._writer.wait_for_changes(keyframes=False)
        if not self._writer.has_room_for_keyframe(wait=self._settings.deterministic):
            self.skipped += 1
            self._was_skipped = True
            return
        state = self._simulation.state
        if state is not self._tracked:  # The simulation has a new State object.
            self._source.close()
            self._source, self._tracked = self._make_source(state), state
            self._force_full = True
        fits = state.layout.hash_seed == self._baseline.layout.hash_seed
        rotate = self._rotation.is_due(tick)
        # Not for deterministic tapes: the tick at which deltas_are_worn becomes True depends on the threads' timing.
        if self._writer.deltas_are_worn and not self._settings.deterministic:
            self._number = 0
        is_full = rotate or self._number % self._settings.full_every == 0 or self._was_skipped
        # For a large state the writer builds the full keyframe from the one before and the rows marked since.
        is_marked = not self._source.needs_baseline and state.layout.size_bytes >= MARKED_FULL_BYTES_MIN
        fields: Mapping[str, Rows | None] | None = None
        if not (self._force_full or wants_full or not fits or (is_full and not is_marked)):
            fields = self._source.changed_fields(saves_memory=is_large)
        if fields is None or (is_large and 2 * copied_bytes(state.layout, fields) > state.layout.size_bytes):
            memory = self._memory_of_baseline() if is_large else None
            if memory is None:
                memory = self._writer.buffers.take(state.layout.size_bytes)
            copy_side_by_side([(memory, state.arena)])
            self.put_whole(tick, state_hash, Snapshot(state.layout, memory), rotate=rotate)
        else:
            changes = gather_changes(state.arena, state.layout, fields, self._writer.buffers.take, copy_side_by_side)
            self._put_changes(tick, state_hash, changes, is_full=is_full, rotate=rotate)
        if self.budget is not None:
            self.budget.note_keyframe(start_ns)

    def _memory_of_baseline(self) -> Bytes | None:
        """Take the memory of the baseline, if it has the size of the state: there is none for a second copy."""
        self._writer.wait_for_changes(keyframes=True)
        before, self._force_full, self._baseline.snapshot = self._baseline.snapshot, True, None
        if before is None or len(before.arena) != self._tracked.layout.size_bytes:
            return None
        before.arena.flags.writeable = True  # No one else has the snapshot.
        return before.arena

    def _put_changes(self, tick: int, state_hash: int, changes: Changes, *, is_full: bool, rotate: bool) -> None:
        """Put a keyframe that is given by the changes since the baseline."""
        if is_full:
            self._was_skipped = False
            baseline = Baseline(self._baseline.layout)
            job = KeyframeJob(
                tick,
                state_hash,
                baseline,
                changes,
                rotate,
                self._logs_changes,
                self._keeps_words,
                self._baseline,
                digest=self._digest(),
            )
            if rotate:
                self._rotation.begin(tick)
            self._begin_from(baseline, None)
        else:
            job = KeyframeJob(tick, state_hash, self._baseline, changes, digest=self._digest())
        self._put(job)

    def put_whole(self, tick: int, state_hash: int, snapshot: Snapshot, *, rotate: bool = False) -> None:
        """Put a full keyframe of the current state. Raises WriterFailedError."""
        if rotate:
            self._rotation.begin(tick)
        baseline = Baseline(snapshot.layout, snapshot)
        self._begin_from(baseline, snapshot)
        self.records_field_hashes = records_field_hashes(self._settings.blame, self._simulation.state)
        self._force_full = self._was_skipped = False
        needs_spare = self._source.needs_baseline  # It does not know the changes: the next one copies everything.
        self._put(
            KeyframeJob(
                tick,
                state_hash,
                baseline,
                None,
                rotate,
                self._logs_changes,
                self._keeps_words,
                needs_spare=needs_spare,
                digest=self._digest(),
            )
        )

    def _digest(self) -> bytes:
        return b"" if self.make_digest is None else self.make_digest()

    def _put(self, job: KeyframeJob) -> None:
        self._rotation.raw_bytes += job.size_bytes
        if self._written is not None and job.tick > self._written.tick:
            job = attrs.evolve(job, writes=self._written.take(self._simulation.state, job.tick))
        self._writer.put_keyframe(job)
        if self._load is not None:
            self._load()
            if self._written is not None:
                self._written.forget()

    def _begin_from(self, baseline: Baseline, snapshot: Snapshot | None) -> None:
        """Make the current state, given as a full one, the baseline of the next deltas."""
        self._source.reset(snapshot)
        if self._outputs is not None:
            self._outputs.restart()
        self._baseline = baseline

    def close(self) -> None:
        """Stop tracking changes."""
        self._source.close()
        self._baseline = Baseline(self._baseline.layout)  # What is left in the writer is the last reference.
        if self._written is not None:
            self._written.close()
