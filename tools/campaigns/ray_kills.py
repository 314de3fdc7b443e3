"""Kill processes while work is done on Ray, at random moments, and compare the end with that of an undisturbed run.

    python tools/campaigns/ray_kills.py --kills 60 --seed 1

Two kinds of victims take turns. Workers: any process below the one that speaks with Ray that is a Ray worker, or one of
ours below it; the command must end as if nothing had happened. Drivers: the command itself, or the process that speaks
with Ray; the same command, given again, must end with the same files, and the killed one must leave no process behind.
The commands are verify, extract and generate. Everything runs in a network namespace of its own where that is allowed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SUPPORT = Path(__file__).parents[2] / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

from ray_cluster import ALONE, descendants, why_not_alone  # noqa: E402 - from the tests' folder
from small_worlds import Walkers, record  # noqa: E402 - as above

BIN = Path(sys.executable).parent
TIMEOUT_S = 240
GONE_S = 40
ATTEMPTS_MAX = 8  # Of a command whose driver is killed each time.
KILLS_A_COMMAND = 4  # Of workers. An item is given up if it is lost four times.
WORKER_PAUSE_S = 4.0  # At most, before a worker is killed.


def commands(tape: Path) -> dict[str, list[str]]:
    """The commands by name; each writes to the current folder alone."""
    sim = ["--sim", "small_worlds:Walkers"]
    return {
        "verify": [f"{BIN}/replay", "verify", str(tape), *sim, "--json"],
        "extract": [
            f"{BIN}/replay",
            "extract",
            str(tape),
            "-o",
            "data",
            "--table",
            "states",
            "--table",
            "actions",
            *sim,
        ],
        "generate": [f"{BIN}/record", "generate", "quiet-meadow", "--seeds", "0..7", "--ticks", "300", "-o", "runs"],
    }


def outcome_of(folder: Path, output: str) -> dict[str, str]:
    """What a command has left: its files with digests, and what verify has printed."""
    import hashlib  # noqa: PLC0415 - here alone

    found = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "index.sqlite"  # It has the times of the tapes.
    }
    if '"ok"' in output:
        found["printed"] = json.dumps(json.loads(output), sort_keys=True)
    return found


def start(command: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start a command in a folder, in a namespace of its own if possible."""
    words = [*(ALONE if why_not_alone() is None else []), *command]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def words_of(process: int) -> str:
    """The command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def victims(command: int, kind: str) -> list[int]:
    """Processes that may be killed."""
    below = descendants(command)
    if kind == "driver":
        return [command, *(one for one in below if "spawn_main" in words_of(one) and _parent(one) == command)]
    workers = {one for one in below if words_of(one).startswith("ray::")}
    workers -= {one for one in workers if "Agent" in words_of(one)}
    return sorted(workers | {one for worker in workers for one in descendants(worker)})


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def disturbed(
    name: str, command: list[str], folder: Path, draw: random.Random, kind: str, typical_s: float
) -> tuple[dict[str, str], int]:
    """Run a command and kill until it ends, or its driver once in each attempt; return what it left, and the kills."""
    kills = 0
    for attempt in range(ATTEMPTS_MAX):
        running = start(command, folder)
        is_last = kind == "driver" and attempt >= 1 + draw.randrange(3)
        before: set[int] = set()
        while running.poll() is None and not is_last and kills < KILLS_A_COMMAND * (attempt + 1):
            moment_s = time.monotonic() + draw.uniform(0.0, typical_s if kind == "driver" else WORKER_PAUSE_S)
            while running.poll() is None and time.monotonic() < moment_s:
                time.sleep(0.02)
            found = victims(running.pid, kind)
            if found:
                before |= descendants(running.pid)
                try:
                    os.kill(draw.choice(found), signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    continue
                if kind == "driver":
                    break
        output, errors = running.communicate(timeout=TIMEOUT_S)
        if running.returncode != 0:
            assert kind == "driver", f"{name}: {running.returncode}: {errors}"
            assert "Traceback" not in errors, errors
        _ensure_gone(name, before)
        if running.returncode == 0:
            return outcome_of(folder, output), kills
    raise AssertionError(f"{name}: no attempt ended")


def _ensure_gone(name: str, processes: set[int]) -> None:
    end_s = time.monotonic() + GONE_S
    while left := [words_of(one)[:80] for one in processes if words_of(one)]:
        assert time.monotonic() < end_s, f"{name}: left behind: {left}"
        time.sleep(0.2)


def main() -> int:
    """Run the campaign; the exit code is 0 if nothing differed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    draw = random.Random(parsed.seed)
    print(f"seed {parsed.seed}; network namespace: {why_not_alone() or 'of its own'}", flush=True)
    base = Path(tempfile.mkdtemp(prefix="kills-"))
    tape = base / "run.tape"
    record(tape, Walkers(), [[[tick % 20, 2]] for tick in range(6000)], keyframe_interval_ticks=30)
    expected, durations, counts = {}, {}, Counter[str]()
    for name, command in commands(tape).items():
        folder = base / f"expected-{name}"
        folder.mkdir()
        output, errors = start([*command, "--jobs", "2"], folder).communicate(timeout=TIMEOUT_S)
        expected[name] = outcome_of(folder, output)
        assert expected[name], errors
        folder = base / f"whole-{name}"
        folder.mkdir()
        before_s = time.monotonic()
        output, errors = start([*command, "--engine", "ray"], folder).communicate(timeout=TIMEOUT_S)
        durations[name] = time.monotonic() - before_s
        _compare(name, expected[name], outcome_of(folder, output))
    number = 0
    while sum(counts.values()) < parsed.kills:
        name = list(expected)[number % 3]
        kind = ("worker", "driver")[number // 3 % 2]
        folder = base / f"{number}"
        folder.mkdir()
        found, kills = disturbed(name, [*commands(tape)[name], "--engine", "ray"], folder, draw, kind, durations[name])
        _compare(name, expected[name], found)
        shutil.rmtree(folder)
        counts[f"{name}, {kind}"] += kills
        number += 1
        print(f"{number} commands, {sum(counts.values())} kills: {dict(counts)}", flush=True)
    shutil.rmtree(base)
    print(f"{sum(counts.values())} kills in {number} commands: no difference, nothing left behind")
    return 0


def _compare(name: str, expected: dict[str, str], found: dict[str, str]) -> None:
    """Raise AssertionError for other files. The command is in the manifest of a data set; --jobs and --engine are not."""
    different = {key for key in {*expected, *found} if expected.get(key) != found.get(key)}
    assert not different, f"{name}: {different}"


if __name__ == "__main__":
    sys.exit(main())
