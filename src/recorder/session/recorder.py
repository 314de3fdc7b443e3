"""Record a simulation while it runs: a frame for each tick, a keyframe now and then.

Policy only: what is recorded when. Which keyframe is put is keyframe_policy.py's business, bytes are the format's, writing is
the writer's.

Invariants:
    1. Frame t is put after the step to tick t has returned and before the next step starts.
    2. The first tick of a session has a full keyframe, in the file before the first step.
    3. With durability "tick", a frame is in the journal before step returns.
"""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from recorder.errors import ForkedRecorderError, RecordingWarning, SimulationFailedError, WriterFailedError
from recorder.format.blocks.frame import encode_frame
from recorder.notebook.recorder_mixin import NotebookMixin
from recorder.processes.fork_guard import refuse_after_fork
from recorder.session.blame_hashes import PhaseBlame
from recorder.session.change_source import ChangeSources, ChangeTracking, find_source
from recorder.session.encode_inputs import encode_inputs
from recorder.session.keyframe_policy import KeyframePolicy
from recorder.session.session import (
    Resumed,
    Session,
    abandon_writer,
    describe,
    encode_small,
    exception_text,
    new_session,
)
from recorder.session.tick_identity import TickHashChain, as_hash
from recorder.session.tick_output import OutputCollector
from recorder.settings import Blame, Durability, Hashes, Mode, OnError, choose_hashes, ensure_arguments, make_settings
from recorder.statistics import RecorderStatistics
from recorder.storage.tape_files import TapeFiles
from recorder.writer.journal import Journal
from recorder.writer.writer import Writer
from sim.kernel.plain_data import PlainEncoder
from sim.kernel.simulation import Simulation, as_simulation
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from recorder.session.lockstep import PeerHashes

KEYFRAME_INTERVAL_TICKS = 300  # Ten seconds at 30 ticks a second: what a seek re-simulates at most.
FULL_EVERY = 10  # Deltas grow with the distance to their full keyframe; ten keep them small.


