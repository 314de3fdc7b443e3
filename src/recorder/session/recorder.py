"""Record a simulation while it runs: a frame for each tick, and regular keyframes.

This module begins and ends a recording. In between, hot_path/step_recorder.py records each step and keyframe_policy.py
chooses the keyframes. recorder.writer takes both on a thread of its own, recorder.format encodes the bytes, and
recorder.storage appends them to files. docs/architecture.md draws this way, down to the functions.

Invariants:
    1. The first tick of a session has a full keyframe, in the file before the first step, at each level of durability.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from recorder.ambient.outside.code_watch import watch_code
from recorder.ambient.outside.outside_note import NotedReads
from recorder.ambient.watches.settings_watch import watch_settings
from recorder.calls_under_way import wait_for_others
from recorder.errors import (
    ConcurrentStepError,
    ForkedRecorderError,
    RecordingWarning,
    SimulationFailedError,
    WriterFailedError,
)
from recorder.format.blocks.aux_block import Encoded
from recorder.notebook.recorder_mixin import NotebookMixin
from recorder.processes.fork_guard import refuse_after_fork
from recorder.recording_options import FUNCTIONS, OptionArguments, RecordingOptions, takes_options
from recorder.session.between_steps import BetweenFirstSteps, BetweenSteps, ChangesOutside
from recorder.session.blame_hashes import PhaseBlame
from recorder.session.capture_check import CaptureCheck, capture_again, digest_maker
from recorder.session.change_source import ChangeSources, find_source
from recorder.session.hot_path.step_recorder import StepRecorder
from recorder.session.hot_path.tick_identity import TickHashChain
from recorder.session.keyframe_policy import KeyframePolicy
from recorder.session.outputs.tick_output import OutputCollector, functions_of
from recorder.session.run_end import exception_text, known_outcome
from recorder.session.session import Resumed, Session, abandon_writer, new_session
from recorder.session.tape_meta import describe, encode_small
from recorder.settings import ChangeTracking, ensure_path
from recorder.statistics import RecorderStatistics
from recorder.storage.tape_files import TapeFiles, ensure_new
from recorder.trial.own_simulation import warn_of_hidden_state
from recorder.writer.jobs import TickOutput
from recorder.writer.journal import Journal
from recorder.writer.writer import Writer
from sim.kernel.hooks import KeepsAttempts, ensure_hooks, hook
from sim.kernel.memory.free_memory import give_back_free_memory
from sim.kernel.plain_data import PlainEncoder, decode_plain
from sim.kernel.simulation import Simulation, as_simulation, inner_of, subject_of
from sim.kernel.state import Snapshot
from sim.user_warning import warn_user

if TYPE_CHECKING:
    from recorder.session.lockstep import Peer, PeerDivergence, PeerHashes

_Path = str | os.PathLike[str]
FAILED_INPUT_BYTES_MAX = 1 << 16  # Of the step that raised, in END, which must stay small.
FOR_THIS_PACKAGE = frozenset({"beginning_at", "outcome_of", "with_options"})  # The tab key does not offer them.
LARGE_BYTES = 1 << 20  # A state: what is kept of the memory of smaller ones is little.


class Recorder(StepRecorder, NotebookMixin):
    """Records one simulation into one tape; leaving the ``with`` block, or ``close``, seals it.

    Examples:
        >>> with recorder.Recorder("new.tape", Walkers()) as tape:
        ...     for tick in range(100):
        ...         tape.step(tick % 3)
    """

    concurrent_step_error = ConcurrentStepError  # For what calls step.
    calls: object = None  # What records the calls of a resumed object; see recorder.reopen.resume.

    @takes_options()
    def __init__(
        self,
        path: str | os.PathLike[str],
        simulation: Any,
        **options: Unpack[OptionArguments],
    ) -> None:
        """Create the tape and write the state as it is now as tick 0.

        Args:
            path: a new file; ~ is not expanded.
            simulation: an object with ``.state`` (a sim.State) and ``.step``, or ``.save``, ``.load`` and ``.step``.
            OPTIONS

        Raises:
            FileExistsError: path exists. OSError: the file cannot be created, or, with on_error="raise", its journal.
            WriterFailedError: the first keyframe cannot be written. No file is left in these cases.
            TypeError: not a simulation, or an argument of a wrong type. ValueError: an argument out of its range.
        """
        self._create(path, simulation, RecordingOptions.of(options), None)

    @classmethod
    def with_options(
        cls, path: _Path, simulation: Any, options: RecordingOptions, noted: NotedReads | None = None
    ) -> Self:
        """Make a recorder from a RecordingOptions object. noted: what the first steps read in an earlier trial."""
        self = cls.__new__(cls)
        self._create(path, simulation, options, noted)
        return self

    @classmethod
    def beginning_at(
        cls,
        path: _Path,
        simulation: Simulation,
        tick: int,
        options: RecordingOptions,
        facts: Mapping[str, Any] | None = None,
        sections: Encoded | None = None,
    ) -> Self:
        """Create a tape that begins at a later tick, with the present state of a simulation that was restored there.

        The steps after it are not tried first. facts: further keys of META. sections: of that tick, kept beside the
        state. Raises as Recorder does.
        """
        self = cls.__new__(cls)
        ensure_path(path)
        ensure_hooks(inner_of(simulation))
        sources = find_source(simulation, options.changes, options)
        settings = options.with_chosen_hashes(simulation.state.layout.size_bytes, marks=sources.marks)
        baseline = simulation.state.snapshot()
        meta = {**describe(inner_of(simulation), simulation, settings), **(facts or {})}
        self._begin(
            path, simulation, sources, new_session(TapeFiles(path), path, meta, settings, baseline, tick), baseline
        )
        if sections is not None:
            self._writer.put_frame(TickOutput(None, None, aux=sections, aux_bytes=sum(map(len, sections.values()))))
            self._writer.flush(sync=False)
        return self

    @classmethod
    def resuming(
        cls, path: _Path, simulation: Simulation, session: Session, resumed: Resumed, changes: ChangeTracking = "auto"
    ) -> Self:
        """Continue a tape that was opened again, with the simulation in the state of its last tick. See resume."""
        self = cls.__new__(cls)
        sources = find_source(simulation, changes, session.settings)
        self._start(path, simulation, sources, session, simulation.state.snapshot(), resumed)
        return self

    def _create(self, path: _Path, simulation: Any, options: RecordingOptions, noted: NotedReads | None) -> None:
        ensure_path(path)
        adapted = as_simulation(simulation)
        ensure_hooks(inner_of(adapted))
        sources = find_source(adapted, options.changes, options)
        ensure_new(path)  # Before the trial, which takes a while.
        noted = warn_of_hidden_state(adapted, options, path) or noted
        settings = options.with_chosen_hashes(adapted.state.layout.size_bytes, marks=sources.marks)
        capture_again(adapted)
        baseline = adapted.state.snapshot()
        meta = describe(simulation, adapted, settings, noted)
        self._begin(path, adapted, sources, new_session(TapeFiles(path), path, meta, settings, baseline), baseline)

    def _begin(
        self, path: _Path, simulation: Any, sources: ChangeSources, session: Session, baseline: Snapshot
    ) -> None:
        try:
            self._start(path, simulation, sources, session, baseline)
        except BaseException:
            session.files.discard()  # The next attempt must not find an empty tape.
            raise

    def _start(
        self,
        path: str | os.PathLike[str],
        simulation: Any,
        sources: ChangeSources,
        session: Session,
        baseline: Snapshot,
        resumed: Resumed | None = None,
    ) -> None:
        self.simulation, self.path = simulation, path
        self.meta, self.resumed = session.meta, resumed  # None for a new recording.
        self.tick = self.start_tick = session.tick  # Of this session: 0, unless it began at a later tick or is resumed.
        self._settings = settings = session.settings
        self._files = session.files
        self._encoder = PlainEncoder()
        self._keeps_attempts = hook(simulation, KeepsAttempts)
        self._phase_blame = PhaseBlame(simulation) if settings.blame == "phases" else None
        self._failed_tick: int | None = None
        self._failed_inputs = b""  # Of that tick, encoded.
        self._peers: PeerHashes | None = None
        self._closed, self._owner = False, os.getpid()
        self._attention = False  # True if the next call must check for a failure first.
        self._steps: list[FrameType] = []  # The calls of step; an interrupt can leave ended ones there.
        self._journal: Journal | None = None
        make_changes = sources.ticks if session.meta.get("mode") == "changes" else None
        self._hash_chain = TickHashChain() if settings.hashes == "changes" and sources.marks else None
        self._writer = Writer(session.files, session.log, settings, path=path, first_tick=self.tick + 1)
        functions = functions_of(simulation, settings.output_functions, self._writer.notify, path)
        event_stream = session.meta.get("event_stream") if "events" not in session.meta.get(FUNCTIONS, ()) else False
        self._outputs = OutputCollector.of(simulation, event_stream, make_changes, functions)
        self._keyframes = KeyframePolicy(simulation, sources, settings, self._writer, self._outputs, self.tick)
        self._check = CaptureCheck.of(simulation, self._writer.notify, path, each_tick=sources.audits)
        self._keyframes.check = self._check
        earlier = None if resumed is None else resumed.outcome or {}
        code = watch_code(simulation, session.meta, self.tick, earlier)
        process = watch_settings(session.meta, self.tick, is_first=resumed is None)
        self._keyframes.watches = [watch for watch in (code, process) if watch is not None]
        self.between: BetweenSteps | None = None
        self.outside = ChangesOutside()
        try:
            self._keyframes.make_digest = digest_maker(simulation)
            self._keyframes.put_whole(self.tick, baseline.hash(), baseline)
            if self._outputs is not None and not self.tick:
                self._writer.put_frame(self._outputs.take(self.tick, made=resumed is None))
            self._writer.flush(sync=False)  # No frame and no step before it: without a keyframe they are useless.
            if settings.durability == "tick":
                required = settings.on_error == "raise"
                self._journal = Journal(session.files, session.run_id, self._writer, required=required)
            if settings.between_steps:
                self.between = BetweenSteps(simulation, self.outside, self._writer.notify, path, self.tick)
            elif settings.between_steps is None and not settings.deterministic:  # How many steps depends on the clock.
                self.between = BetweenFirstSteps(simulation, self.outside, path, self.tick)
            self._compared = self.between  # For the outcome, also once no further steps are compared.
        except BaseException:
            self._writer.stop()
            raise
        for notice in session.files.notices:
            self._writer.notify(notice)
        # If the recorder is garbage-collected or the program ends without close, all frames are written, unsealed.
        self._abandon = weakref.finalize(self, abandon_writer, self._writer, self._journal, os.fspath(path))
        refuse_after_fork(self)

    @property
    def is_closed(self) -> bool:
        """True after close, and in a forked child, which cannot record."""
        return self._closed or os.getpid() != self._owner

    @property
    def subject(self) -> Any:
        """The recorded object: the environment, the object or the model of an adapter, or your simulation itself."""
        return subject_of(self.simulation)

    def report_hash(self, tick: int, state_hash: int, peer: Peer = None) -> PeerDivergence | None:
        """Compare a peer's hash of a tick with ours: at once, or when the run reaches the tick (step raises then).

        A divergence leaves a dump and raises PeerDesyncError once, or what on_desync says. Returns the divergence that
        the tick belongs to, with the ticks counted since. MissingTickError: the tape has lost the tick.
        """
        self._ensure_usable()
        if self._peers is None:
            from recorder.session.lockstep import PeerHashes  # noqa: PLC0415 - imports the readers, as write_out

            self._peers = PeerHashes(self._files.path, self._writer, self._settings.on_desync)
            self._choose_path()
        return self._peers.report(tick, state_hash, self.tick, self.simulation.state.snapshot, peer)

    def flush(self) -> None:
        """Return when all recorded ticks are in the file and, unless sync is "never", on stable storage.

        Raises WriterFailedError, also while the disk fails and the writer retries.
        """
        self._ensure_usable()
        self._writer.flush()

    def write_out(self, path: str | os.PathLike[str], outcome: Any = None) -> tuple[int, int]:
        """Copy all ticks kept now into a new sealed tape and continue recording; return the copy's first and last tick.

        Use it with a ring, to save something worth keeping. outcome: as for close.
        Raises FileExistsError, OSError, WriterFailedError; TypeError or ValueError for an outcome that is not plain.
        """
        from recorder.storage.tape_copy import copy_run  # noqa: PLC0415

        self._ensure_usable()
        encode_small(outcome, "the outcome")
        self._writer.flush(sync=False)
        end = self._outcome({"reason": "written out"}) if outcome is None else outcome
        for watch in self._keyframes.watches:
            end = watch.outcome(end, self.tick)
        return copy_run(self._files.path, path, end)

    def close(self, outcome: Any = None) -> None:
        """Write what is left, seal the tape and stop the writer. A second call only finishes an interrupted one.

        outcome: plain data with the reason why the run ended; ``replay info`` prints it. By default it is what the
        simulation's ended() reports, or else the reason "closed". A step of another thread is waited for.
        Raises WriterFailedError; before anything happens, TypeError or ValueError for an outcome that is not plain data.
        """
        if self._closed or os.getpid() != self._owner:
            return  # A forked child has nothing to close: the tape is its parent's.
        encode_small(outcome, "the outcome")
        wait_for_others(self._steps)  # A step of another thread still belongs to the recording.
        end = self._outcome({"reason": "closed"}) if outcome is None else self._with_failed_step(outcome)
        end = self.outside.outcome(end, self._compared)
        for watch in self._keyframes.watches:
            end = watch.outcome(end, self.tick)
        end = end if self._outputs is None else self._outputs.outcome(end)
        self._attention = True
        if not self._writer.seals:
            self._keyframes.close()
            if self._outputs is not None:
                self._outputs.close()
        finished = False
        try:
            self._writer.close(end)
            finished = True
        finally:
            if finished or self._writer.has_failed:  # Otherwise it was interrupted: the next call continues to wait.
                self._closed = True
                self._abandon.detach()
        if self._journal is not None:
            self._journal.close()
        if self.simulation.state.layout.size_bytes >= LARGE_BYTES:
            give_back_free_memory()  # Of keyframes: the C library would keep it, up to two states.
        self._pass_on_notices()

    def _outcome(self, otherwise: dict[str, Any]) -> dict[str, Any]:
        """Return the end that the simulation reports at the present tick, or otherwise."""
        if self._failed_tick is not None:
            return otherwise  # The simulation was left in the middle of a step.
        return known_outcome(
            self.simulation, self.tick, otherwise, lambda text: self._writer.notify(f"{self.path}: {text}")
        )

    def outcome_of(self, error: BaseException) -> dict[str, Any]:
        """The outcome of a run that an exception ends: its text, and the step that raised, if one did."""
        return dict(self._with_failed_step({"reason": "exception", "exception": exception_text(error)}))

    def _with_failed_step(self, outcome: Any) -> Any:
        """The outcome of a run that a step ended by raising, with the tick and the inputs of that step.

        No frame has them: the tape ends with the tick before. They show how to raise the exception again.
        """
        is_exception = type(outcome) is dict and outcome.get("reason") == "exception"
        if (
            not is_exception
            or "step" in outcome
            or self._failed_tick is None
            or len(self._failed_inputs) > FAILED_INPUT_BYTES_MAX
        ):
            return outcome
        return {**outcome, "step": {"tick": self._failed_tick, "inputs": decode_plain(self._failed_inputs)}}

    def disown(self) -> None:
        """In a forked child: refuse to record, and release the files, which belong to the parent and hold its lock."""
        self._attention = True
        self._abandon.detach()
        self._files.disown()

    def statistics(self) -> RecorderStatistics:
        """Return the current counters."""
        check = self._check
        faults = check.fault_count if check is not None else 0
        return RecorderStatistics(self.tick, self._keyframes.skipped, self._writer.statistics(), faults)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in FOR_THIS_PACKAGE]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(self.outcome_of(error))
        except (WriterFailedError, OSError, RecordingWarning) as failed:
            error.add_note(str(failed))  # It must not hide the exception under way.

    def _pass_on_notices(self) -> None:
        for notice in self._writer.take_notices():
            warn_user(notice, RecordingWarning)

    def _ensure_usable(self) -> None:
        if os.getpid() != self._owner:
            raise ForkedRecorderError(self._owner)
        if self._closed or self._writer.seals:
            raise ValueError("this recorder is closed: make a new one, or continue its tape with recorder.resume")
        self._writer.raise_error()
        if self._failed_tick is not None:
            raise SimulationFailedError(self._failed_tick)
        if self._journal is not None and self._writer.journal_is_gone:
            self._journal.renew()
        self._pass_on_notices()
