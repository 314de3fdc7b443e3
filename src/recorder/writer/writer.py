"""The background thread: takes frames and keyframes from the simulation's thread, encodes, compresses, appends, syncs.

Invariants:
    1. Items reach the file in the order in which they were put.
    2. No frame is dropped while the disk accepts data: if the queue is full, the simulation's thread waits.
    3. When the disk refuses, the thread keeps its data and retries (on_error="continue"), or stops with an error
       that every following call raises ("raise"). If memory is full, ticks are dropped until the next full keyframe
       after the disk has recovered, and a DROP block names them.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from typing import Any, cast

from recorder.errors import WriterFailedError
from recorder.format.segments.large_group import Group, LargeGroup
from recorder.recording_options import RecordingOptions
from recorder.statistics import WriterStatistics
from recorder.storage.file_interfaces import Files
from recorder.storage.segmented_log import SegmentedLog
from recorder.writer.buffer_pool import BufferPool
from recorder.writer.dropped_ticks import DroppedTicks
from recorder.writer.handoff_queue import HandoffQueue
from recorder.writer.jobs import KeyframeJob, TickOutput
from recorder.writer.keyframe_encoder import KeyframeEncoder, writes_pieces
from recorder.writer.pending_ticks import WaitingTicks
from recorder.writer.retries import Retries
from recorder.writer.tape_writes import TapeWrites

FRAMES_AGE_S_MAX = 1.0  # Frames do not wait longer than this for their block to fill.
BACKLOG_BYTES_MAX = 64 << 20  # Compressed blocks that wait for a disk that refuses; later ones are dropped.
LAZY_BYTES = 1 << 20  # With durability="none" this many bytes are gathered for one append.


class Writer(TapeWrites):
    """Owns the files and the thread; one other thread calls all public methods.

    Attributes:
        signal: True if there is an error or a notice for the caller.
        written_tick: the last tick whose frame is in the file.
        buffers: memory for keyframes.
        handoff: the queue to the thread.
        put_frame, wake: its methods; put_frame raises WriterFailedError.
        needs_full: the next keyframe must be full and come at once, since frames or a full keyframe were dropped.
        failing: True while the disk refuses.
        seals: True if close has been called.
        journal_is_gone: True if the journal was removed from outside, and has to be made again.
    """

    def __init__(
        self,
        files: Files,
        log: SegmentedLog,
        options: RecordingOptions,
        *,
        path: str | os.PathLike[str],
        first_tick: int,
    ) -> None:
        """Start the thread. path: for messages. first_tick: of the first frame that will be put."""
        self._files, self._log = files, log
        self._path = path
        self._settings = options
        self._cut_by_time = not options.deterministic
        self.handoff = HandoffQueue(self.wait_until, options.split_bytes)
        self.put_frame, self.wake = self.handoff.put, self.handoff.wake
        self._wait_s, self.buffers = 0.0, BufferPool()
        # The thread's own:
        self._waiting = WaitingTicks(first_tick)
        self._synced_s = time.monotonic()
        self._keyframes = KeyframeEncoder(self.buffers)
        self._lost_full = False  # A full keyframe was refused, or frames after it dropped: deltas need a new one.
        self._rotation_due = False  # A keyframe that should have begun a segment was refused: the next one does.
        self._dropped, self._frame_count = DroppedTicks(), 0
        self._retries = Retries()
        # Between the two:
        self.signal = self.needs_full = self.failing = self.deltas_are_worn = self.journal_is_gone = False
        self.written_tick = first_tick - 1
        self._notices: deque[str] = deque()
        self._error: BaseException | None = None
        self._flushes: deque[tuple[threading.Event, bool]] = deque()
        self._outcome: Any = None
        self._what_is_kept = ""
        self._stopping = self.seals = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tape writer {os.fspath(path)}", daemon=True)
        self._thread.start()

    # --- called by the simulation's thread

    def put_keyframe(self, job: KeyframeJob) -> None:
        """Put one keyframe into the queue. Raises WriterFailedError."""
        self.raise_error()
        if job.is_full:
            self.needs_full = False
        self.handoff.put_keyframe(job)

    def has_room_for_keyframe(self, *, wait: bool) -> bool:
        """Return True if a keyframe may be put now. With wait, wait until it may. Raises WriterFailedError."""
        if wait:
            self.wait_until(self.handoff.has_room_for_keyframe)
        return self.handoff.has_room_for_keyframe()

    def wait_for_changes(self, *, keyframes: bool) -> None:
        """Wait while much of what the ticks have changed waits. Raises WriterFailedError.

        keyframes: wait until all keyframes are encoded, too: nothing of them is in use then.
        """
        is_idle = self.handoff.is_nearly_empty if not keyframes else self.handoff.has_little
        if not is_idle():
            self.wait_until(is_idle)

    def flush(self, *, sync: bool = True) -> None:
        """Return when everything that was put is in the file and, unless syncs are disabled, on stable storage.

        sync: False does not wait for stable storage. Raises WriterFailedError, also while the disk refuses.
        """
        done = threading.Event()
        self._flushes.append((done, sync))
        self.wait_until(done.is_set)
        if self._retries.failure is not None:
            raise self._failed(self._retries.failure)

    def close(self, outcome: Any) -> None:
        """Write everything that was put, seal the tape, stop the thread. Raises WriterFailedError."""
        if not self.seals:  # A second call continues to wait after an interrupted first one.
            self._outcome, self.seals = outcome, True
        self.stop()
        self.raise_error()

    def stop(self) -> None:
        """Write everything that was put, stop the thread and leave the tape unsealed."""
        self._stopping = True
        self.wake()
        if threading.current_thread() is not self._thread:  # The collector may run in any thread, this one too.
            self._ended.wait()  # After an interrupted join, Python considers the thread ended.
            self._thread.join()

    @property
    def has_failed(self) -> bool:
        """True if something that was put could not be written."""
        return self._error is not None

    def raise_error(self) -> None:
        """Raise WriterFailedError if the thread failed."""
        if self._error is not None:
            raise self._failed(self._error) from self._error

    def notify(self, notice: str) -> None:
        """Add a notice, which the caller shows at its next call."""
        self._notices.append(notice)
        self.signal = True

    def take_notices(self) -> list[str]:
        """Take the notices for the caller; each is returned once."""
        self.signal = False
        if self._error is not None:  # Checked after that, since the thread sets the error first.
            self.signal = True
        return [self._notices.popleft() for _ in range(len(self._notices))]

    def _failed(self, error: BaseException) -> WriterFailedError:
        failed = WriterFailedError(os.fspath(self._path), (str(error) or type(error).__name__) + self._what_is_kept)
        failed.__cause__ = error
        return failed

    def statistics(self) -> WriterStatistics:
        """The current counters."""
        return WriterStatistics(
            written_bytes=self._log.written_bytes,
            frame_count=self._frame_count,
            full_count=self._keyframes.full_count,
            delta_count=self._keyframes.delta_count,
            dropped=list(self._dropped.ranges),
            waiting_bytes=self.handoff.waiting_bytes,
            sync_count=self._log.sync_count,
            sync_s_max=self._log.sync_s_max,
            wait_s=self._wait_s,
            failure=str(self._retries.failure) if self._retries.failure is not None else None,
        )

    @property
    def segment_bytes(self) -> int:
        """Size of the current segment."""
        return self._log.encoder.next_offset

    @property
    def segment_number(self) -> int:
        """Number of the segment that is being written."""
        return self._log.encoder.header.segment

    @property
    def loses_frames(self) -> bool:
        """True if frames are dropped until a full keyframe has been put, although the disk accepts data."""
        return self._dropped.since is not None and self.needs_full

    def wait_until(self, condition: Any) -> None:
        """Let the thread work until condition() holds. Raises WriterFailedError."""
        start_s = time.monotonic()
        while not condition():
            self.raise_error()
            self.wake()
            time.sleep(0.0005)  # Half a millisecond: about what the writer needs for a block.
        self._wait_s += time.monotonic() - start_s
        self.raise_error()

    # --- the thread

    def _run(self) -> None:
        try:
            try:
                if self._settings.sync_each_block:  # META first: each block tells what was durable before it.
                    self._store(time.monotonic(), sync=True, urgent=False)
                while self._work():
                    pass
            finally:
                self._files.release()
        except BaseException as error:  # noqa: BLE001 - the thread's one boundary: it reaches the caller by raise_error
            self._error = error
            self.signal = True
        finally:
            self._keyframes.release()
            self._waiting.release()
            self.buffers.clear()
            self._ended.set()

    def _work(self) -> bool:
        """Process everything in the queue, and write what is due; return False when the thread has stopped."""
        stopping = self._stopping  # Read before the queue: items that were put before stop() are taken below.
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        for kind, items in itertools.groupby(self.handoff.take(), type):
            if kind is bytes:
                self._take_frames(cast("list[bytes]", list(items)))
                continue
            for item in items:
                if isinstance(item, KeyframeJob):
                    self._cut_frames()
                    self._take_keyframe(item)
                    self.handoff.count_keyframe(item)  # Its memory was in use until now.
                    self.deltas_are_worn = self._keyframes.is_worn
                elif isinstance(item, TickOutput):
                    self._take_output(item)
        now_s = time.monotonic()
        interval_s = self._settings.sync_interval_s
        sync_due = interval_s is not None and now_s - self._synced_s >= interval_s
        old = self._cut_by_time and (sync_due or now_s - self._waiting.since_s > FRAMES_AGE_S_MAX)
        if self._waiting and (flushes or stopping or old):
            self._cut_frames()
        urgent = bool(flushes) or stopping
        sync = interval_s is not None and (sync_due or stopping or any(needs_sync for _, needs_sync in flushes))
        if self._settings.durability != "none" or urgent or self._log.backlog_bytes >= LAZY_BYTES:
            self._store(now_s, sync=sync, urgent=urgent)
        for flush, _ in flushes:
            flush.set()
        if stopping:
            self._finish()
        else:
            self.handoff.rest()
        return not stopping

    # --- frames and keyframes

    def _take_frames(self, frames: list[bytes]) -> None:
        """Take frames of ticks without other output: many at once, since each line here may delay the simulation."""
        while frames:
            left = self._waiting.take_frames(frames)
            self.handoff.count_taken(sum(map(len, frames[: len(frames) - len(left)])))
            if left:
                self._cut_frames()
            frames = left

    def _take_output(self, item: TickOutput) -> None:
        size_bytes = len(item)
        if not item.frame:
            self.handoff.count_taken(size_bytes)
            for group in self._waiting.take_start(item):
                self._put(group)
            return
        if not self._waiting.has_room_for(item):
            self._cut_frames()
        self._waiting.take(item)
        if self._waiting.is_full:
            self._cut_frames()
        self.handoff.count_taken(size_bytes)  # Many changes are written now, and their memory is free.

    def _cut_frames(self) -> None:
        if not self._waiting:
            return
        count, first = len(self._waiting), self._waiting.first_tick
        groups = self._waiting.cut()
        if self._keeps():
            for group in groups:
                self._put(group)
            self._frame_count += count
        else:
            self._drop_from(first)

    def _take_keyframe(self, job: KeyframeJob) -> None:
        if job.writes is not None and self._keeps():
            self._put(writes_pieces(job))
        if not job.is_full:
            delta = self._keyframes.delta(job) if self._keeps() else None
            if delta is not None:
                self._put(delta)
                self._keyframes.note_delta(job, delta)
            return
        problem = self._keyframes.make_state(job)  # Also while nothing is kept: the next one may be based on it.
        if self._dropped.since is not None and not self.failing and problem is None:
            self._end_drop(job.tick)
        if problem is not None or not self._keeps():
            self._keyframes.forget()
            self._lost_full, self._rotation_due = True, self._rotation_due or job.rotate
            self.needs_full |= problem is not None
            if problem:
                self.notify(f"{os.fspath(self._path)}: {problem}")
            return
        rotates, self._rotation_due, self._lost_full = job.rotate or self._rotation_due, False, False
        if rotates:
            self._log.put_rotation()
        if job.begins_log and job.baseline.snapshot is not None:
            self._waiting.begin_changes(job.baseline.snapshot, keeps_words=job.keeps_words)
        full = self._keyframes.full(job)
        self._put(full)
        self._keyframes.note_full(job, full)
        for group in self._waiting.after_full(with_events=rotates and self._settings.is_ring):
            self._put(group)

    def _put(self, group: Group) -> None:
        """Put blocks into the log, and write them at once if they are many or the options require it.

        Many blocks are on stable storage, or in memory, when this returns: what they are made from may change then.
        """
        self._log.put(group)
        is_large = isinstance(group, LargeGroup)
        if not self.failing and (is_large or self._settings.sync_each_block or self._settings.durability != "none"):
            is_synced = self._settings.sync_each_block or (is_large and self._settings.sync_interval_s is not None)
            self._store(time.monotonic(), sync=is_synced, urgent=False)
        if is_large:
            self._log.hold()

    def _keeps(self) -> bool:
        """Return True if there is room for more: while the disk refuses, blocks are kept in memory."""
        return self._dropped.since is None and (not self.failing or self._log.backlog_bytes <= BACKLOG_BYTES_MAX)

    def _drop_from(self, tick: int) -> None:
        if self._dropped.since is None:
            self._dropped.begin(tick, str(self._retries.failure))
            self._lost_full = True
            self._keyframes.forget()
            self.notify(f"{os.fspath(self._path)}: frames from tick {tick} on are lost: {self._retries.failure}")

    def _end_drop(self, last_tick: int) -> None:
        """Record the dropped ticks up to last_tick, which has a keyframe or is the end."""
        self._log.put([self._dropped.end(last_tick)])