class Recorder(NotebookMixin):
    """Records one simulation into one tape; leaving the ``with`` block, or ``close``, seals it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        simulation: Any,
        *,
        keyframe_interval_ticks: int = KEYFRAME_INTERVAL_TICKS,
        full_every: int = FULL_EVERY,
        seek_budget_ms: float | None = None,
        changes: ChangeTracking = "auto",
        durability: Durability = "tick",
        sync: str | None = None,
        on_error: OnError = "continue",
        keep: int | str | None = None,
        split: int | str | None = None,
        deterministic: bool = False,
        blame: Blame = "auto",
        mode: Mode = "events",
        hashes: Hashes = "auto",
        events: bool | None = None,
        run_id: bytes | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the tape and write the state as it is now as tick 0.

        Args:
            path: a new file; ~ is not expanded.
            simulation: anything with ``.state`` (a sim.State) and ``.step``, or with ``.save``, ``.load`` and ``.step``.
            keyframe_interval_ticks: from one keyframe to the next, at least 1.
            full_every: one keyframe of so many is full.
            seek_budget_ms: put keyframes as far apart as lets a seek take about so long, instead of at that interval.
            changes: how to know what changed: "marks" (of the simulation), "scan" (compare all), "pages" (those written),
                "audit" (marks and scan; UnmarkedWriteError where they disagree), "auto" (marks, or pages, or scan).
            durability: what a kill may cost: "tick" (nothing: a journal), "block" (a second), "none" (what was not written).
            sync: when to force the file to the disk: a time such as "1s" (the default), "block" (each block) or "never".
            on_error: when the disk refuses: "continue" (in memory, trying again, noting what is lost) or "raise".
            keep: a ring: keep only the last so many ticks, or a time such as "60s".
            split: begin a new file at the first keyframe after so many bytes, or a size such as "500MB".
            deterministic: the same simulation and inputs give the same bytes: no clock, no environment; the run id comes
                from the content. A power cut, and a kill with durability "block", cost all since the last full block.
            blame: what frames tell of a desync: hashes of "fields", also of "phases", "none", "auto" (fields, to 1 MiB).
            mode: "events" (inputs and hashes) or "changes" (also what each tick changes: it is reached without a step).
            hashes: in each frame the hash of the state ("states"), or, with mode="changes" and marks, of what changed
                ("changes", the state's at keyframes only); "auto": the latter from 1 MiB on.
            events: whether to record what events() tells; by default where a simulation does unasked (see Simulation).
            run_id: 16 bytes; random by default.
            notes: plain data by name, for META.

        Raises:
            FileExistsError: there is a file at path. OSError: it cannot be made, or, with on_error="raise", its journal.
            WriterFailedError: the disk does not take the first keyframe. No file is left in these cases.
            TypeError: no simulation, or an argument of another type. ValueError: one out of its range.
        """
        ensure_arguments(path, run_id, notes)
        adapted = as_simulation(simulation)
        sources = find_source(adapted, changes)
        settings = make_settings(
            keyframe_interval_ticks=keyframe_interval_ticks,
            full_every=full_every,
            durability=durability,
            sync=sync,
            on_error=on_error,
            keep=keep,
            split=split,
            deterministic=deterministic,
            blame=blame,
            seek_budget_ms=seek_budget_ms,
            hashes=choose_hashes(hashes, mode, adapted.state.layout.size_bytes, marks=sources.marks),
        )
        baseline = adapted.state.snapshot()
        described = describe(simulation, adapted, settings, notes, mode=mode, events=events)
        session = new_session(TapeFiles(path), path, described, settings, baseline, run_id)
        try:
            self._start(path, adapted, sources, session, baseline)
        except BaseException:
            session.files.discard()  # Or the next try would find a tape that holds nothing.
            raise

    @classmethod
    def resuming(
        cls,
        path: str | os.PathLike[str],
        simulation: Simulation,
        session: Session,
        resumed: Resumed,
        changes: ChangeTracking = "auto",
    ) -> Self:
        """Go on with a tape that was opened again; the simulation is in the state of its last tick. See resume."""
        self = cls.__new__(cls)
        self._start(path, simulation, find_source(simulation, changes), session, simulation.state.snapshot(), resumed)
        return self

    def _start(
        self,
        path: str | os.PathLike[str],
        simulation: Any,
        sources: ChangeSources,
        session: Session,
        baseline: Snapshot,
        resumed: Resumed | None = None,
    ) -> None:
        self.simulation = simulation
        self.path = path
        self._place = Path(path).absolute()  # What it is relative to may not be the current folder later on.
        self.meta = session.described
        self.resumed = resumed  # What was found, if this goes on with an older recording.
        self.tick = session.tick
        self._settings = settings = session.settings
        self._files = session.files
        self._encoder = PlainEncoder()
        self._phase_blame = PhaseBlame(simulation) if settings.blame == "phases" else None
        self._failed_tick: int | None = None
        self._peers: PeerHashes | None = None
        self._closed, self._owner = False, os.getpid()
        self._attention = False  # Whether a call has to look for what is wrong before it does anything.
        self._journal: Journal | None = None
        make_changes = sources.ticks if session.described.get("mode") == "changes" else None
        self._outputs = OutputCollector.of(simulation, session.described.get("event_stream"), make_changes)
        self._hash_chain = TickHashChain() if settings.hashes == "changes" and sources.marks else None
        self._writer = Writer(session.files, session.log, settings, path=path, first_tick=self.tick + 1)
        self._keyframes = KeyframePolicy(simulation, sources, settings, self._writer, self._outputs, self.tick)
        try:
            self._keyframes.put_whole(self.tick, baseline.hash(), baseline)
            if self._outputs is not None and not self.tick:
                self._writer.put_frame(self._outputs.take(self.tick, made=resumed is None))
            if settings.durability == "tick":
                # A frame is worth nothing without the keyframe that leads to it: that comes first.
                self._writer.flush(sync=False)
                required = settings.on_error == "raise"
                self._journal = Journal(session.files, session.run_id, self._writer, required=required)
        except BaseException:
            self._writer.stop()
            raise
        for notice in session.files.notices:
            self._writer.tell(notice)
        # If the recorder is forgotten, or the program ends without close: all frames are still written, unsealed.
        self._abandon = weakref.finalize(self, abandon_writer, self._writer, self._journal, os.fspath(path))
        refuse_after_fork(self)

    def step(self, inputs: Any = None) -> Any:
        """Step the simulation with inputs and record the tick; returns what the simulation's step returned.

        inputs: plain data (None, bool, int, float, str, bytes, list, dict, NumPy arrays and numbers).

        Raises:
            TypeError, ValueError: inputs that cannot be recorded; nothing has happened then.
            WriterFailedError: the writer stopped; the simulation was not stepped, or its frame is not on the tape.
            ForkedRecorderError: in a child process.
            SimulationFailedError: an earlier step raised. PeerDesyncError: a peer has another hash.
            Whatever the simulation raises; the tape then ends at the tick before.
        """
        if self._attention or self._writer.signal:
            self._ensure_usable()
        tick = self.tick + 1
        keyframes = self._keyframes
        start_ns = time.perf_counter_ns() if keyframes.budget is not None else 0
        encoded = encode_inputs(self._encoder, inputs, tick)
        try:
            phases = self._phase_blame
            result = self.simulation.step(inputs) if phases is None else phases.step(inputs)
            state = self.simulation.state
            identity: int | bytes = state.hash() if self._hash_chain is None else b""
            output = None if self._outputs is None else self._outputs.take(tick)
            wants_full = self._writer.wants_full or (self._outputs is not None and self._outputs.wants_full)
            is_due = wants_full or tick >= keyframes.next_tick
            if self._hash_chain is not None:
                identity = self._hash_chain.identify(state, output, whole=is_due)
            field_hashes = state.field_hashes() if keyframes.blames_fields else b""
            frame = encode_frame(tick, identity, encoded, field_hashes, phases.hashes if phases else b"")
            if self._journal is not None:
                self._journal.put(tick, frame)
            self._writer.put_frame(frame if output is None else output.beside(frame))
        except BaseException:
            self._attention = True
            if not self._writer.has_failed:
                self._failed_tick = tick  # Also for an interrupt behind it: its frame may or may not have been put.
            raise
        self.tick = tick
        keyframes.add_frame(len(frame))
        if is_due:
            keyframes.put(tick, as_hash(identity, state), wants_full=wants_full)
        elif keyframes.budget is not None and keyframes.budget.is_due(start_ns):
            keyframes.next_tick = tick + 1
        if self._peers is not None:
            self._peers.arrive(tick, as_hash(identity, state), state.snapshot)
        return result

    def report_hash(self, tick: int, state_hash: int) -> None:
        """Hand in a peer's hash of a tick; it is compared at once, or when the run gets there (then step raises).

        Raises PeerDesyncError at the first that differs, with a dump beside the tape; MissingTickError if the tick is too old.
        """
        self._ensure_usable()
        if self._peers is None:
            from recorder.session.lockstep import PeerHashes  # noqa: PLC0415 - it brings the reading half along, as write_out does

            self._peers = PeerHashes(self._place, lambda: self._writer.flush(sync=False))
        self._peers.report(tick, state_hash, self.tick, self.simulation.state.snapshot)

    def flush(self) -> None:
        """Return when all recorded ticks are in the file and, unless sync is "never", on stable storage.

        Raises WriterFailedError, also while the disk refuses.
        """
        self._ensure_usable()
        self._writer.flush()

    def write_out(self, path: str | os.PathLike[str], outcome: Any = None) -> tuple[int, int]:
        """Copy what is kept now into a new sealed tape, and go on recording; its first and last tick.

        For a ring whose run has come upon something that should not be lost. outcome: as for close.
        Raises FileExistsError, OSError, WriterFailedError; TypeError or ValueError for an outcome that is not plain.
        """
        from recorder.storage.tape_copy import copy_run  # noqa: PLC0415

        self._ensure_usable()
        encode_small(outcome, "the outcome")
        self._writer.flush(sync=False)
        return copy_run(self._place, path, {"reason": "written out"} if outcome is None else outcome)

    def close(self, outcome: Any = None) -> None:
        """Write what is left, seal the tape and stop the writer; a second call does nothing, or ends an interrupted one.

        outcome: plain data that says why the run ended; shown by ``replay info``.
        Raises WriterFailedError; TypeError or ValueError for an outcome that is not plain data, nothing has happened
        then.
        """
        if self._closed or os.getpid() != self._owner:
            return  # A forked child has nothing to close: the tape is its parent's.
        encode_small(outcome, "the outcome")
        self._attention = True
        if not self._writer.seals:
            self._keyframes.close()
            if self._outputs is not None:
                self._outputs.close()
        finished = False
        try:
            self._writer.close({"reason": "closed"} if outcome is None else outcome)
            finished = True
        finally:
            if finished or self._writer.has_failed:  # Else it was interrupted: the next call goes on waiting.
                self._closed = True
                self._abandon.detach()
        if self._journal is not None:
            self._journal.close()
        self._pass_on_notices()

    def disown(self) -> None:
        """In a forked child: refuse to record; give back the files, which belong to the parent and hold its lock."""
        self._attention = True
        self._abandon.detach()
        self._files.disown()

    def statistics(self) -> RecorderStatistics:
        """Counters as they are now."""
        return RecorderStatistics(self.tick, self._keyframes.skipped, self._writer.statistics())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close({"reason": "exception", "exception": exception_text(error)})
        except (WriterFailedError, OSError, RecordingWarning) as failed:
            error.add_note(str(failed))  # The exception under way matters more; this must not hide it.

    # --- what went wrong

    def _pass_on_notices(self) -> None:
        for notice in self._writer.take_notices():
            warnings.warn(notice, RecordingWarning, stacklevel=4)

    def _ensure_usable(self) -> None:
        if os.getpid() != self._owner:
            raise ForkedRecorderError(self._owner)
        if self._closed or self._writer.seals:
            raise ValueError("this recorder is closed")
        self._writer.raise_error()
        if self._failed_tick is not None:
            raise SimulationFailedError(self._failed_tick)
        self._pass_on_notices()
