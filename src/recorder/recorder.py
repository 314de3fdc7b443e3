"""Record a simulation while it runs: a frame for each tick, a keyframe now and then.

Policy only: what is recorded when, against which baseline. Bytes are the format's business, writing is the writer's.

Invariants:
    1. Frame t is put after the step to tick t has returned and before the next step starts.
    2. Tick 0 (the first tick) has a full keyframe, taken before the first step.
    3. A delta is always against the last full keyframe that was put; when a keyframe is skipped, or the layout has
       changed, the next one is full.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, Self

import attrs

from recorder.environment import describe_environment
from recorder.errors import SimulationFailedError, WriterFailedError
from recorder.format.encoder import TapeEncoder
from recorder.format.file_header import FileHeader
from recorder.format.frame import encode_frame, ensure_inputs_fit
from recorder.format.keyframe import gather_changes
from recorder.format.limits import META_BYTES_MAX
from recorder.format.plain_data import PlainEncoder, decode_plain, encode_plain
from recorder.logfile import LogFile
from recorder.writer import KeyframeJob, Writer, WriterStatistics
from sim.kernel.changes import AuditedChanges, ChangeSource, MarkedChanges, ScannedChanges
from sim.kernel.hashing import HASH_NAME
from sim.kernel.keyed_random import GENERATOR_NAME
from sim.kernel.registry import Origin
from sim.kernel.simulation import ArenaOfSaved, as_simulation
from sim.kernel.state import Snapshot, State

KEYFRAME_INTERVAL_TICKS = 300  # Ten seconds at 30 ticks a second: what a seek re-simulates at most.
FULL_EVERY = 10  # Deltas grow with the distance to their full keyframe; ten keep them small.
MARKER_BYTES = 8

ChangeTracking = Literal["auto", "marks", "scan", "audit"]
_SOURCES: dict[str, Callable[[State], ChangeSource]] = {
    "marks": MarkedChanges,
    "scan": ScannedChanges,
    "audit": AuditedChanges,
}


@attrs.frozen
class RecorderStatistics:
    """What a recorder has done so far.

    Attributes:
        tick: the last one recorded.
        keyframes_skipped: because the writer was still busy with earlier ones.
        writer: the writer's own figures.
    """

    tick: int
    keyframes_skipped: int
    writer: WriterStatistics


class Recorder:
    """Records one simulation into one tape; a context manager.

    ``step`` is the simulation's step plus its frame. Leaving the ``with`` block, or ``close``, seals the tape.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        simulation: Any,
        *,
        keyframe_interval_ticks: int = KEYFRAME_INTERVAL_TICKS,
        full_every: int = FULL_EVERY,
        changes: ChangeTracking = "auto",
        sync: str = "1s",
        deterministic: bool = False,
        run_id: bytes | None = None,
    ) -> None:
        """Create the tape and write the state as it is now as tick 0.

        Args:
            path: a new file.
            simulation: anything with ``.state`` (a sim.State) and ``.step``, or with ``.save``, ``.load`` and
                ``.step``.
            keyframe_interval_ticks: ticks from one keyframe to the next, at least 1.
            full_every: each so many keyframes one is full and the others are deltas; at least 1.
            changes: how to know what changed: "marks" (the simulation marks every write), "scan" (compare with the
                baseline), "audit" (both, and raise UnmarkedWriteError where they disagree), "auto" (marks if the
                simulation says ``marks_writes``, else scan).
            sync: when to force the file to stable storage: a time such as "1s" or "0.2s", "block" (after each block)
                or "never" (leave it to the system).
            deterministic: the same simulation and inputs give the same bytes: no clock, no environment, no waiver of
                keyframes; the run id then comes from the content.
            run_id: 16 bytes; random by default.

        Raises:
            FileExistsError: there is a file at path; OSError: it cannot be made. TypeError: no simulation.
            ValueError: an argument out of its range.
        """
        if keyframe_interval_ticks < 1 or full_every < 1:
            raise ValueError("keyframe_interval_ticks and full_every must be at least 1")
        sync_interval_s, sync_each_block = parse_sync(sync)
        self.simulation = as_simulation(simulation)
        self._interval_ticks = keyframe_interval_ticks
        self._full_every = full_every
        self._deterministic = deterministic
        self._make_source = self._find_source(changes)
        baseline = self.simulation.state.snapshot()
        meta = _encode_small(self._describe(simulation), "the description of the world")
        self._encoder = PlainEncoder()
        encoder = TapeEncoder(self._make_header(run_id, meta, baseline), meta)
        log = LogFile(path)
        self._tracked = self.simulation.state
        self._source = self._make_source(self._tracked)  # Attached once nothing can refuse the recording any more.
        self._writer = Writer(
            log,
            encoder,
            path=path,
            first_tick=1,
            sync_interval_s=sync_interval_s,
            sync_each_block=sync_each_block,
            deterministic=deterministic,
        )
        self.path = path
        self.tick = 0
        self._keyframes_skipped = 0
        self._failed_tick: int | None = None
        self._closed = False
        self._keyframe_number = 0
        self._next_keyframe_tick = keyframe_interval_ticks
        self._put_full(0, baseline.hash(), baseline)
        # If the recorder is forgotten, or the program ends without close: all frames are still written, unsealed.
        self._abandon = weakref.finalize(self, _abandon_writer, self._writer, os.fspath(path))

    def step(self, inputs: Any = None) -> Any:
        """Step the simulation with inputs and record the tick; returns what the simulation's step returned.

        inputs: plain data (None, bool, int, float, str, bytes, list, dict, NumPy arrays and numbers).

        Raises:
            TypeError, ValueError: inputs that cannot be recorded; nothing has happened then.
            WriterFailedError: the writer stopped; the simulation was not stepped, or its frame is not on the tape.
            SimulationFailedError: an earlier step raised.
            Whatever the simulation raises; the tape then ends at the tick before.
        """
        if self._failed_tick is not None or self._closed:
            self._ensure_usable()
        tick = self.tick + 1
        encoded = self._encode_inputs(inputs, tick)
        try:
            result = self.simulation.step(inputs)  # type: ignore[func-returns-value]
            state_hash = self.simulation.state.hash()
            self._writer.put_frame(encode_frame(tick, state_hash, encoded))
        except BaseException:
            self._failed_tick = tick  # Also for an interrupt after the step: its frame may or may not have been put.
            raise
        self.tick = tick
        if tick >= self._next_keyframe_tick:
            self._put_keyframe(tick, state_hash)
        return result

    def _encode_inputs(self, inputs: Any, tick: int) -> bytes:
        try:
            encoded, sure = self._encoder.encode(inputs)
            if not sure:
                decode_plain(encoded)
        except TypeError as error:
            raise TypeError(f"the inputs of tick {tick} cannot be recorded: {error}") from None
        except (ValueError, OverflowError) as error:
            raise ValueError(f"the inputs of tick {tick} cannot be recorded: {error}") from None
        ensure_inputs_fit(tick, encoded)
        return encoded

    def flush(self) -> None:
        """Return when all recorded ticks are in the file and, unless sync is "never", on stable storage.

        Raises WriterFailedError.
        """
        self._ensure_usable()
        self._writer.flush()

    def close(self, outcome: Any = None) -> None:
        """Write what is left, seal the tape and stop the writer; a second call does nothing.

        outcome: plain data that says why the run ended; shown by ``replay info``.
        Raises WriterFailedError; TypeError or ValueError for an outcome that is not plain data, nothing has happened
        then.
        """
        if self._closed:
            return
        _encode_small(outcome, "the outcome")
        self._closed = True
        self._abandon.detach()
        self._source.close()
        self._writer.close({"reason": "closed"} if outcome is None else outcome)

    def statistics(self) -> RecorderStatistics:
        """Counters as they are now."""
        return RecorderStatistics(self.tick, self._keyframes_skipped, self._writer.statistics())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close({"reason": "exception", "exception": f"{type(error).__name__}: {error}"})
        except WriterFailedError as failed:
            error.add_note(str(failed))  # The exception under way matters more; this must not hide it.

    # --- keyframes

    def _put_keyframe(self, tick: int, state_hash: int) -> None:
        self._next_keyframe_tick = tick + self._interval_ticks
        self._keyframe_number += 1
        if not self._writer.has_room_for_keyframe(wait=self._deterministic):
            self._keyframes_skipped += 1
            self._force_full = True
            return
        state = self.simulation.state
        if state is not self._tracked:  # The simulation has put another State in its place.
            self._source.close()
            self._source, self._tracked = self._make_source(state), state
            self._force_full = True
        fits = state.layout.hash_seed == self._baseline.layout.hash_seed
        if self._force_full or not fits or self._keyframe_number % self._full_every == 0:
            self._put_full(tick, state_hash, state.snapshot())
        else:
            changes = gather_changes(state.arena, state.layout, self._source.changed_rows())
            self._writer.put_keyframe(KeyframeJob(tick, state_hash, self._baseline, changes))

    def _put_full(self, tick: int, state_hash: int, snapshot: Snapshot) -> None:
        self._writer.put_keyframe(KeyframeJob(tick, state_hash, snapshot, None))
        self._source.reset(snapshot)
        self._baseline = snapshot
        self._force_full = False

    # --- small things

    def _make_header(self, run_id: bytes | None, meta: bytes, baseline: Snapshot) -> FileHeader:
        if run_id is None:
            content = meta + baseline.hash().to_bytes(8, "little")
            run_id = hashlib.blake2b(content, digest_size=16).digest() if self._deterministic else os.urandom(16)
        if len(run_id) != 16:
            raise ValueError(f"run_id has {len(run_id)} bytes instead of 16")
        return FileHeader(run_id, hashlib.blake2b(run_id, digest_size=MARKER_BYTES).digest())

    def _find_source(self, changes: ChangeTracking) -> Callable[[State], ChangeSource]:
        if changes == "auto":
            changes = "marks" if getattr(self.simulation, "marks_writes", False) else "scan"
        elif changes in ("marks", "audit") and isinstance(self.simulation, ArenaOfSaved):
            raise ValueError(f'changes="{changes}": a simulation with save and load marks nothing; use "scan"')
        if changes not in _SOURCES:
            raise ValueError(f"changes={changes!r}: auto, marks, scan or audit was expected")
        return _SOURCES[changes]

    def _describe(self, simulation: Any) -> dict[str, Any]:
        """META: what a reader needs to build the simulation again and to judge a difference."""
        origin = getattr(self.simulation, "origin", None)
        world = None
        if isinstance(origin, Origin):
            world = {"name": origin.world, "version": origin.version, "config": dict(origin.config)}
        described: dict[str, Any] = {
            "world": world,
            "simulation": f"{type(simulation).__module__}.{type(simulation).__qualname__}",
            "mode": "events",
            "hash": HASH_NAME,
            "random": GENERATOR_NAME,
            "keyframe_interval_ticks": self._interval_ticks,
            "full_every": self._full_every,
        }
        if not self._deterministic:
            described["environment"] = describe_environment()
            described["created"] = datetime.now(UTC).isoformat(timespec="seconds")
        return described

    def _ensure_usable(self) -> None:
        if self._closed:
            raise ValueError("this recorder is closed")
        if self._failed_tick is not None:
            raise SimulationFailedError(self._failed_tick)
        self._writer.raise_error()


def _encode_small(value: Any, what: str) -> bytes:
    """Plain data that goes into META or END. Raises TypeError or ValueError if it cannot be read back from there."""
    encoded = encode_plain(value)
    decode_plain(encoded)
    if len(encoded) > META_BYTES_MAX:
        raise ValueError(f"{what} takes {len(encoded)} bytes, more than {META_BYTES_MAX}")
    return encoded


def _abandon_writer(writer: Writer, path: str) -> None:
    writer.stop()  # First: where warnings are errors, nothing comes after them.
    warnings.warn(
        f"the recording {path} was never closed: its ticks are written, it is not sealed", ResourceWarning, stacklevel=2
    )


def parse_sync(sync: str) -> tuple[float | None, bool]:
    """The time between two syncs, None for never, and whether each block is synced. Raises ValueError."""
    if sync == "never":
        return None, False
    if sync == "block":
        return 0.0, True
    if not re.fullmatch(r"\d+(\.\d+)?s", sync):
        raise ValueError(f'sync={sync!r}: a time such as "1s", "block" or "never" was expected')
    return float(sync[:-1]), False
