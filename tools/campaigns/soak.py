"""Record, follow and read one tape for an hour, and show that memory, threads and descriptors stay flat.

One process records a ring and closes, resumes and begins it again from time to time. Meanwhile one thread follows it as
`replay tail` does, one refreshes a tape and reads its last frames, and one opens it and seeks random ticks. What
they read is compared with the truth. Memory, threads and open files are measured forty times. In the last quarter their
lowest values must not be higher than in the second one: the first is for caches that fill.

    python tools/campaigns/soak.py [--minutes N] [--rate TICKS_A_SECOND] [--growth-mib N] [--seed N]

Exit code 1 if something grew or was read wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter as Counts
from collections.abc import Callable
from pathlib import Path

import attrs
from long_run import Counter, resident_mib, sum_at

import recorder
import replayer
from recorder.errors import MissingTickError
from recorder.format.blocks.frame import Frame
from replayer.follow.tail import Ended, Tail
from replayer.tape.tape import Tape

SAMPLES = 40
KEEP_TICKS = 20_000
TICKS_A_SESSION = 50_000  # Then the tape is closed and resumed.
SESSIONS_A_TAPE = 3  # Then a new one begins.
PAUSE_S = 0.05


@attrs.frozen
class Sample:
    """Use of resources at one moment: resident memory in MiB, Python's memory blocks, threads, open files.

    The blocks tell a leak of objects from memory that the allocator keeps in pieces.
    """

    mib: float
    blocks: int
    threads: int
    files: int

    @classmethod
    def now(cls) -> Sample:
        """Measure this process."""
        threads, files = (len(list(Path(f"/proc/self/{name}").iterdir())) for name in ("task", "fd"))
        return cls(resident_mib(), sys.getallocatedblocks(), threads, files)


class Soak:
    """The tape that is being written, and the counts of what was read.

    Attributes:
        counts: ticks recorded, frames followed, refreshes, seeks, and values that were wrong.
        failures: what a thread raised.
    """

    def __init__(self, folder: Path, rate: int, seed: int) -> None:
        self.counts: Counts[str] = Counts()
        self.failures: list[str] = []
        self._folder, self._rate, self._random = folder, rate, random.Random(seed)
        self._stop = threading.Event()
        self._number = 0
        self._begun = threading.Event()  # There is a tape.
        self.path = folder / "0.tape"

    def run(self, seconds: float) -> list[Sample]:
        """Run all threads for this time; return the samples."""
        threads = [threading.Thread(target=self._guarded, args=[self._write])]
        threads += [
            threading.Thread(target=self._guarded, args=[work]) for work in (self._follow, self._refresh, self._seek)
        ]
        for thread in threads:
            thread.start()
            self._begun.wait(10.0)
        samples = []
        for _ in range(SAMPLES):
            if self._stop.wait(seconds / SAMPLES):
                break
            samples.append(Sample.now())
        self._stop.set()
        for thread in threads:
            thread.join()
        return samples

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            while not self._stop.is_set():
                work()
        except Exception as error:  # noqa: BLE001 - reported with the name of the thread, and ends the soak
            self.failures.append(f"{work.__name__}: {type(error).__name__}: {error}")
            self._stop.set()

    def _write(self) -> None:
        """Record a tape in several sessions; a new name for each tape."""
        path = self._folder / f"{self._number}.tape"
        live = recorder.Recorder(path, Counter(), keyframe_interval_ticks=500, keep=KEEP_TICKS)
        before, self.path = self.path, path
        self._begun.set()
        for session in range(SESSIONS_A_TAPE):
            with live:
                begun, first = time.monotonic(), live.tick
                while live.tick < (session + 1) * TICKS_A_SESSION and not self._stop.is_set():
                    live.step((live.tick + 1) % 1000)
                    self.counts["recorded"] += 1
                    if live.tick % 100 == 0:
                        ahead_s = (live.tick - first) / self._rate - (time.monotonic() - begun)
                        self._stop.wait(max(0.0, ahead_s))
            if self._stop.is_set():
                return
            if session < SESSIONS_A_TAPE - 1:
                live = recorder.resume(path, Counter())
        if before != path:
            for file in self._folder.glob(f"{before.name}*"):
                file.unlink()
        self._number += 1

    def _check(self, *, is_right: bool) -> None:
        self.counts["wrong"] += not is_right

    def _follow(self) -> None:
        with Tail(self.path) as tail:
            while not self._stop.is_set() and tail.path.name == self.path.name:
                for item in tail.news():
                    if isinstance(item, Frame):
                        self.counts["followed"] += 1
                        self._check(is_right=item.inputs == item.tick % 1000)
                    elif isinstance(item, Ended):
                        return
                self._stop.wait(PAUSE_S)

    def _refresh(self) -> None:
        with Tape(self.path) as tape:
            while not self._stop.is_set() and tape.path == self.path:
                tape.refresh()
                self.counts["refreshed"] += 1
                if tape.keyframes and tape.last_tick > tape.first_tick:
                    self._check(is_right=tape.frame(tape.last_tick).inputs == tape.last_tick % 1000)
                self._stop.wait(PAUSE_S)

    def _seek(self) -> None:
        self._stop.wait(PAUSE_S)
        with replayer.open(self.path, Counter) as run:
            if not run.tape.keyframes:
                return
            for _ in range(5):
                tick = self._random.randint(run.first_tick, run.last_tick)
                try:
                    run.seek(tick)
                except (MissingTickError, FileNotFoundError):
                    return  # The ring has removed the tick meanwhile.
                self.counts["sought"] += 1
                self._check(is_right=int(run.state["sum"]) == sum_at(tick))


def lowest(samples: list[Sample]) -> Sample:
    """The lowest value of each resource in some samples."""
    return Sample(*(min(values) for values in zip(*map(attrs.astuple, samples), strict=True)))


def main() -> int:
    """Run, measure, compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=2_000, help="ticks a second, at most")
    parser.add_argument("--growth-mib", type=float, default=4.0, help="allowed growth of resident memory")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        soak = Soak(Path(folder), options.rate, options.seed)
        samples = soak.run(options.minutes * 60)
    for sample in samples:
        print(
            f"  {sample.mib:.1f} MiB resident, {sample.blocks:,} blocks, {sample.threads} threads, "
            f"{sample.files} open files"
        )
    for failure in soak.failures:
        print(f"  failed: {failure}")
    if len(samples) < SAMPLES:
        return 1
    quarter = SAMPLES // 4
    before, after = lowest(samples[quarter : 2 * quarter]), lowest(samples[-quarter:])
    is_flat = after.mib - before.mib <= options.growth_mib
    is_flat = is_flat and after.threads <= before.threads and after.files <= before.files
    done = ", ".join(f"{count:,} {what}" for what, count in sorted(soak.counts.items()))
    print(
        f"{options.minutes:g} minutes: {done}; memory {before.mib:.1f} → {after.mib:.1f} MiB, "
        f"blocks {before.blocks:,} → {after.blocks:,}, threads "
        f"{before.threads} → {after.threads}, open files {before.files} → {after.files}: "
        f"{'flat' if is_flat else 'GROWN'} (seed {options.seed})"
    )
    return 0 if is_flat and not soak.failures and not soak.counts["wrong"] else 1


if __name__ == "__main__":
    sys.exit(main())
