"""Programs whose calls are recorded, and what they acknowledged: recordings of all kinds, resumed, repaired, written out.

Every program runs in a folder and reports what is durable by marks:
    ("durable", tick)    a flush has returned: all ticks up to this one
    ("stepped", tick)    step has returned
    ("resumed", tick)    resume has returned; later ticks belong to the next timeline
    ("sealing", tick)    close has begun
    ("sealed", tick)     close has returned
    ("removed", tick)    another program has removed the tape: what was durable is gone until the next flush
    ("whole", name)      the tape of this name is complete: written out or repaired
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder import Recorder, resume
from recorder.writer import journal

from disk.file_calls import Calls
from disk.power_model import Disk
from oracle.power_cuts import Adder

TAPE = "run.tape"
BORDER = "the recorded calls begin and end here"  # No such file is there; strace sees the question.
Program = Callable[[Path, Calls], None]
Live = dict[int, tuple[int, int]]  # Inputs and hash of each tick.


def inputs_at(tick: int, timeline: int) -> int:
    """The inputs of a tick: a resumed run gets others than the one that was cut off."""
    return (tick * 2_654_435_761 + timeline * 40_503) % 1_000_003


@functools.cache
def live_run(begins: tuple[tuple[int, int], ...], last_tick: int) -> Live:
    """The truth, by a plain loop. begins: timelines, each with its first tick."""
    world, timeline = Adder(), 0
    live: Live = {0: (0, world.state.hash())}
    for tick in range(1, last_tick + 1):
        timeline = max([timeline, *(line for line, first in begins if tick >= first)])
        inputs = inputs_at(tick, timeline)
        world.step(inputs)
        live[tick] = (inputs, world.state.hash())
    return live


@attrs.frozen
class Recording:
    """A recording.

    Attributes:
        options: of the Recorder.
        ticks: steps.
        flush_every: ticks from one flush to the next.
        timeline: of the inputs; above 0 the tape is resumed.
        closes: False leaves the tape unsealed, as at a kill.
        removed_at: the tick at which another program removes the tape.
        written_out_at: the tick at which the tape is written out.
        area_bytes: of the journal, small so that its areas take turns.
    """

    options: Mapping[str, Any]
    ticks: int = 12
    flush_every: int = 4
    timeline: int = 0
    closes: bool = True
    removed_at: int = -1
    written_out_at: int = -1
    area_bytes: int = 512

    def __call__(self, folder: Path, calls: Calls) -> None:
        """Record into the folder."""
        with quiet(self.area_bytes):
            if self.timeline:
                tape = resume(folder / TAPE, Adder())
                calls.mark(("resumed", tape.tick))
            else:
                tape = Recorder(
                    folder / TAPE, Adder(), **{"trial_ms": 0.0, "keyframe_interval_ticks": 5, **self.options}
                )
            last = tape.tick + self.ticks
            for tick in range(tape.tick + 1, last + 1):
                if tick == self.removed_at:
                    calls.mark(("removed", tick))
                    (folder / TAPE).unlink()
                tape.step(inputs_at(tick, self.timeline))
                calls.mark(("stepped", tick))
                if tick % self.flush_every == 0:
                    tape.flush()
                    calls.mark(("durable", tick))
                if tick == self.written_out_at:
                    tape.write_out(folder / "saved.tape")
                    calls.mark(("whole", "saved.tape"))
            calls.mark(("sealing", last))
            if self.closes:
                tape.close()
                calls.mark(("sealed", last))
            else:
                tape._abandon.detach()
                tape._writer.stop()


@contextlib.contextmanager
def quiet(area_bytes: int = journal.AREA_BYTES) -> Iterator[None]:
    """Without warnings about what another program did to the tape, with a journal of small areas."""
    before, journal.AREA_BYTES = journal.AREA_BYTES, area_bytes
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        journal.AREA_BYTES = before


SLOW = {"sync": "1000s"}  # Syncs come by flushes only, so that much is at stake.
RECORDINGS: dict[str, Recording] = {
    "journal": Recording(SLOW),
    "without journal": Recording({**SLOW, "durability": "block"}),
    "nothing forced": Recording({"durability": "none", "sync": "never"}, flush_every=1000),
    "each block": Recording({"sync": "block"}, ticks=8),
    "split": Recording({**SLOW, "split": 1100}, ticks=16),
    "ring": Recording({**SLOW, "keep": 8, "keyframe_interval_ticks": 2, "full_every": 2}, ticks=24, flush_every=7),
    "ring in one file": Recording(
        {**SLOW, "keep": 8, "keyframe_interval_ticks": 20, "full_every": 1}, ticks=56, flush_every=25
    ),
    "deterministic": Recording({**SLOW, "deterministic": True}),
    "removed from outside": Recording(SLOW, removed_at=6),
    "written out": Recording({**SLOW, "keep": 30}, written_out_at=9),
}


SMALL: dict[str, Recording] = {  # So small that all states can be tried.
    "small": Recording({**SLOW, "durability": "block"}, ticks=6, flush_every=3),
    "small, each block": Recording({"durability": "block", "sync": "block"}, ticks=3, flush_every=1000),
    "small, in two files": Recording({**SLOW, "durability": "block", "split": 1000}, ticks=6, flush_every=3),
    "small, with a journal": Recording(SLOW, ticks=3, flush_every=2),
}


def recorded(program: Program, folder: Path) -> Calls:
    """Run a program in a folder, and return its calls."""
    folder.mkdir(parents=True, exist_ok=True)
    calls = Calls(folder)
    (folder / BORDER).exists()
    with calls.recording():
        program(folder, calls)
    (folder / BORDER).exists()
    disk = Disk(calls.start)
    for call in calls.calls:
        disk.apply(call)
    there = {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
    assert disk.after_kill().files == there, "a change of a file was not recorded"
    return calls
