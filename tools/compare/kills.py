"""Kill a process while it records, at random times; count which acknowledged ticks can still be read.

A tick is acknowledged when the library's call has returned: the process then writes its number into a pipe. Only the
process dies: what it handed to the system reaches the disk. A power cut would cost every format more.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import statistics
import struct
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
from forked import Casualty, run_forked
from history import run_history, take_truth
from peer import Peer, Reading, observe

STATE_EVERY = 300  # Our own default.
START_TIMEOUT_S = 120.0
READ_TIMEOUT_S = 120.0
READ_BYTES = 1 << 16
POLL_S = 0.005  # Without it every tick would wake this process, and the recording process would run at half its speed.
TICK = struct.Struct("<Q")


@attrs.frozen
class Kill:
    """One killed process.

    Attributes:
        after_s: seconds from its first tick to the kill.
        acknowledged: number of acknowledged ticks.
        kept: ticks from the first one on, without a gap, that could be read afterwards, at most acknowledged.
        opened: the file opened in the plain way, even if not all of it could then be read.
        rescued: it opened in the documentation's alternative way; None if that was not needed or there is none.
        wrong: data was read that was never written, and nothing was reported.
        error: the exception of the plain way, as text.
    """

    after_s: float
    acknowledged: int
    kept: int
    opened: bool
    rescued: bool | None
    wrong: bool
    error: str | None


@attrs.frozen
class KillCounts:
    """The results of all kills of one peer.

    Attributes:
        kills: one entry for each killed process.
        opened: files that opened in the plain way.
        rescued: files that opened only in the alternative way.
        rescue_how: the alternative way.
        acknowledged_median: ticks.
        lost_min: acknowledged ticks that could not be read, by the better of the two ways.
        lost_median: median of these ticks.
        lost_max: maximum of these ticks.
        wrong: files from which data was read that was never written.
    """

    kills: list[Kill]
    opened: int
    rescued: int
    rescue_how: str
    acknowledged_median: float
    lost_min: int
    lost_median: float
    lost_max: int
    wrong: int


@attrs.frozen
class _ReadBack:
    """The result of one way of reading: if it opened, how many ticks without a gap it gave, and if some were wrong."""

    opened: bool
    kept: int
    wrong: bool
    error: str | None


def measure_kills(peer: Peer, count: int, after_s: tuple[float, float], seed: int) -> KillCounts:
    """Kill `count` processes. after_s: range of the seconds from the first tick of a process to its kill."""
    random = np.random.default_rng([seed, zlib.crc32(peer.library.encode())])
    kills = [_kill_once(peer, float(seconds), seed) for seconds in random.uniform(*after_s, count)]
    lost = [kill.acknowledged - kill.kept for kill in kills]
    return KillCounts(
        kills=kills,
        opened=sum(kill.opened for kill in kills),
        rescued=sum(bool(kill.rescued) for kill in kills),
        rescue_how=peer.rescue_how,
        acknowledged_median=statistics.median(kill.acknowledged for kill in kills),
        lost_min=min(lost),
        lost_median=statistics.median(lost),
        lost_max=max(lost),
        wrong=sum(kill.wrong for kill in kills),
    )


def _kill_once(peer: Peer, after_s: float, seed: int) -> Kill:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        acknowledged = _write_and_kill(peer, folder, after_s, seed)
        plain = _read_back(peer, folder, acknowledged, seed, rescue=False)
        if plain.opened or not peer.rescue_how:
            return Kill(after_s, acknowledged, plain.kept, plain.opened, None, plain.wrong, plain.error)
        rescued = _read_back(peer, folder, acknowledged, seed, rescue=True)
        kept, wrong = max(plain.kept, rescued.kept), plain.wrong or rescued.wrong
        return Kill(after_s, acknowledged, kept, plain.opened, rescued.opened, wrong, plain.error)


def _write_and_kill(peer: Peer, folder: Path, after_s: float, seed: int) -> int:
    """Return the last acknowledged tick."""
    ours, theirs = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_write_on, args=(peer, folder, seed, theirs, ours))
    process.start()
    os.close(theirs)
    received = b""
    deadline = time.monotonic() + START_TIMEOUT_S
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            if select.select([ours], [], [], left_s)[0]:
                time.sleep(POLL_S)
                piece = os.read(ours, READ_BYTES)
                if not piece:
                    raise RuntimeError(f"{peer.name}: the recording process ended before its kill")
                if not received:
                    deadline = time.monotonic() + after_s
                received = (received + piece)[-2 * TICK.size :]
        assert received, f"{peer.name}: no tick in {START_TIMEOUT_S} s"
    finally:
        process.kill()
    total = received
    while piece := os.read(ours, READ_BYTES):  # The content of the pipe was acknowledged before the kill.
        total = (total + piece)[-READ_BYTES:]
    process.join()
    os.close(ours)
    # A write of so few bytes into a pipe is atomic: the last bytes are the last number.
    return int(TICK.unpack(total[-TICK.size :])[0])


def _write_on(peer: Peer, folder: Path, seed: int, pipe: int, other_end: int) -> None:
    """The main function of the process that is killed."""
    os.close(other_end)
    warnings.simplefilter("ignore")
    sink = peer.create(folder, STATE_EVERY)
    for frame in run_history(seed, STATE_EVERY):
        sink.put(frame)
        os.write(pipe, TICK.pack(frame.tick))


def _read_back(peer: Peer, folder: Path, acknowledged: int, seed: int, *, rescue: bool) -> _ReadBack:
    def work(_: int) -> Iterator[_ReadBack]:
        yield _compare(observe(peer, folder, [], rescue=rescue), acknowledged, seed)

    (result,) = run_forked(work, 1, READ_TIMEOUT_S)
    if isinstance(result, _ReadBack):
        return result
    return _ReadBack(opened=False, kept=0, wrong=False, error=_name(result))


def _compare(reading: Reading, acknowledged: int, seed: int) -> _ReadBack:
    """Count the ticks, from the first one on, that were read and are correct."""
    truth = take_truth(seed, acknowledged + 1, STATE_EVERY)  # One more may have been kept than was acknowledged.
    rows = set(reading.rows)
    kept = next((number for number, row in enumerate(truth.rows) if row not in rows), len(truth.rows))
    wrong = reading.is_silent and not rows <= set(truth.rows)
    return _ReadBack(reading.opened, min(kept, acknowledged), wrong, reading.error)


def _name(casualty: Casualty) -> str:
    return f"the reading process: {casualty.how}"
