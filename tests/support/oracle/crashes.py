"""Recordings in memory that are killed at every operation: the content of the disk and the journal at each moment.

A moment is kept after each operation that changed a file, and in the middle of each append, together with the last tick
for which ``step`` had returned by then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from recorder import Recorder
from recorder.reopen.resume import resume_in
from recorder.storage.file_names import journal_path, segment_path
from sim.kernel.simulation import as_simulation

from oracle.crash_images import Image
from oracle.fake_files import MemoryFiles, use_files
from oracle.live_runs import Live, look_at


@attrs.define
class Moment:
    """The disk at the moment of a kill.

    Attributes:
        image: its content.
        acknowledged: the last tick for which step had returned.
        label: the operation under way.
    """

    image: Image
    acknowledged: int
    label: str


class Watch:
    """Keeps the moments of a session on some files."""

    def __init__(self, files: MemoryFiles, acknowledged: int = 0) -> None:
        self.files = files
        self.tape: Recorder | None = None
        self.moments: list[Moment] = []
        self._first = acknowledged
        files.after = self._look

    def _look(self) -> None:
        # In this order: an acknowledged tick is in the journal by then.
        acknowledged = self.tape.tick if self.tape is not None else self._first
        operation = self.files.history[-1]
        label = f"{len(self.moments)} {operation.kind} {operation.segment}"
        whole_moment = self.now(acknowledged, label)
        segments, journal = whole_moment.image.segments, whole_moment.image.journal
        if operation.kind == "append" and not operation.new:
            whole = segments[operation.segment]
            for share in (0.02, 0.3, 0.95):  # Inside the first header, inside the data, inside the last bytes.
                kept = len(whole) - len(operation.data) + int(len(operation.data) * share)
                torn = segments | {operation.segment: whole[:kept]}
                image = Image(torn, journal, {}, list(self.files.aside))
                self.moments.append(Moment(image, acknowledged, f"{label} torn at {share}"))
        self.moments.append(whole_moment)

    def now(self, acknowledged: int, label: str = "now") -> Moment:
        """The disk as it is now."""
        journal = bytes(self.files.journal) if self.files.journal is not None else b""
        segments = {number: bytes(data) for number, data in list(self.files.segments.items())}
        return Moment(Image(segments, journal, {}, list(self.files.aside)), acknowledged, label)


def live_run(make: Callable[[], Any], inputs: Callable[[int], Any], ticks: int) -> Live:
    """The states of a run that is neither interrupted nor recorded."""
    simulation = as_simulation(make())
    live = {0: look_at(simulation.state)}
    for tick in range(1, ticks + 1):
        simulation.step(inputs(tick))
        live[tick] = look_at(simulation.state)
    return live


def record_until(tape: Recorder, inputs: Callable[[int], Any], tick: int, flush_every: int) -> None:
    """Continue to a tick, with a block on the disk every few ticks."""
    while tape.tick < tick:
        tape.step(inputs(tape.tick + 1))
        if tape.tick % flush_every == 0:
            tape.flush()


def watch_recording(
    monkeypatch: Any, make: Callable[[], Any], inputs: Callable[[int], Any], ticks: int, **settings: Any
) -> list[Moment]:
    """All moments of a recording, from the creation of its first file to its seal."""
    watch = Watch(use_files(monkeypatch, MemoryFiles()))
    with Recorder("memory", make(), **settings) as tape:
        watch.tape = tape
        record_until(tape, inputs, ticks, 3)
    return watch.moments


def watch_resuming(moment: Moment, make: Callable[[], Any]) -> tuple[Watch, Recorder]:
    """Resume from a moment, and keep the moments of the resumed session."""
    watch = Watch(moment.image.files(), moment.acknowledged)
    watch.tape = resume_in(watch.files, "memory", make())
    return watch, watch.tape


def lay_out(files: MemoryFiles, folder: Path) -> Path:
    """Write files from memory into an empty folder for tests that read from a disk; return the tape's path."""
    path = folder / "run.tape"
    for old in folder.iterdir():
        old.unlink()
    for number, data in files.segments.items():
        segment_path(path, number).write_bytes(data)
    if files.journal is not None:
        journal_path(path).write_bytes(files.journal)
    return path
