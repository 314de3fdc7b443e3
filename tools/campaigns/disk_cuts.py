"""Cut the power at every system call that real recordings make, and look at what a file system may have kept.

Recordings of all kinds (with a journal, synced by block or by flush, in several files, rings, deterministic ones, tapes
that another program removes, tapes that are written out), their resumed sessions after a kill or a power cut, batches,
data sets and repairs run in a real folder while the calls that change it are recorded. After each call a model of a file
system enumerates what a power cut may leave: any version of each unsynced page, any size, any beginning of the unsynced
changes of names. All states if there are few enough, otherwise some by chance. Each state is written to a folder and
read; a share of the tapes is resumed or repaired as well. What was acknowledged must be there, all that is read be true.

    python tools/campaigns/disk_cuts.py [--count N] [--seed N] [--states N] [--strace]

--count: states to try. --states: at most so many at one call. --strace: first compare the recorded calls of each program
with those that strace sees. If a promise is broken, it prints the state and the seed, and exits with code 1.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
from rich.console import Console
from rich.progress import Progress

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))  # The model of the file system is part of the tests.

from disk.cut_programs import RECORDINGS, SMALL, Recording  # noqa: E402
from disk.cut_promises import Broken, Cuts  # noqa: E402
from disk.folder_cuts import FOLDERS  # noqa: E402
from disk.traced import compare  # noqa: E402

SMALL_STATES = 20_000  # Of the small recordings all states are tried.


def random_recording(numbers: random.Random) -> Recording:
    """One of the tests' recordings, with random numbers of steps and flushes."""
    program = numbers.choice(list(RECORDINGS.values()))
    return attrs.evolve(program, ticks=numbers.randint(3, 30), flush_every=numbers.choice([2, 3, 7, 25, 3000]))


def programs(cuts: Cuts, numbers: random.Random) -> Iterator[tuple[str, Iterator[Broken]]]:
    """What is done, forever: all states of the small recordings first, then programs drawn by chance."""
    for name, recording in SMALL.items():
        cuts.states_max, before = SMALL_STATES, cuts.states_max
        yield f"{name}, all states", cuts.recording(recording)
        cuts.states_max = before
    while True:
        how = numbers.choice(["recording", "recording", "kill", "cut", *FOLDERS])
        if how in FOLDERS:
            yield how, FOLDERS[how](cuts)
            continue
        recording = random_recording(numbers)
        made = (
            cuts.recording(recording) if how == "recording" else cuts.resuming(recording, numbers.randint(4, 100), how)
        )
        yield f"{how}: {recording}", made


def main() -> int:
    """Run the programs, cut the power, compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--states", type=int, default=8)
    parser.add_argument("--strace", action="store_true")
    options = parser.parse_args()
    numbers = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="disk-cuts-"))
    try:
        if options.strace:
            counts = {name: compare(name, Path(tempfile.mkdtemp(dir=folder))) for name in [*RECORDINGS, *FOLDERS]}
            print(f"{sum(counts.values())} changes of names and syncs in {len(counts)} programs, none missed by strace")
        return _cut(options, numbers, folder)
    finally:
        shutil.rmtree(folder)


def _cut(options: argparse.Namespace, numbers: random.Random, folder: Path) -> int:
    start_s, runs = time.perf_counter(), 0
    total = Cuts(folder, options.states, numbers)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("states", total=options.count)
        for what, made in programs(total, numbers):
            runs += 1
            for broken in made:
                files = {name: None if data is None else len(data) for name, data in broken.state.files.items()}
                print(f"BROKEN: {what}, after call {broken.call}, seed {options.seed}: {broken.what}\n  {files}")
                return 1
            shutil.rmtree(folder)
            folder.mkdir()
            progress.update(task, completed=total.states)
            if total.states >= options.count:
                break
    print(
        f"{total.states:,} states after {total.calls:,} calls of {runs} programs, {total.different:,} different ones read, "
        f"{total.resumed:,} of them resumed or repaired; at {total.whole_calls:,} calls all states; "
        f"{time.perf_counter() - start_s:.0f} s, seed {options.seed}: nothing acknowledged was lost, nothing false"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
