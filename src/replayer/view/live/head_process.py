"""The process that follows the head of a tape for the page: it reads new frames, steps, and sends what is shown.

It reads the tape's files and its journal, as any reader does, so the process that records never waits for it. Frames that
come faster than they are shown are skipped on the way to the page, never collected.

Invariants:
    1. What it sends of a tick is shown of a state whose hash equals the recorded one.
    2. It never holds more than one tick for the page: the newest that it has reached.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import DesyncError, RecordingError
from recorder.factory_spec import load_factory
from recorder.processes.worker_pipes import begin_as_worker
from replayer.report.tape_facts import tape_facts
from replayer.tape.tape import Tape
from replayer.view.live.growing_tape import HEAD_NICENESS, POLL_S, RecordingWatch, be_nice, wait_for_first_ticks
from replayer.view.live.state_stream import StreamedState, change_between, streamed_state
from replayer.view.states.figures import figures_of
from replayer.view.states.frame_encoding import EncodedTick
from replayer.view.states.page_json import page_json, page_text
from replayer.view.worker.finding_cursors import make_cursor
from replayer.view.worker.page_jobs import ViewSelection
from replayer.view.worker.view_cursor import ViewCursor
from sim.kernel.state import Snapshot

EACH_TICKS = 12  # Up to so many new ticks are visited one by one, for their figures; of more, the last.
SHOWN_S = 1 / 60  # A page draws so often at most.
PATIENCE_S = 0.05  # A walk to the head that takes longer is shown where it has come to.


@attrs.frozen
class WatchJob:
    """To the process: what the pages look at that follow the head; None if none does."""

    look: ViewSelection | None


@attrs.frozen
class StreamJob:
    """To the process: stream the states, or do not any more. wants_state: one that is complete is wanted, too."""

    streams: bool
    wants_state: bool


@attrs.frozen
class HeadTick:
    """From the process: the newest tick that was reached, with what is known of it and of those before it, by tick.

    Attributes:
        figures: of the curves that are looked at.
        rows, events: telemetry, and the numbers of events by kind, which may not be on the tape yet.
    """

    tick: int
    encoded: EncodedTick
    figures: Mapping[int, Mapping[str, float]]
    rows: Mapping[int, Mapping[str, int | float]]
    events: Mapping[int, Mapping[str, int]]


@attrs.frozen
class Grown:
    """From the process: the first and the last tick of the tape."""

    first: int
    last: int


@attrs.frozen
class RecordingState:
    """From the process: what has changed in the facts of the tape, such as the end of the recording."""

    facts: dict[str, Any]


@attrs.frozen
class HeadTrouble:
    """From the process: why the head cannot be shown. tick: where it went wrong, if that is known."""

    tick: int | None
    text: str


def follow_head(parent: int, pipe: Connection, path: Path, sim: str | None, delay_ticks: int) -> None:
    """Run the process until the recording ends, or the server closes the pipe. parent: the server's process id.

    delay_ticks: this many ticks before the last one stands for the head, until the recording ends.
    """
    begin_as_worker(parent)
    be_nice(HEAD_NICENESS)
    wait_for_first_ticks(path)
    try:
        factory = load_factory(sim) if sim is not None else None
        process = _HeadProcess(pipe, make_cursor(path, factory, None, is_live=True), delay_ticks)
    except (RecordingError, OSError, ValueError, LookupError):
        return  # The process that answers the pages says the same.
    try:
        process.run()
    except (EOFError, BrokenPipeError):
        return  # The server has ended.


class _HeadProcess:
    def __init__(self, pipe: Connection, cursor: ViewCursor, delay_ticks: int) -> None:
        self._pipe, self._cursor, self._delay_ticks = pipe, cursor, delay_ticks
        self._tape: Tape = cursor.run.tape
        self._watch = RecordingWatch(cursor.run.tape)
        self._look: ViewSelection | None = None
        self._shown: tuple[int, ViewSelection] | None = None
        self._told = Grown(-1, -1)
        self._rows: dict[int, Mapping[str, int | float]] = {}  # Of ticks that were visited and not sent yet.
        self._events: dict[int, Mapping[str, int]] = {}
        self._streams = StreamJob(streams=False, wants_state=False)
        self._streamed: StreamedState | None = None  # What the programs have that get the stream.
        self._bad_tick: int | None = None  # From there to the next keyframe, the states differ from the recorded ones.

    def run(self) -> None:
        """Follow until the tape is sealed."""
        while True:
            begun_s = time.monotonic()
            self._receive()
            self._watch.look()
            self._tell_growth()
            if self._is_watched:
                self._show(self._look or ViewSelection())
            while self._watch.has_ended and self._streams.streams and self._is_behind():
                self._show(self._look or ViewSelection())
            if self._watch.has_news:
                self._pipe.send(RecordingState(state_facts(self._tape, self._watch)))
            if self._watch.has_ended:
                return
            spent_s = time.monotonic() - begun_s
            self._pipe.poll(max(0.001, (SHOWN_S if self._is_watched else POLL_S) - spent_s))

    @property
    def _is_watched(self) -> bool:
        return self._look is not None or self._streams.streams

    @property
    def _head_tick(self) -> int:
        last = self._tape.last_tick
        return last if self._watch.has_ended else max(self._tape.first_tick, last - self._delay_ticks)

    def _is_behind(self) -> bool:
        """Return True if there are ticks that can still be streamed."""
        here = self._cursor.tick
        return self._bad_tick is None and here is not None and here < self._tape.last_tick

    def _receive(self) -> None:
        while self._pipe.poll(0):
            match self._pipe.recv():
                case WatchJob(look):
                    self._look = look
                case StreamJob() as job:
                    self._streams = job
                    if not job.streams:
                        self._streamed = None
                    self._shown = None  # The tick where it stands is streamed, too.

    def _tell_growth(self) -> None:
        grown = Grown(self._tape.first_tick, self._head_tick)
        if grown != self._told:
            self._told = grown
            self._cursor.follow_files()
            self._pipe.send(grown)

    def _show(self, look: ViewSelection) -> None:
        last = self._head_tick
        if self._shown == (last, look):
            return
        try:
            figures = self._walk(last, look)
            tick = self._cursor.tick if self._cursor.problem is None else last
            if tick is None or self._shown == (tick, look):
                return
            snapshot, shown = self._cursor.state(tick)
            self._stream(shown, snapshot)
            if self._look is None:
                self._shown = tick, look
                return
            encoded = self._cursor.encode(snapshot, shown, look)
        except (EOFError, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - the user's simulation may raise anything
            self._failed(error, last, look)
            return
        self._shown = tick, look
        self._pipe.send(HeadTick(tick, encoded, figures, self._rows, self._events))
        self._rows, self._events = {}, {}

    def _walk(self, last: int, look: ViewSelection) -> dict[int, dict[str, float]]:
        """Go to the last tick, as far as that is possible in a moment; returns figures of the ticks on the way."""
        cursor, deadline_s = self._cursor, time.monotonic() + PATIENCE_S
        if cursor.problem is not None:
            return {}
        if self._bad_tick is not None and cursor.keyframe_before(last) <= self._bad_tick:
            return {}
        self._bad_tick = None
        figures: dict[int, dict[str, float]] = {}
        here = cursor.tick
        is_near = here is not None and here < last <= here + EACH_TICKS
        wants_each = bool(look.curves) or self._streams.streams or cursor.has_outputs
        each = here is not None and is_near and wants_each
        for tick in range(here + 1, last + 1) if each and here is not None else [last]:
            arrived = cursor.walk(tick, lambda: time.monotonic() > deadline_s)
            if self._streams.streams and cursor.tick is not None:
                self._stream(cursor.tick, cursor.run.state.snapshot())
            if cursor.tick is not None and look.curves:
                figures[cursor.tick] = figures_of(cursor.run.state.snapshot(), look.curves)
            if cursor.tick is not None and self._look is not None:
                self._note_outputs(cursor.tick)
            if not arrived or time.monotonic() > deadline_s:
                break
        return figures

    def _note_outputs(self, tick: int) -> None:
        outputs = self._cursor.outputs()
        if outputs is None:
            return
        if outputs.figures:
            self._rows[tick] = outputs.figures
        if outputs.events:
            self._events[tick] = Counter(page_text(str(event.get("kind", ""))) for event in outputs.events)

    def _stream(self, tick: int, snapshot: Snapshot) -> None:
        """Send what has changed since the state that was streamed last, and the complete state if a program waits for it."""
        if not self._streams.streams:
            return
        before = self._streamed
        if before is None or tick > before.tick:
            self._streamed = streamed_state(tick, snapshot)
            if before is not None:
                self._pipe.send(change_between(before, self._streamed))
        if self._streams.wants_state:
            self._streams = StreamJob(streams=True, wants_state=False)
            self._pipe.send(self._streamed)

    def _failed(self, error: Exception, last: int, look: ViewSelection) -> None:
        """Tell it once, and go on at the next keyframe."""
        tick = error.tick if isinstance(error, DesyncError) else last
        if self._bad_tick is None:
            self._pipe.send(HeadTrouble(tick, self._cursor.trouble_text(error)))
        self._bad_tick, self._shown = last, (last, look)
        self._rows, self._events = {}, {}


def state_facts(tape: Tape, watch: RecordingWatch) -> dict[str, Any]:
    """The facts of a tape that change while it is recorded, and what becomes of its recording."""
    facts = tape_facts(tape, check=False, with_episodes=False)
    told = {key: page_json(facts[key]) for key in ("status", "sealed", "bytes", "outcome")}
    return {**told, "being_written": watch.is_recording, "live": watch.word}
