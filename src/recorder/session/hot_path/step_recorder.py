"""Record one step: the part of recording that costs time in every tick.

``step`` itself records most steps of most recordings: only a frame is due, perhaps with hashes of the fields, and no option
asks for anything else. All others are recorded by ``_step_whole``. Both do the same, in the same order. What is short and
done in each step stands here without a call: a call of Python takes as long as most of it.

Invariants:
    1. Frame t is put after the step to tick t has returned and before the next step starts.
    2. With durability "tick", a frame is in the journal before step returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from recorder.calls_under_way import is_another_under_way, this_frame
from recorder.errors import ConcurrentStepError
from recorder.format.blocks.frame import ARRAY_OF_3, ARRAY_OF_4, UINT64, encode_frame, pack_head, with_field_hashes
from recorder.session.blame_hashes import PhaseBlame
from recorder.session.capture_check import CaptureCheck
from recorder.session.hot_path.encode_inputs import NIL, SMALL_INTS, encode_attempt, encode_inputs
from recorder.session.hot_path.tick_identity import TickHashChain, as_hash
from recorder.session.keyframe_policy import KeyframePolicy
from recorder.session.outputs.tick_output import OutputCollector
from recorder.writer.journal import Journal
from recorder.writer.writer import Writer
from sim.kernel.hooks import KeepsAttempts
from sim.kernel.plain_data import PlainEncoder, decode_plain

if TYPE_CHECKING:
    from recorder.session.between_steps import BetweenSteps
    from recorder.session.lockstep import PeerHashes

_SMALL_INTS_END = len(SMALL_INTS)


class StepRecorder:
    """The step of a Recorder; the attributes below are the Recorder's."""

    simulation: Any
    tick: int
    between: BetweenSteps | None
    _steps: list[FrameType]
    _attention: bool
    _failed_tick: int | None
    _failed_inputs: bytes
    _writer: Writer
    _keyframes: KeyframePolicy
    _journal: Journal | None
    _outputs: OutputCollector | None
    _check: CaptureCheck | None
    _hash_chain: TickHashChain | None
    _phase_blame: PhaseBlame | None
    _peers: PeerHashes | None
    _encoder: PlainEncoder
    _keeps_attempts: KeepsAttempts | None
    _ensure_usable: Callable[[], None]
    _pass_on_notices: Callable[[], None]
    _is_plain = False
    _hashes_fields = False

    def step(self, inputs: Any = None) -> Any:  # noqa: PLR0912, PLR0915 - in order and in one place
        """Step the simulation with inputs and record the tick; return what the simulation's step returned.

        inputs: plain data (None, bool, int, float, str, bytes, list, dict, NumPy arrays and numbers).

        Raises:
            TypeError, ValueError: inputs that cannot be recorded; nothing has happened then.
            WriterFailedError: the writer stopped; the simulation was not stepped, or its frame is not on the tape.
            ForkedRecorderError: called in a forked child process.
            SimulationFailedError: an earlier step raised. PeerDesyncError: a peer has a different hash.
            ConcurrentStepError: another step is under way, in another thread or around this call; nothing has happened.
            Exception: any of the simulation. The tape then ends at the tick before, unless the simulation records the
                attempt as a tick (see sim.kernel.hooks.KeepsAttempts); adapters for objects and environments do.
        """
        steps = self._steps
        steps.append(this_frame())
        try:
            if len(steps) > 1 and is_another_under_way(steps, this_frame()):
                raise ConcurrentStepError
            writer, keyframes, tick = self._writer, self._keyframes, self.tick + 1
            is_usual = self._is_plain and not (self._attention or writer.signal or writer.needs_full)
            if not is_usual or tick >= keyframes.next_tick or self._failed_tick is not None:
                return self._step_whole(inputs)
            budget = keyframes.budget
            start_ns = time.perf_counter_ns() if budget is not None else 0
            if type(inputs) is int and 0 <= inputs < _SMALL_INTS_END:
                encoded = SMALL_INTS[inputs]
            elif inputs is None:
                encoded = NIL
            else:
                encoded = encode_inputs(self._encoder, inputs, tick)
                if self._encoder.reorders:
                    inputs = decode_plain(encoded)  # As in every replay.
            self._failed_tick = tick  # Until all is done: an interrupt anywhere leaves the step or the tape half done.
            failure: Exception | None = None
            try:
                try:
                    result = self.simulation.step(inputs)
                except Exception as error:  # noqa: BLE001 - raised again below, once it is on the tape
                    encoded = encode_attempt(self._encoder, self._keeps_attempts, inputs, error, tick)
                    result, failure = None, error
                state = self.simulation.state
                if self._hashes_fields:
                    head = pack_head(ARRAY_OF_4, UINT64, tick, UINT64, state.hash())
                    frame = with_field_hashes(head, encoded, state.field_hashes())
                else:
                    frame = pack_head(ARRAY_OF_3, UINT64, tick, UINT64, state.hash()) + encoded
                if self._journal is not None:
                    self._journal.put(tick, frame)
                handoff = writer.handoff
                handoff.items.append(frame)
                handoff.put_bytes = put_bytes = handoff.put_bytes + len(frame)
                if put_bytes > handoff.wake_at_bytes:
                    handoff.make_room(len(frame))
                self.tick = tick
            except BaseException:
                self._leave_half_done(encoded)
                raise
            if keyframes.counts_bytes:
                keyframes.add_frame(len(frame))
            if budget is not None:
                budget.spent_ns = spent_ns = budget.spent_ns + time.perf_counter_ns() - start_ns
                if spent_ns >= budget.limit_ns:
                    budget.restart()
                    keyframes.next_tick = tick + 1
            self._failed_tick = None
            if failure is not None:
                raise failure
            return result
        finally:
            steps.remove(this_frame())

    def _choose_path(self) -> None:
        """Note what a usual tick is: only a frame, with or without hashes of the fields. It changes at keyframes, and with a first peer."""
        asks = (self.between, self._phase_blame, self._outputs, self._hash_chain, self._peers)
        audits = self._check is not None and self._check.each_tick
        self._is_plain = asks.count(None) == len(asks) and not audits
        self._hashes_fields = self._keyframes.records_field_hashes

    def _step_whole(self, inputs: Any) -> Any:  # noqa: PLR0912, PLR0915 - in order and in one place
        """Step, and record all that the options ask for, and all that is due."""
        writer = self._writer
        if self._attention or writer.signal or self._failed_tick is not None:
            self._ensure_usable()
        tick = self.tick + 1
        if self.between is not None:
            self.between.before_step(tick)
            self._pass_on_notices()
        keyframes = self._keyframes
        start_ns = time.perf_counter_ns() if keyframes.budget is not None else 0
        encoded = encode_inputs(self._encoder, inputs, tick)
        if self._encoder.reorders:
            inputs, self._encoder.reorders = decode_plain(encoded), False  # As in every replay.
        self._failed_tick = tick  # Until all is done: an interrupt anywhere leaves the step or the tape half done.
        try:
            phases = self._phase_blame
            failure: Exception | None = None
            try:
                result = self.simulation.step(inputs) if phases is None else phases.step(inputs)
            except Exception as error:  # noqa: BLE001 - raised again below, once it is on the tape
                encoded = encode_attempt(self._encoder, self._keeps_attempts, inputs, error, tick)
                result, failure = None, error
            check = self._check
            wants_full = writer.needs_full
            is_due = wants_full or tick >= keyframes.next_tick
            if check is not None and (is_due or check.each_tick):
                check.before_hash(tick, is_due=is_due)  # Nothing may be recorded from a state that is repaired later.
            state = self.simulation.state
            identity: int | bytes = state.hash() if self._hash_chain is None else b""
            output = None if self._outputs is None else self._outputs.take(tick)
            if self._outputs is not None and self._outputs.wants_full:
                wants_full = is_due = True
            if check is not None and (is_due or check.each_tick):
                check.at(tick)
                wants_full = wants_full or check.repaired
                is_due = is_due or check.repaired
                if is_due and check.is_deferred():
                    is_due = False
                    keyframes.defer(tick)
            if self._hash_chain is not None:
                identity = self._hash_chain.identify(state, output, whole=is_due)
            field_hashes = state.field_hashes() if keyframes.records_field_hashes else b""
            frame = encode_frame(tick, identity, encoded, field_hashes, phases.hashes if phases else b"")
            if self._journal is not None:
                self._journal.put(tick, frame)
            writer.put_frame(frame if output is None else output.with_frame(frame))
            self.tick = tick
        except BaseException:
            self._leave_half_done(encoded)
            raise
        try:
            if keyframes.counts_bytes:
                keyframes.add_frame(len(frame))
            if is_due:
                keyframes.put(tick, as_hash(identity, state), wants_full=wants_full)
            elif keyframes.budget is not None and keyframes.budget.is_due(start_ns):
                keyframes.next_tick = tick + 1
            if self.between is not None:
                self.between.keep()
                if self.between.is_over:
                    self.between = None
        except Exception:
            self._failed_tick = None
            raise
        self._failed_tick = None
        self._choose_path()
        if self._peers is not None:
            self._peers.arrive(tick, as_hash(identity, state), state.snapshot)
        if failure is not None:
            raise failure
        return result

    def _leave_half_done(self, encoded: bytes) -> None:
        self._attention, self._failed_inputs = True, encoded
        if self._writer.has_failed:
            self._failed_tick = None  # The writer says it itself.
