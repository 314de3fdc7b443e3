"""Which keyframe is put when, and against which baseline.

Invariants:
    1. A delta is always against the last full keyframe that was put; when a keyframe is skipped, or the layout has
       changed, the next one is full.
    2. A full keyframe that the writer makes of changes has the recorded hash, or it is none.
"""

from __future__ import annotations

import time
from typing import Any

from recorder.format.blocks.full_keyframe import Changes, gather_changes
from recorder.recording_options import RecordingOptions
from recorder.session.blame_hashes import wants_fields
from recorder.session.canonical_reload import loads_at_keyframes
from recorder.session.change_source import ChangeSources
from recorder.session.rotation_policy import RotationPolicy
from recorder.session.seek_budget import SeekBudget
from recorder.session.tick_output import OutputCollector
from recorder.settings import TICKS_MAX
from recorder.storage.parallel_copy import copy_side_by_side
from recorder.writer.jobs import Baseline, KeyframeJob
from recorder.writer.writer import Writer
from sim.kernel.state import Snapshot

MARKED_FULL_BYTES_MIN = 1 << 20  # A copy of a smaller state takes less than looking for what was marked.


class KeyframePolicy:
    """Puts the keyframes of one session.

    Attributes:
        next_tick: at which one is due.
        raw_bytes: of frames and keyframes, put into the current segment.
        skipped: how many there was no room for.
        blames_fields: whether frames have hashes of the fields.
        budget: what decides when one is due, if that is not a number of ticks.
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
        self._make_source = sources.whole
        self._tracked = simulation.state
        self._source = sources.whole(self._tracked)
        self._settings = settings
        self._writer = writer
        self._outputs = outputs
        self._logs_changes = outputs is not None and outputs.logs_changes
        self._load = loads_at_keyframes(simulation)
        self._rotation = RotationPolicy(settings, writer, tick)
        budget_ms = settings.seek_budget_ms
        self.budget = SeekBudget(budget_ms, writer.notify) if budget_ms is not None else None
        self._interval_ticks = settings.keyframe_interval_ticks if budget_ms is None else TICKS_MAX
        self.next_tick = (tick // self._interval_ticks + 1) * self._interval_ticks
        self._number = 0
        self.skipped = 0
        self._force_full = False

    def add_frame(self, size_bytes: int) -> None:
        """So many bytes of a frame were put."""
        self._rotation.raw_bytes += size_bytes

    def put(self, tick: int, state_hash: int, *, wants_full: bool) -> None:
        """Put the keyframe of the present state, if there is room for it. Raises WriterFailedError."""
        start_ns = time.perf_counter_ns()
        self.next_tick = tick + self._interval_ticks
        self._number += 1
        if not self._writer.has_room_for_keyframe(wait=self._settings.deterministic):
            self.skipped += 1
            self._force_full = True
            return
        state = self._simulation.state
        if state is not self._tracked:  # The simulation has put another State in its place.
            self._source.close()
            self._source, self._tracked = self._make_source(state), state
            self._force_full = True
        fits = state.layout.hash_seed == self._baseline.layout.hash_seed
        rotate = self._rotation.is_due(tick)
        if self._writer.deltas_are_worn and not self._settings.deterministic:  # When it is known, the threads decide.
            self._number = 0
        is_full = rotate or self._number % self._settings.full_every == 0
        # Of a large state the writer makes the full one itself, of the one before and what was marked since.
        is_marked = not self._source.needs_baseline and state.layout.size_bytes >= MARKED_FULL_BYTES_MIN
        if self._force_full or wants_full or not fits or (is_full and not is_marked):
            memory = self._writer.buffers.take(state.layout.size_bytes)
            copy_side_by_side([(memory, state.arena)])
            self.put_whole(tick, state_hash, Snapshot(state.layout, memory), rotate=rotate)
        else:
            fields = self._source.changed_fields()
            changes = gather_changes(state.arena, state.layout, fields, self._writer.buffers.take, copy_side_by_side)
            self._put_changes(tick, state_hash, changes, is_full=is_full, rotate=rotate)
        if self.budget is not None:
            self.budget.note_keyframe(start_ns)

    def _put_changes(self, tick: int, state_hash: int, changes: Changes, *, is_full: bool, rotate: bool) -> None:
        """Put a keyframe that is known by what changed since the baseline."""
        if is_full:
            made = Baseline(self._baseline.layout)
            job = KeyframeJob(tick, state_hash, made, changes, rotate, self._logs_changes, self._baseline)
            if rotate:
                self._rotation.begin(tick)
            self._begin_from(made, None)
        else:
            job = KeyframeJob(tick, state_hash, self._baseline, changes)
        self._put(job)

    def put_whole(self, tick: int, state_hash: int, snapshot: Snapshot, *, rotate: bool = False) -> None:
        """Put a full keyframe of the present state. Raises WriterFailedError."""
        if rotate:
            self._rotation.begin(tick)
        baseline = Baseline(snapshot.layout, snapshot)
        self._begin_from(baseline, snapshot)
        self.blames_fields = wants_fields(self._settings.blame, self._simulation.state)
        self._force_full = False
        needs_spare = self._source.needs_baseline  # It does not know what changes: all is copied.
        self._put(KeyframeJob(tick, state_hash, baseline, None, rotate, self._logs_changes, needs_spare=needs_spare))

    def _put(self, job: KeyframeJob) -> None:
        self._rotation.raw_bytes += job.size_bytes
        self._writer.put_keyframe(job)
        if self._load is not None:
            self._load()

    def _begin_from(self, baseline: Baseline, snapshot: Snapshot | None) -> None:
        """Deltas are made against this full state from now on, which is the present one."""
        self._source.reset(snapshot)
        if self._outputs is not None:
            self._outputs.begin_anew()
        self._baseline = baseline

    def close(self) -> None:
        """Track nothing more."""
        self._source.close()
