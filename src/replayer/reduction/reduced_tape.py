"""Write a tape of a run with fewer inputs: run once more from its first state, in a simulation made for it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import attrs

from recorder.ambient.outside.outside_note import KEY as OUTSIDE
from recorder.environment import describe_environment
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.events_block import encode_events, encode_tick
from recorder.format.blocks.frame import Frame, ensure_inputs_fit
from recorder.format.blocks.telemetry_block import Row, encode_telemetry, make_row
from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.playback.make_simulation import Factory, make_stepping
from replayer.reduction.candidate_runs import Watch
from replayer.reduction.desync_runs import DesyncFailure
from replayer.reduction.input_parts import Inputs, RecordedInputs
from replayer.tape.copied_range import UnfitTapeError
from replayer.tape.tape import Tape
from sim.kernel.hooks import HasTelemetry, KeepsAttempts, hook
from sim.kernel.plain_data import PlainEncoder, decode_plain, encode_plain
from sim.kernel.simulation import Simulation, inner_of, request_events, restore

INTERVAL_TICKS = 300  # From keyframe to keyframe, if the old tape does not name an interval.
_DROPPED = ("phases", "rekeyed", "cut", "joined", OUTSIDE)  # Facts of the old tape that are not those of the new one.


@attrs.frozen
class Shrunk:
    """The run that is written.

    Attributes:
        inputs: of its ticks.
        recorded: all inputs of the old tape.
        tick: the tick of its failure.
        watch: the failure.
        facts: for META.
    """

    inputs: Inputs
    recorded: RecordedInputs
    tick: int
    watch: Watch
    facts: dict[str, Any]


def write_reduced(tape: Tape, world: Factory | None, target: str | os.PathLike[str], run: Shrunk) -> None:
    """Run it in a fresh simulation, and write its ticks up to the failure.

    Raises UnfitTapeError if it does not fail at that tick; nothing is written then. FileExistsError, OSError.
    """
    simulation = make_stepping(tape, world)
    with TapeCopy(target, os.urandom(16), _meta(tape, run.facts)) as copy:
        writer = _RunWriter(tape, simulation, copy, run)
        writer.write()
        copy.finish(writer.outcome)


class _RunWriter:
    def __init__(self, tape: Tape, simulation: Simulation, copy: TapeCopy, run: Shrunk) -> None:
        self._tape, self._simulation = tape, simulation
        self._copy = copy
        self._run = run
        self._first = self._last_tick = tape.first_tick
        self._interval = interval_of(tape)
        self._frames: list[Frame] = []
        self._telemetry = hook(simulation, HasTelemetry) or hook(inner_of(simulation), HasTelemetry)
        self._emit = request_events(simulation) if tape.meta.get("event_stream") is True else None
        self._encoder = PlainEncoder()
        self._rows: list[Row] = []
        self._events: list[bytes] = []
        self._events_from = self._first + 1
        start = tape.snapshot(tape.keyframes[0])
        is_new = simulation.state.hash() == start.hash()
        if is_new and not self._first:
            self._take(self._first)  # The events of the start, which only a new simulation has.
            self._events_from = self._first
        if not (is_new and isinstance(run.watch, DesyncFailure)):  # Made and not restored, as the runs it was found in.
            restore(simulation, start)
        self.outcome: dict[str, Any] = {"reason": "shrunk", "ticks": run.tick}

    def write(self) -> None:
        """Write all ticks. Raises UnfitTapeError if the failure does not come at its tick."""
        run, simulation = self._run, self._simulation
        self._copy.full(self._first, simulation.state.snapshot())
        failed_at = None
        for tick in range(self._first + 1, run.tick + 1):
            try:
                encoded = self._step(tick)
            except _EndedError as ended:
                failed_at = tick if ended.is_failure else None
                break
            self._frames.append(Frame(tick, simulation.state.hash(), encoded))
            self._last_tick = tick
            self._take(tick)
            if failed_at is None and run.watch.stops(tick, simulation):
                failed_at = tick
            if (tick - self._first) % self._interval == 0:
                self._flush()
                self._copy.full(tick, simulation.state.snapshot())
            if failed_at is not None:
                break
        self._flush()
        for start, payload in self._tape.aux.payloads(self._first, self._last_tick):
            self._copy.optional_payload(BlockKind.AUX, payload, start)
        if failed_at != run.tick:
            raise UnfitTapeError(
                "the inputs that are left fail only in a simulation that ran others before: a step reads something "
                "outside its state; replay check may name it"
            )

    def _step(self, tick: int) -> bytes:
        """One step; returns the inputs as they are recorded. Raises _EndedError if no frame can hold it."""
        run, simulation = self._run, self._simulation
        encoded = run.inputs.get(tick, run.recorded.empty)
        ensure_inputs_fit(tick, encoded)
        try:
            simulation.step(decode_plain(encoded))
        except Exception as error:
            is_failure = run.watch.is_failure(tick, error)
            if not is_failure and type(error).__qualname__ != run.recorded.attempts.get(tick):
                raise _EndedError(is_failure=False) from error
            keeps = hook(simulation, KeepsAttempts)
            attempt = keeps.attempted(decode_plain(encoded), error) if keeps is not None else None
            if attempt is not None and not is_failure:
                return encode_plain(attempt)
            self.outcome = _raised(error, None if attempt is not None else tick, encoded)
            if attempt is not None:
                self._frames.append(Frame(tick, simulation.state.hash(), encode_plain(attempt)))
            raise _EndedError(is_failure=is_failure) from error
        return encoded

    def _take(self, tick: int) -> None:
        """Keep the figures and the events of a tick, as a recorder does."""
        if self._telemetry is not None:
            row = make_row(tick, self._telemetry.telemetry())
            if self._rows and self._rows[-1].names != row.names:
                self._flush_rows()
            self._rows.append(row)
        if self._emit is not None:
            self._events.append(encode_tick(self._encoder, tick, self._emit()))

    def _flush(self) -> None:
        self._copy.frames(self._frames)
        self._frames = []
        self._flush_rows()
        if self._events:
            payload = encode_events(self._events_from, len(self._events), self._events)
            self._copy.optional_payload(BlockKind.EVENTS, payload, self._events_from)
            self._events_from += len(self._events)
            self._events = []

    def _flush_rows(self) -> None:
        if self._rows:
            ticks, values = [row.tick for row in self._rows], [row.values for row in self._rows]
            payload = encode_telemetry(ticks, self._rows[0].names, values)
            self._copy.optional_payload(BlockKind.TELEMETRY, payload, ticks[0])
            self._rows = []


class _EndedError(Exception):
    """A step raised that ends the run."""

    def __init__(self, *, is_failure: bool) -> None:
        super().__init__(is_failure)
        self.is_failure = is_failure


def _raised(error: Exception, tick: int | None, encoded: bytes) -> dict[str, Any]:
    """The end of a run that a step ended by raising, as a recorder writes it. tick: of a step that no frame has."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:400].encode("utf-8", "replace").decode("utf-8")
    step = {} if tick is None else {"step": {"tick": tick, "inputs": decode_plain(encoded)}}
    return {"reason": "exception", "exception": text, **step}


def interval_of(tape: Tape) -> int:
    """The ticks from keyframe to keyframe of the new tape."""
    settings = tape.meta.get("settings")
    interval = settings.get("keyframe_interval_ticks") if isinstance(settings, dict) else None
    return interval if isinstance(interval, int) and interval > 0 else INTERVAL_TICKS


def _meta(tape: Tape, facts: dict[str, Any]) -> bytes:
    """The META of the new tape: that of the old one, but for what its frames and keyframes are."""
    kept = {key: value for key, value in tape.assembled.meta.items() if key not in _DROPPED}
    settings = kept.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    changed = {
        "keyframe_interval_ticks": interval_of(tape),
        "full_every": 1,
        "blame": "none",
        "keyframe_after_ms": None,
        "keyframe_interval_max_ticks": None,
        "seek_budget_ms": None,
    }
    plain = {key: value for key, value in {**settings, **changed}.items() if value is not None or key not in changed}
    plain.pop("hashes", None)
    here = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "environment": describe_environment()}
    made_here = {key: value for key, value in here.items() if key in kept}
    meta = {**kept, **made_here, "mode": "events", "settings": plain}
    return copied_meta(attrs.evolve(tape.assembled, meta=meta), shrunk=facts)
