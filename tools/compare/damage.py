"""Cut a file, and flip its bits, one fault at a time; judge what its reader returns.

Each damaged copy is in a separate folder: a library that keeps a file open after an error never reopens it.
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
MEMORY = Path("/dev/shm")  # Used if it exists, to spare the disk hundreds of thousands of small files.

Files = dict[str, bytes]
T = TypeVar("T")


@attrs.frozen
class Outcome:
    """The result of reading one damaged file.

    Attributes:
        opened: the library opened it.
        raised: it raised, on opening or during reading.
        silent: nothing was raised and nothing reported.
        equal: all data was returned, and correct.
        wrong: some data was returned that was never written, or twice.
        needed: number of ticks that are completely before the cut.
        has_needed: all of them were returned.
        row_share: share of all ticks that was returned, and correct.
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
    """The results of the cuts of one file.

    Attributes:
        file_bytes: size of the complete file.
        every: bytes from one cut to the next.
        cuts: number of cuts.
        opened: opened without an error.
        with_ticks: cuts with at least one complete tick before them.
        complete: those of with_ticks after which all ticks that are completely before the cut were read.
        row_percent: ticks that could be read, mean over the cuts.
        raised: some exception.
        short_in_silence: fewer ticks or states than were written, all of them correct, and nothing reported.
        wrong_in_silence: data that was never written, and nothing reported.
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
    """The results of the flipped bits of one file.

    Attributes:
        file_bits: size of the complete file.
        flips: number of flips, each in an otherwise intact file.
        detected: raised or reported.
        harmless: all data was read as it was written, and nothing was reported.
        wrong_in_silence: data differs from what was written, and nothing was reported.
        missing_in_silence: those of wrong_in_silence where the returned data is correct, but incomplete.
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
    """Return all files that a peer makes of a run, by their paths; checks that they are read back correctly."""

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
    assert judge(reading, truth, set()).equal, (
        f"{peer.name}: expected the intact file to be read back, got {reading.error}"
    )
    assert reading.is_silent, f"{peer.name}: an intact file is reported as damaged: {reading.error}, {reading.reports}"
    return files


def judge(reading: Reading, truth: Truth, needed: set[Row]) -> Outcome:
    """Compare what was read with what was written; the order does not count."""
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
    """Cut the file before every byte, or before every k-th to stay within cuts_max."""
    target, data = _find_target(peer, files)
    ends = peer.find_row_ends(data, truth.frames)
    every = -(-len(data) // cuts_max)
    cuts = range(0, len(data), every)

    def cases(start: int) -> Iterator[tuple[bytes, set[Row]]]:
        for cut in cuts[start:]:
            yield data[:cut], {frame.row for frame in truth.frames if ends[frame.tick] <= cut}

    results = _in_folder(_reader(peer, files, target, truth, cases), len(cuts), TIMEOUT_S)
    read = [outcome for outcome in results if isinstance(outcome, Outcome)]
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
        casualties=len(results) - len(read),
    )


def measure_flips(peer: Peer, files: Files, truth: Truth, flips_max: int, seed: int) -> FlipCounts:
    """Flip each bit, or a sample of flips_max bits drawn by the seed. All rows of one library have the same sample."""
    target, data = _find_target(peer, files)
    bits = choose_bits(len(data) * 8, flips_max, [seed, zlib.crc32(peer.library.encode())])

    def cases(start: int) -> Iterator[tuple[bytes, set[Row]]]:
        for bit in bits[start:]:
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            yield bytes(damaged), set()

    results = _in_folder(_reader(peer, files, target, truth, cases), len(bits), TIMEOUT_S)
    read = [outcome for outcome in results if isinstance(outcome, Outcome)]
    loud = [outcome for outcome in read if not outcome.silent]
    crashed = sum(outcome == Casualty("crash") for outcome in results)
    return FlipCounts(
        file_bits=len(data) * 8,
        flips=len(bits),
        detected=len(loud),
        harmless=sum(outcome.silent and outcome.equal for outcome in read),
        wrong_in_silence=sum(outcome.silent and not outcome.equal for outcome in read),
        missing_in_silence=sum(outcome.silent and not outcome.equal and not outcome.wrong for outcome in read),
        crashed=crashed,
        hung=len(results) - len(read) - crashed,
        row_percent=100 * sum(outcome.row_share for outcome in loud) / max(1, len(loud)),
    )


def choose_bits(bit_count: int, flips_max: int, seed: Sequence[int]) -> list[int]:
    """All bits, or flips_max of them, ascending."""
    if bit_count <= flips_max:
        return list(range(bit_count))
    chosen: list[int] = np.random.default_rng(seed).choice(bit_count, flips_max, replace=False).tolist()
    return sorted(chosen)


def _in_folder(work: Callable[[Path, int], Iterator[T]], count: int, timeout_s: float) -> list[T | Casualty]:
    """Return all results of work(folder, start). The folder is made here: a process that crashes does not remove it."""
    parent = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as name:
        return list(run_forked(lambda start: work(Path(name), start), count, timeout_s))


def _find_target(peer: Peer, files: Files) -> tuple[str, bytes]:
    target = str(peer.find_file(Path()))
    return target, files[target]


def _reader(
    peer: Peer, files: Files, target: str, truth: Truth, cases: Callable[[int], Iterable[tuple[bytes, set[Row]]]]
) -> Callable[[Path, int], Iterator[Outcome]]:
    """The work of one process: write a damaged copy, read it, judge the result, remove the copy."""
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
