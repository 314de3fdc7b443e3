"""Cut a file, and flip its bits, one fault at a time; look at what its reader then gives.

Each damaged copy lies in a folder of its own: a library that keeps a file open after an error never meets it again.
"""

from __future__ import annotations

import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import attrs
import numpy as np
from forked import Casualty, run_forked
from history import Row, Truth
from peer import Peer, Reading, observe

TIMEOUT_S = 10.0
WRITE_TIMEOUT_S = 120.0
MEMORY = Path("/dev/shm")  # Used where there is one, to spare the disk hundreds of thousands of small files.

Files = dict[str, bytes]
T = TypeVar("T")


@attrs.frozen
class Outcome:
    """What reading one damaged file gave.

    Attributes:
        opened: the library opened it.
        raised: it raised, at the latest when all was read.
        silent: nothing was raised and nothing reported.
        equal: all data is there, and right.
        wrong: something was given that was never written, or twice.
        needed: so many ticks lie wholly before the cut.
        has_needed: all of them are there.
        row_share: so much of all ticks was given, and right.
    """

    opened: bool
    raised: bool
    silent: bool
    equal: bool
    wrong: bool
    needed: int
    has_needed: bool
    row_share: float


@attrs.frozen
class CutCounts:
    """What came of the cuts of one file.

    Attributes:
        file_bytes: of the whole file.
        every: bytes from one cut to the next.
        cuts: how many.
        opened: opened without an error.
        with_ticks: those before which at least one whole tick lies.
        complete: those of with_ticks after which all ticks were read that lie wholly before the cut.
        row_percent: ticks that could be read, mean over the cuts.
        raised: some exception.
        short_in_silence: fewer ticks or states than were written, all of them right, and nothing said.
        wrong_in_silence: something that was never written, and nothing said.
        casualties: the process crashed or hung.
    """

    file_bytes: int
    every: int
    cuts: int
    opened: int
    with_ticks: int
    complete: int
    row_percent: float
    raised: int
    short_in_silence: int
    wrong_in_silence: int
    casualties: int


@attrs.frozen
class FlipCounts:
    """What came of the flipped bits of one file.

    Attributes:
        file_bits: of the whole file.
        flips: how many were tried, each in an otherwise whole file.
        detected: raised or reported.
        harmless: all data was read as it was written, nothing was said.
        wrong_in_silence: other data than was written, and nothing said.
        missing_in_silence: those of wrong_in_silence where all that was given is right, but not all was given.
        crashed: the process died.
        hung: no answer in time.
        row_percent: ticks that could still be read, mean over the flips that were detected.
    """

    file_bits: int
    flips: int
    detected: int
    harmless: int
    wrong_in_silence: int
    missing_in_silence: int
    crashed: int
    hung: int
    row_percent: float


def write_files(peer: Peer, truth: Truth) -> Files:
    """All files that a peer makes of a run, by their paths; proved to be read back as they should."""

    def work(folder: Path, _: int) -> Iterator[tuple[Files, Reading]]:
        sink = peer.create(folder, truth.state_every)
        for frame in truth.frames:
            sink.put(frame)
        sink.close()
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        yield files, observe(peer, folder, [tick for tick, _ in truth.states])

    (made,) = _in_folder(work, 1, WRITE_TIMEOUT_S)
    assert not isinstance(made, Casualty), f"{peer.name}: {made} while its file was written"
    files, reading = made
    assert judge(reading, truth, set()).equal, f"{peer.name}: a whole file is not read back: {reading.error}"
    assert reading.is_silent, f"{peer.name}: a whole file is said to be damaged: {reading.error}, {reading.reports}"
    return files


def judge(reading: Reading, truth: Truth, needed: set[Row]) -> Outcome:
    """Compare what was read with the truth; the order does not count."""
    rows, states = set(reading.rows), set(reading.states)
    true_rows, true_states = set(truth.rows), set(truth.states)
    doubled = len(rows) != len(reading.rows) or len(states) != len(reading.states)
    return Outcome(
        opened=reading.opened,
        raised=reading.error is not None,
        silent=reading.is_silent,
        equal=not doubled and rows == true_rows and states == true_states,
        wrong=doubled or not rows <= true_rows or not states <= true_states,
        needed=len(needed),
        has_needed=needed <= rows,
        row_share=len(rows & true_rows) / len(true_rows),
    )


