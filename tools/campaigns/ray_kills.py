"""Kill processes while work is done on Ray, at random moments, and compare the end with that of local processes.

    python tools/campaigns/ray_kills.py --kills 60 --drivers 6 --seed 1
    python tools/campaigns/ray_kills.py --kills 50 --drivers 0 --call extract

Workers: while verify_tape, extract and record generate's runs are done in one Ray, a thread kills Ray workers and our processes
below them. Each call must end as if nothing had happened. Drivers: the command itself, or the process that speaks with
Ray, is killed; the same command, given again, must end with the same files, and nothing may be left running.
Ray is in a network namespace of its own where that is allowed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from recorder.corpus.generate import part_of, run_generated
from recorder.processes.fork_pool import ForkPool
from recorder.processes.pool import Pool
from recorder.scenarios.batch import Job, run_many
from replayer import extract, verify_tape

from oracle.command_lines import TINY
from ray_cluster import ALONE, descendants, ray_pool, session_process, why_not_alone
from small_worlds import Walkers, record

PAUSE_S = 12.0  # At most, before the next kill; or PAUSE_CALLS times what a call takes that is not disturbed.
PAUSE_CALLS = 2.0  # An extraction of one part is hit by each kill. With shorter pauses none of its attempts would end.
GONE_S = 60.0
TIMEOUT_S = 600.0
ATTEMPTS = 25  # More than the default of 4: few items are under way, and the same one is hit again and again.


def digests(folder: Path) -> dict[str, str]:
    """The files below a folder; the index of a corpus has the times of its tapes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "index.sqlite"
    }


def calls(tape: Path) -> dict[str, Callable[[Pool, Path], object]]:
    """Calls by name: each takes a pool and a new folder, and what it returns must not depend on the pool."""

    def verify(pool: Pool, _: Path) -> object:
        report = verify_tape(tape, Walkers, pool=pool)
        return report.ok, report.verified_ticks, report.status

    def extracted(pool: Pool, folder: Path) -> object:
        extract(tape, folder / "data", world=Walkers, tables=("states", "actions"), pool=pool)
        return digests(folder)

    table = tomllib.loads(TINY)
    config = {name: value for name, value in table.items() if name not in ("world", "ticks", "seed")}

    def generate(pool: Pool, folder: Path) -> object:
        jobs = [
            Job(seed, "tiny", "meadow", {**config, "seed": seed}, None, 90, tape=part_of(folder / f"{seed}.tape"))
            for seed in range(6)
        ]
        records = run_many(jobs, pool=pool, work=partial(run_generated, keyframe_interval_ticks=20))
        return [record.error for record in records], digests(folder)

    return {"verify": verify, "extract": extracted, "generate": generate}


def kill_workers(draw: random.Random, session: int, stop: threading.Event, killed: list[str], pause_s: float) -> None:
    """Until stop is set: kill a Ray worker, or one of our processes below one."""
    while not stop.wait(draw.uniform(0.0, pause_s)):
        workers = [
            one for one in descendants(session) if words_of(one).startswith("ray::") and "Agent" not in words_of(one)
        ]
        found = sorted({*workers, *(below for worker in workers for below in descendants(worker))})
        if found:
            victim = draw.choice(found)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.append("a Ray worker" if victim in workers else "a process below one")


def words_of(process: int) -> str:
    """The command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def undisturbed_s(base: Path, chosen: dict[str, Callable[[Pool, Path], object]], pool: Pool) -> float:
    """The longest time of one of the calls, in which Ray's workers start."""
    times = []
    for name, call in chosen.items():
        (base / f"undisturbed-{name}").mkdir()
        begun_s = time.monotonic()
        call(pool, base / f"undisturbed-{name}")
        times.append(time.monotonic() - begun_s)
    return max(times)


