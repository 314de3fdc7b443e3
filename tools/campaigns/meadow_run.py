"""Record a long arms race with players, verify all of it, and seek in it at random; show that memory does not grow.

Two random players add inputs to those of the scenario. A separate list keeps every tick's hash. The audit runs at
intervals: marks and a scan must find the same changed rows. Then the tape is verified interval by interval, and random
ticks are sought and compared with the list.

    python tools/campaigns/meadow_run.py [--scenario NAME] [--ticks N] [--seeks N] [--seed N]

Exit code 1 if a state was wrong, energy was lost, or memory grew by more than the ceiling after the first tenth.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

import recorder
import replayer
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.model.energy_ledger import Ledger

CEILING_MIB = 32  # Permitted growth of a run after its first tenth: tables that lengthen, caches that fill.


def resident_mib() -> float:
    """Resident memory of this process, as the system counts it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def record(path: Path, config: dict[str, Any], ticks: int, console: Console) -> tuple[list[int], float]:
    """Return the hashes of all ticks, and the growth of memory in MiB after the first tenth."""
    ledger = Ledger()
    meadow = Meadow(config, ledger=ledger)
    scenario = load_scenario(config["name"])
    inputs_at = scenario.world.inputs(config)
    assert scenario.world.play is not None
    players = [scenario.world.play(config, player["species"], "random") for player in config.get("players", [])]
    hashes, at_first = [meadow.state.hash()], 0.0
    with recorder.Recorder(path, meadow, changes="audit") as tape:
        for tick in track(range(1, ticks + 1), "recording", console=console, transient=True):
            tape.step(inputs_at(tick) + [sent for player in players for sent in player(tick, meadow.state)])
            hashes.append(meadow.state.hash())
            if tick == max(1, ticks // 10):
                gc.collect()
                at_first = resident_mib()
        gc.collect()
        return hashes, resident_mib() - at_first


def seek(path: Path, hashes: list[int], count: int, seed: int) -> tuple[float, int]:
    """Return the median milliseconds of a seek, and how many of count random ticks differed from the live run."""
    numbers, times, wrong = random.Random(seed), [], 0
    with replayer.open(path) as run:
        for _ in range(count):
            tick = numbers.randrange(len(hashes))
            start_s = time.perf_counter()
            run.seek(tick)
            times.append((time.perf_counter() - start_s) * 1e3)
            wrong += run.state.hash() != hashes[tick]
    return sorted(times)[len(times) // 2], wrong


def main() -> int:
    """Run, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="arms-race")
    parser.add_argument("--ticks", type=int, default=20_000)
    parser.add_argument("--seeks", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    config = load_scenario(arguments.scenario, seed=arguments.seed).config
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.tape"
        start_s = time.monotonic()
        hashes, growth = record(path, config, arguments.ticks, console)
        recorded_s = time.monotonic() - start_s
        with replayer.open(path) as run:
            report = run.verify(jobs=2)
        verified_s = time.monotonic() - start_s - recorded_s
        seek_ms, wrong = seek(path, hashes, arguments.seeks, arguments.seed)
        size = path.stat().st_size
    good = report.ok and not wrong and growth <= CEILING_MIB
    print(
        f"{arguments.scenario}: {arguments.ticks:,} ticks in {recorded_s:.0f} s with books and audit, "
        f"{size / arguments.ticks:,.0f} bytes a tick; verified in {verified_s:.0f} s: {report.status}; "
        f"{arguments.seeks} seeks, {seek_ms:.0f} ms in the median, {wrong} wrong; "
        f"memory grew by {growth:.1f} MiB after the first tenth (seed {arguments.seed})"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
