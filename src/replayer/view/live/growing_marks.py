"""Read the marks of a tape while it grows: each second what was added, and all of it once the recording has ended."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from recorder.errors import CorruptError, RecordingError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.telemetry_block import TICK, Columns, decode_telemetry, join_telemetry
from recorder.format.segments.block_location import optional_blocks
from recorder.processes.worker_pipes import begin_as_worker
from replayer.tape.stored_events import stored_events
from replayer.tape.tape import Tape
from replayer.view.live.growing_tape import MARKS_NICENESS, RecordingWatch, be_nice, wait_for_first_ticks
from replayer.view.states.page_json import page_text
from replayer.view.worker.page_jobs import Indexed
from replayer.view.worker.tape_marks import event_marks, input_ticks, mark_parts

READ_S = 0.7


def follow_marks(parent: int, pipe: Connection, path: Path, delay_ticks: int) -> None:
    """Send what is added as Indexed, then all parts, and end. parent: the server's process id.

    delay_ticks: the marks of so many last ticks are left out until the recording ends.
    """
    begin_as_worker(parent)
    be_nice(MARKS_NICENESS)
    wait_for_first_ticks(path)
    try:
        with Tape(path) as tape:
            for part in _parts(tape, pipe, delay_ticks):
                pipe.send(Indexed(part))
    except (RecordingError, OSError) as error:
        pipe.send(Indexed({"marks_error": page_text(str(error))}))
    except (BrokenPipeError, EOFError):
        return  # The server has ended.


def _parts(tape: Tape, pipe: Connection, delay_ticks: int) -> Iterator[dict[str, Any]]:
    watch, marks = RecordingWatch(tape), GrowingMarks(tape, delay_ticks)
    watch.look()
    while not watch.has_ended:
        added = marks.added()
        if added:
            yield {"added": added}
        if pipe.poll(READ_S):
            pipe.recv()  # Nothing is sent: the server has closed it.
        watch.look()
    for part in mark_parts(tape, None):
        yield part()


class GrowingMarks:
    """What was added to a tape since the last call."""

    def __init__(self, tape: Tape, delay_ticks: int = 0) -> None:
        """delay_ticks: see follow_marks."""
        self._tape, self._delay_ticks = tape, delay_ticks
        self._keyframes = 0
        self._input_tick, self._event_tick = -1, -1
        self._covered_tick = -1  # The last tick whose events are on the tape, if it has any.
        self._telemetry_position = (-1, -1)
        self._held: Columns | None = None  # Rows of ticks that are not to be told yet.

    def added(self) -> dict[str, Any]:
        """The marks by part, as tape_marks has them; of keyframes all of them. Empty if nothing was added."""
        tape = self._tape
        found: dict[str, Any] = {}
        last = tape.last_tick - self._delay_ticks
        keyframes = sorted({place.tick for place in tape.keyframes if place.tick <= last})
        if len(keyframes) != self._keyframes:
            self._keyframes = len(keyframes)
            found["keyframe_ticks"] = np.array(keyframes, np.int64)
        if last > max(self._input_tick, tape.first_tick):
            ticks = input_ticks(tape, max(tape.first_tick, self._input_tick) + 1, last)
            self._input_tick = last
            if len(ticks):
                found["input_ticks"] = ticks
        # Events come in blocks, a second after their ticks: those after the last one that was seen are new.
        events = event_marks(tape, self._event_tick + 1, last)
        if events["event_ticks"]:
            self._event_tick = max(int(ticks[-1]) for ticks in events["event_ticks"].values())
            found |= events
        blocks = stored_events(tape.recording, self._event_tick + 1, last)
        covered = max((block.last_tick for block in blocks), default=self._event_tick)
        if covered > self._covered_tick:
            self._covered_tick = found["events_until"] = covered
        telemetry = self._telemetry(last)
        if telemetry is not None:
            found["telemetry"] = telemetry
        return found

    def _telemetry(self, last: int) -> dict[str, Any] | None:
        """The rows up to a tick that were not there at the last call."""
        blocks = self._tape.recording.believing_index(lambda: optional_blocks(self._tape.segments))
        tables = []
        for block in blocks:
            if block.entry.kind != BlockKind.TELEMETRY or block.position <= self._telemetry_position:
                continue
            self._telemetry_position = block.position
            try:
                tables.append(decode_telemetry(block.payload(), block.entry.offset))
            except (CorruptError, TornError):
                continue
        if not tables and self._held is None:
            return None
        table = join_telemetry([self._held, *tables] if self._held is not None else tables)
        count = int(np.searchsorted(table[TICK], last, "right"))
        self._held = {name: values[count:] for name, values in table.items()} if count < len(table[TICK]) else None
        return {name: values[:count] for name, values in table.items()} if count else None