def disturb_workers(
    base: Path, chosen: dict[str, Callable[[Pool, Path], object]], kills: int, draw: random.Random
) -> None:
    """Do the calls in turns until that many workers were killed. Raises AssertionError."""
    expected = {}
    for name, call in chosen.items():
        (base / f"local-{name}").mkdir()
        expected[name] = call(ForkPool(2), base / f"local-{name}")
    killed: list[str] = []
    counts = Counter[str]()
    with ray_pool(base, 2, attempts=ATTEMPTS) as pool:
        session, stop = session_process(), threading.Event()
        pause_s = max(PAUSE_S, PAUSE_CALLS * undisturbed_s(base, chosen, pool))
        print(f"a kill every {pause_s / 2:.0f} s", flush=True)
        killer = threading.Thread(target=kill_workers, args=(draw, session, stop, killed, pause_s))
        killer.start()
        try:
            while len(killed) < kills:
                for name, call in chosen.items():
                    folder = base / f"{name}-{sum(counts.values())}"
                    folder.mkdir()
                    assert call(pool, folder) == expected[name], f"{name}: not as in local processes"
                    counts[name] += 1
                print(f"{len(killed)} kills, no difference: {dict(Counter(killed))}, {dict(counts)}", flush=True)
        finally:
            stop.set()
            killer.join()


def disturb_drivers(base: Path, tape: Path, kills: int, draw: random.Random) -> None:
    """Kill the command extract, or its process that speaks with Ray; then give it again. Raises AssertionError."""
    command = [str(Path(sys.executable).parent / "replay"), "extract", str(tape), "-o", "data", "--table", "states"]
    command += ["--sim", "small_worlds:Walkers"]
    alone = ALONE if why_not_alone() is None else []
    local = base / "local-command"
    local.mkdir()
    subprocess.run([*command, "-j", "2"], cwd=local, env=environment(), check=True, capture_output=True)
    number = 0
    while kills > 0:
        folder = base / f"command-{number}"
        folder.mkdir()
        number += 1
        end_s = draw.uniform(0.0, 30.0)
        running = subprocess.Popen(
            [*alone, *command, "--engine", "ray"], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
        )
        begun_s = time.monotonic()
        below: set[int] = set()
        while running.poll() is None and time.monotonic() - begun_s < end_s:
            time.sleep(0.05)
        if running.poll() is None:
            below = descendants(running.pid)
            speakers = [one for one in below if "spawn_main" in words_of(one)]
            os.kill(draw.choice([running.pid, *speakers[:1]]), signal.SIGKILL)
            kills -= 1
        errors = running.communicate(timeout=TIMEOUT_S)[1]
        assert "Traceback" not in errors, errors
        limit_s = time.monotonic() + GONE_S
        while left := [words_of(one)[:80] for one in below if words_of(one)]:
            assert time.monotonic() < limit_s, f"left behind: {left}"
            time.sleep(0.2)
        if not (folder / "data").exists():
            subprocess.run(
                [*alone, *command, "--engine", "ray"], cwd=folder, env=environment(), check=True, timeout=TIMEOUT_S
            )
        assert digests(folder) == digests(local)
        print(
            f"a driver killed after {time.monotonic() - begun_s:.0f} s at most: no difference, nothing left", flush=True
        )


def environment() -> dict[str, str]:
    """For commands: their workers import the tests' simulations."""
    paths = [str(Path(__file__).parents[2] / "tests" / "support"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def main() -> int:
    """Run the campaign; the exit code is 0 if nothing differed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--drivers", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--call", choices=["verify", "extract", "generate"], help="this one alone, instead of all three"
    )
    parsed = parser.parse_args()
    draw = random.Random(parsed.seed)
    print(f"seed {parsed.seed}; network namespace: {why_not_alone() or 'of its own'}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        tape = Path(name) / "run.tape"
        record(tape, Walkers(), [[[tick % 20, 2]] for tick in range(900)], keyframe_interval_ticks=30)
        chosen = {one: call for one, call in calls(tape).items() if parsed.call in (None, one)}
        disturb_workers(Path(name), chosen, parsed.kills, draw)
        disturb_drivers(Path(name), tape, parsed.drivers, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