def measure_cuts(peer: Peer, files: Files, truth: Truth, cuts_max: int) -> CutCounts:
    """Cut the file before every byte, or every k-th so that there are at most cuts_max."""
    target, data = _find_target(peer, files)
    ends = peer.find_row_ends(data, truth.frames)
    every = -(-len(data) // cuts_max)
    cuts = range(0, len(data), every)

    def cases(start: int) -> Iterator[tuple[bytes, set[Row]]]:
        for cut in cuts[start:]:
            yield data[:cut], {frame.row for frame in truth.frames if ends[frame.tick] <= cut}

    found = _in_folder(_reader(peer, files, target, truth, cases), len(cuts), TIMEOUT_S)
    read = [outcome for outcome in found if isinstance(outcome, Outcome)]
    return CutCounts(
        file_bytes=len(data),
        every=every,
        cuts=len(cuts),
        opened=sum(outcome.opened for outcome in read),
        with_ticks=sum(cut >= min(ends.values()) for cut in cuts),
        complete=sum(outcome.has_needed and outcome.needed > 0 for outcome in read),
        row_percent=100 * sum(outcome.row_share for outcome in read) / len(cuts),
        raised=sum(outcome.raised for outcome in read),
        short_in_silence=sum(outcome.silent and not outcome.equal and not outcome.wrong for outcome in read),
        wrong_in_silence=sum(outcome.silent and outcome.wrong for outcome in read),
        casualties=len(found) - len(read),
    )


def measure_flips(peer: Peer, files: Files, truth: Truth, flips_max: int, seed: int) -> FlipCounts:
    """Flip each bit, or a sample of flips_max of them, drawn by the seed: the same for all rows of one library."""
    target, data = _find_target(peer, files)
    bits = choose_bits(len(data) * 8, flips_max, [seed, zlib.crc32(peer.library.encode())])

    def cases(start: int) -> Iterator[tuple[bytes, set[Row]]]:
        for bit in bits[start:]:
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            yield bytes(damaged), set()

    found = _in_folder(_reader(peer, files, target, truth, cases), len(bits), TIMEOUT_S)
    read = [outcome for outcome in found if isinstance(outcome, Outcome)]
    loud = [outcome for outcome in read if not outcome.silent]
    crashed = sum(outcome == Casualty("crash") for outcome in found)
    return FlipCounts(
        file_bits=len(data) * 8,
        flips=len(bits),
        detected=len(loud),
        harmless=sum(outcome.silent and outcome.equal for outcome in read),
        wrong_in_silence=sum(outcome.silent and not outcome.equal for outcome in read),
        missing_in_silence=sum(outcome.silent and not outcome.equal and not outcome.wrong for outcome in read),
        crashed=crashed,
        hung=len(found) - len(read) - crashed,
        row_percent=100 * sum(outcome.row_share for outcome in loud) / max(1, len(loud)),
    )


def choose_bits(bit_count: int, flips_max: int, seed: Sequence[int]) -> list[int]:
    """All bits, or so many of them, ascending."""
    if bit_count <= flips_max:
        return list(range(bit_count))
    chosen: list[int] = np.random.default_rng(seed).choice(bit_count, flips_max, replace=False).tolist()
    return sorted(chosen)


def _in_folder(work: Callable[[Path, int], Iterator[T]], count: int, timeout_s: float) -> list[T | Casualty]:
    """All results of work(folder, start). The folder is made here, because a process that crashes leaves it behind."""
    parent = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as name:
        return list(run_forked(lambda start: work(Path(name), start), count, timeout_s))


def _find_target(peer: Peer, files: Files) -> tuple[str, bytes]:
    target = str(peer.find_file(Path()))
    return target, files[target]


def _reader(
    peer: Peer, files: Files, target: str, truth: Truth, cases: Callable[[int], Iterable[tuple[bytes, set[Row]]]]
) -> Callable[[Path, int], Iterator[Outcome]]:
    """The work of one process: write a damaged copy, read it, judge what came, take it away."""
    state_ticks = [tick for tick, _ in truth.states]

    def work(scratch: Path, start: int) -> Iterator[Outcome]:
        for number, (damaged, needed) in enumerate(cases(start), start):
            folder = scratch / str(number)
            for path, content in (files | {target: damaged}).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
            yield judge(observe(peer, folder, state_ticks), truth, needed)
            shutil.rmtree(folder)

    return work
