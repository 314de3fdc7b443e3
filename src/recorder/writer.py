"""The background thread: takes frames and keyframes from the simulation's thread, encodes, compresses, appends, syncs.

The simulation's thread only appends to a deque (no lock, no wake-up: the thread polls), because waking a sleeping
thread costs more than all else that a tick's recording does.

Invariants:
    1. Items reach the file in the order in which they were put.
    2. No frame is ever dropped: when the queue is full the putter waits.
    3. After an error nothing more is written; the error reaches the next call of every method.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any

import attrs

from recorder.errors import WriterFailedError
from recorder.format.encoder import TapeEncoder
from recorder.format.keyframe import Changes, encode_delta, encode_full
from recorder.format.limits import FRAMES_RAW_BYTES
from recorder.logfile import AppendLog
from sim.kernel.state import Snapshot

POLL_S = 0.004  # Long enough to leave the simulation alone, short enough that the queue stays small.
QUEUE_BYTES_MAX = 64 << 20  # Frames waiting to be written; some minutes of an ordinary run.
KEYFRAME_BYTES_MAX = 64 << 20  # Keyframes waiting; one more than that is always allowed, however large.
FRAMES_AGE_S_MAX = 1.0  # Frames do not wait longer than this for their block to fill.


@attrs.frozen(eq=False)
class KeyframeJob:
    """A keyframe to be encoded by the writer.

    Attributes:
        tick, state_hash: of the state.
        baseline: the last full state; the state itself for a full keyframe.
        changes: what may differ from the baseline; None for a full keyframe.
    """

    tick: int
    state_hash: int
    baseline: Snapshot
    changes: Changes | None

    @property
    def size_bytes(self) -> int:
        """Memory that it holds until it is written."""
        if self.changes is None:
            return self.baseline.layout.size_bytes
        return sum(values.nbytes for values in self.changes.values.values())


@attrs.frozen
class WriterStatistics:
    """What the writer has done so far.

    Attributes:
        written_bytes: appended to the file.
        frame_count, full_count, delta_count: written.
        waiting_bytes: of frames that were put and not yet taken.
        sync_count, sync_s_max: how often the file was synced, and the longest time that took.
        wait_s: how long the simulation's thread waited for the writer, in all.
    """

    written_bytes: int
    frame_count: int
    full_count: int
    delta_count: int
    waiting_bytes: int
    sync_count: int
    sync_s_max: float
    wait_s: float


class Writer:
    """Owns the file and the thread; everything public is called from one other thread."""

    def __init__(
        self,
        log: AppendLog,
        encoder: TapeEncoder,
        *,
        path: str | os.PathLike[str],
        first_tick: int,
        sync_interval_s: float | None,
        sync_each_block: bool,
        deterministic: bool,
    ) -> None:
        """Start the thread.

        path: for messages. first_tick: of the first frame that will be put. sync_interval_s: how often to sync; None
        is never. sync_each_block: sync after every block. deterministic: let no clock show in the file; else frames
        that waited FRAMES_AGE_S_MAX are written even if their block is not full, so that the file follows a slow run,
        and blocks tell how far syncs that came by the clock have made the file durable.
        """
        self._log = log
        self._encoder = encoder
        self._path = path
        self._sync_interval_s = sync_interval_s
        self._sync_each_block = sync_each_block
        self._cut_by_time = not deterministic
        self._durable_in_blocks = sync_each_block or not deterministic
        self._queue: deque[bytes | KeyframeJob] = deque()
        self._put_bytes = 0
        self._taken_bytes = 0
        self._keyframe_bytes_put = 0
        self._keyframe_bytes_done = 0
        self._wait_s = 0.0
        # The thread's own:
        self._frames: list[bytes] = []
        self._frames_bytes = 0
        self._frames_first_tick = first_tick
        self._frames_since_s = 0.0
        self._synced_offset = 0
        self._synced_s = time.monotonic()
        self._sync_count = 0
        self._sync_s_max = 0.0
        self._frame_count = 0
        self._full_count = 0
        self._delta_count = 0
        # Between the two:
        self._error: BaseException | None = None
        self._flushes: deque[threading.Event] = deque()
        self._stopping = False
        self._outcome: Any = None
        self._seal = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tape writer {os.fspath(path)}", daemon=True)
        self._thread.start()

    # --- called by the simulation's thread

    def put_frame(self, frame: bytes) -> None:
        """Hand over one encoded frame; waits while the queue is full. Raises WriterFailedError."""
        if self._error is not None:
            self.raise_error()
        self._queue.append(frame)
        self._put_bytes += len(frame)
        if self._put_bytes - self._taken_bytes > QUEUE_BYTES_MAX:
            self._wait_until(lambda: self._put_bytes - self._taken_bytes <= QUEUE_BYTES_MAX // 2)

    def put_keyframe(self, job: KeyframeJob) -> None:
        """Hand over one keyframe. Raises WriterFailedError."""
        self.raise_error()
        self._keyframe_bytes_put += job.size_bytes
        self._queue.append(job)

    def has_room_for_keyframe(self, *, wait: bool) -> bool:
        """Whether a keyframe may be put now. With wait, wait until it may. Raises WriterFailedError."""
        if wait:
            self._wait_until(self._keyframes_fit)
        return self._keyframes_fit()

    def _keyframes_fit(self) -> bool:
        return self._keyframe_bytes_put - self._keyframe_bytes_done <= KEYFRAME_BYTES_MAX

    def flush(self) -> None:
        """Return when all that was put is on stable storage (or with the system, if it never syncs).

        Raises WriterFailedError.
        """
        done = threading.Event()
        self._flushes.append(done)
        self._wait_until(done.is_set)

    def close(self, outcome: Any) -> None:
        """Write all that was put, seal the tape, stop the thread. Raises WriterFailedError."""
        self._outcome, self._seal = outcome, True
        self.stop()
        self.raise_error()

    def stop(self) -> None:
        """Write all that was put, stop the thread and leave the tape unsealed."""
        self._stopping = True
        self._wake.set()
        if threading.current_thread() is not self._thread:  # The collector may run in any thread, this one too.
            self._thread.join()

    def raise_error(self) -> None:
        """Raise WriterFailedError if the thread failed."""
        if self._error is not None:
            raise WriterFailedError(
                os.fspath(self._path), str(self._error) or type(self._error).__name__
            ) from self._error

    def statistics(self) -> WriterStatistics:
        """Counters as they are now."""
        return WriterStatistics(
            written_bytes=self._encoder.next_offset,
            frame_count=self._frame_count,
            full_count=self._full_count,
            delta_count=self._delta_count,
            waiting_bytes=self._put_bytes - self._taken_bytes,
            sync_count=self._sync_count,
            sync_s_max=self._sync_s_max,
            wait_s=self._wait_s,
        )

    def _wait_until(self, condition: Any) -> None:
        start_s = time.monotonic()
        while not condition():
            self.raise_error()
            self._wake.set()
            time.sleep(0.0005)  # Half a millisecond: about what the writer needs for a block.
        self._wait_s += time.monotonic() - start_s
        self.raise_error()

    # --- the thread

    def _run(self) -> None:
        try:
            try:
                self._append(self._encoder.start())
                while self._work():
                    pass
            finally:
                self._log.close()
        except BaseException as error:  # noqa: BLE001 - the thread's one boundary: it reaches the caller by raise_error
            self._error = error

    def _work(self) -> bool:
        """Take what is there, write what is due; False when the thread has stopped."""
        stopping = self._stopping  # Read before the queue: what was put before stop() is taken below.
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        for _ in range(len(self._queue)):  # Not until it is empty: under load the clocks below must be looked at.
            item = self._queue.popleft()
            if isinstance(item, KeyframeJob):
                self._write_frames()
                self._write_keyframe(item)
            else:
                self._take_frame(item)
        now_s = time.monotonic()
        if self._frames and (
            flushes or stopping or (self._cut_by_time and now_s - self._frames_since_s > FRAMES_AGE_S_MAX)
        ):
            self._write_frames()
        if stopping and self._seal:
            self._append(self._encoder.end(self._outcome))
        interval_s = self._sync_interval_s
        if interval_s is not None and (flushes or stopping or now_s - self._synced_s >= interval_s):
            self._sync()
        for flush in flushes:
            flush.set()
        if stopping:
            return False
        self._wake.wait(POLL_S)
        self._wake.clear()
        return True

    def _take_frame(self, frame: bytes) -> None:
        if self._frames_bytes + len(frame) > FRAMES_RAW_BYTES:
            self._write_frames()
        if not self._frames:
            self._frames_since_s = time.monotonic()
        self._frames.append(frame)
        self._frames_bytes += len(frame)
        self._taken_bytes += len(frame)

    def _write_frames(self) -> None:
        if self._frames:
            count = len(self._frames)
            self._append(self._encoder.frames(self._frames_first_tick, count, b"".join(self._frames)))
            self._frame_count += count
            self._frames_first_tick += count
            self._frames.clear()
            self._frames_bytes = 0

    def _write_keyframe(self, job: KeyframeJob) -> None:
        if job.changes is None:
            self._append(self._encoder.full(job.tick, encode_full(job.tick, job.state_hash, job.baseline)))
            self._full_count += 1
        else:
            payload = encode_delta(job.tick, job.state_hash, job.changes, job.baseline)
            self._append(self._encoder.delta(job.tick, payload))
            self._delta_count += 1
        self._keyframe_bytes_done += job.size_bytes

    def _append(self, blocks: bytes) -> None:
        self._log.append(blocks + self._encoder.index_if_due())
        if self._sync_each_block:
            self._sync()

    def _sync(self) -> None:
        if self._encoder.next_offset > self._synced_offset:
            start_s = time.monotonic()
            self._log.sync()
            self._synced_offset = self._encoder.next_offset
            if self._durable_in_blocks:
                self._encoder.durable_bytes = self._synced_offset
            self._sync_count += 1
            self._sync_s_max = max(self._sync_s_max, time.monotonic() - start_s)
        self._synced_s = time.monotonic()
