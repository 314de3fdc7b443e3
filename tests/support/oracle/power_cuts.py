"""Record a run on a disk in memory, cut the power at some moment, and compare the recovered tape with the promises."""

from __future__ import annotations

import random
import warnings

import attrs

from recorder import Recorder
from recorder.errors import RecordingError
from recorder.format.recording.assembly import Assembled, SegmentInput, assemble
from recorder.format.segments.segment_contents import NoTapeError
from sim import Field, Schema, State

from oracle.crash_images import Image, powerless
from oracle.fake_files import FailingFiles, MemoryFiles

TICKS = 40


@attrs.frozen
class Run:
    """A run and its failures.

    Attributes:
        sync: "block", or anything else for a run that is synced by its flushes only.
        flush_every: ticks from one flush to the next; 0 for none.
        split, keep: as for Recorder.
        fail_kind, fail_k: the call that fails once.
        seed: of the inputs.
    """

    sync: str = "block"
    flush_every: int = 0
    split: int | None = None
    keep: int | None = None
    fail_kind: str | None = None
    fail_k: int = 0
    seed: int = 1


RUNS = {
    "block": Run(sync="block"),
    "flushes": Run(sync="by flushes", flush_every=5),
    "split": Run(sync="block", split=700),
    "ring": Run(sync="block", keep=12),
    "failing sync": Run(sync="block", fail_kind="fdatasync", fail_k=6),
    "failing sync of a seal": Run(sync="by flushes", flush_every=11, split=1500, fail_kind="fdatasync", fail_k=4),
    "failing append": Run(sync="block", fail_kind="append", fail_k=9),
}


class Adder:
    """Adds its inputs to some numbers: enough of them that LZ4 does not shrink keyframes to nothing."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "i8"), Field("still", "i8", (30,))))

    def step(self, inputs: int) -> None:
        """Add, and write at some index."""
        self.state["sum"][...] += inputs
        self.state["still"][inputs % 30] ^= inputs * 7919


def record_run(run: Run) -> tuple[MemoryFiles, dict[int, tuple[int, int]], dict[int, int]]:
    """The files with their history; inputs and hash of each tick; the operation count at which each tick was durable.

    A tick counts as durable once the recorder knows it: after a flush that returned, or a sync of its block.
    """
    numbers = random.Random(run.seed)
    files = FailingFiles(run.fail_k, run.fail_kind)
    with pytest_free_patch(files):
        tape = Recorder(
            "memory",
            Adder(),
            keyframe_interval_ticks=7,
            full_every=3,
            durability="block",
            sync="block" if run.sync == "block" else "1000s",
            split=run.split,
            keep=run.keep,
            deterministic=run.sync != "block",
        )
    live = {0: (0, tape.simulation.state.hash())}
    synced: dict[int, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Some runs have a failing call; the warning about it does not matter here.
        for tick in range(1, TICKS + 1):
            inputs = numbers.randrange(1000)
            tape.step(inputs)
            live[tick] = (inputs, tape.simulation.state.hash())
            if (run.flush_every and tick % run.flush_every == 0) or (not run.flush_every and tick % 3 == 0):
                tape.flush()
                synced[len(files.history)] = tick
        tape.close()
    synced[len(files.history)] = TICKS
    return files, live, synced


class pytest_free_patch:  # noqa: N801 - a context, written as one
    """Make the Recorder created inside write to these files; without pytest, since a campaign uses it, too."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files

    def __enter__(self) -> None:
        import recorder.session.recorder as module

        self._before = module.TapeFiles
        module.TapeFiles = lambda _: self._files  # type: ignore[assignment,misc]

    def __exit__(self, *_: object) -> None:
        import recorder.session.recorder as module

        module.TapeFiles = self._before  # type: ignore[misc]


def check_cut(
    files: MemoryFiles,
    live: dict[int, tuple[int, int]],
    synced: dict[int, int],
    count: int,
    numbers: random.Random,
    *,
    is_ring: bool = False,
) -> str | None:
    """Cut the power during operation number count - 1 of the history; return the broken promise, if any."""
    before_sync = count > 1 and files.history[count - 1].kind == "fdatasync" and numbers.random() < 0.5
    count -= before_sync
    image = powerless(files.history, count, numbers, whole=before_sync)
    durable_tick = max((tick for operations, tick in synced.items() if operations <= count), default=-1)
    try:
        assembled = assembled_in(image)
    except NoTapeError as error:
        return None if durable_tick < 0 else f"nothing can be opened, tick {durable_tick} was durable: {error}"
    except RecordingError as error:
        return f"opening raised {type(error).__name__}: {error}"
    try:
        return _compare(assembled, live, durable_tick, is_ring=is_ring)
    except RecordingError as error:
        return f"reading raised {type(error).__name__}: {error}"


def assembled_in(image: Image) -> Assembled:
    """The recording on such a disk. Raises RecordingError, or NoTapeError if there is no tape."""
    sources = [
        SegmentInput(number, lambda offset, size, data=data: data[offset : offset + size], len(data))
        for number, data in sorted(image.segments.items())
    ]
    if 0 not in image.segments:
        raise NoTapeError("the first file is not there")
    return assemble(sources, image.journal)


def _compare(assembled: Assembled, live: dict[int, tuple[int, int]], durable_tick: int, *, is_ring: bool) -> str | None:
    recording = assembled.recording
    if assembled.status == "corrupt":
        return f"called corrupt: {assembled.damages}, missing segments {assembled.missing_segments}"
    if not recording.keyframes:
        return None if durable_tick < 0 else f"no keyframe, tick {durable_tick} was durable"
    for place in recording.keyframes:
        if recording.snapshot(place).hash() != live[place.tick][1]:
            return f"the keyframe of tick {place.tick} is not what was recorded"
    first = recording.first_tick
    missing = {tick for begin, end in recording.missing_ticks() for tick in range(begin, end + 1)}
    if missing and min(missing) <= durable_tick:
        return f"tick {min(missing)} is missing, tick {durable_tick} was durable"
    for tick in range(first + 1, recording.last_tick + 1):
        if tick in missing:
            continue  # Torn, with a later block that the disk happened to keep.
        frame = recording.frame(tick)
        if (frame.inputs, frame.state_hash) != live[tick]:
            return f"tick {tick} is not what was recorded"
    if recording.last_tick < durable_tick:
        return f"ends at tick {recording.last_tick}, tick {durable_tick} was durable"
    return None if is_ring or first == 0 else f"begins at tick {first}"
