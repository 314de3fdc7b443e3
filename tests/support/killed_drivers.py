"""Processes of ``record run --workers`` that are killed and started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import tomli_w
from waiting import wait_until

import replayer

from cluster_runs import CONFIG, plain_hashes

LAST_TICK = 40


def run_with_driver_kills(seed: int, folder: Path, kills: int = 3) -> int:
    """Run the small world by a command, and kill it up to ``kills`` times as soon as it has written some checkpoints.

    The last process runs to the end. Compares the hashes on all tapes with those of one process, and the end of a tape
    that record resume finishes. Returns the number of kills. Raises AssertionError.
    """
    chance = random.Random(seed)
    scenario, whole = folder / "small.toml", folder / "whole"
    scenario.write_text(tomli_w.dumps({**CONFIG, "ticks": LAST_TICK}))
    killed = 0
    for number in range(kills + 1):
        tape = folder / f"{number}.tape"
        options = ["--workers", str(chance.randint(1, 4)), "--checkpoints", str(whole), "--checkpoint-interval", "3"]
        process = start("run", str(scenario), "-o", str(tape), *options)
        wanted = LAST_TICK + 1 if number == kills else newest(whole) + 3 * chance.randint(1, 3)
        wait_until(lambda p=process, w=wanted: p.poll() is not None or newest(whole) >= w)
        family = descendants(process.pid)
        process.kill()
        output = process.communicate()[0]
        assert process.returncode in (0, -signal.SIGKILL), output
        wait_until(lambda pids=family: not any(map(is_alive, pids)))
        ensure_right(tape)
        if process.returncode == 0:
            break
        killed += 1
        if tape.exists():
            resuming = start("resume", str(tape))
            output = resuming.communicate()[0]
            assert resuming.returncode == 0, output
            ensure_right(tape)
            with replayer.Tape(tape) as resumed:
                assert resumed.last_tick == LAST_TICK
    return killed


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """Start the command record."""
    command = [sys.executable, "-m", "recorder", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def newest(folder: Path) -> int:
    """The tick of the newest manifest of a folder; 0 without any."""
    return max((int(path.name.split("_")[1]) for path in folder.glob("*_server.json")), default=0)


def ensure_right(tape: Path) -> None:
    """Each hash on a tape is that of one process."""
    if not tape.exists():
        return
    with replayer.Tape(tape) as run:
        for tick in range(run.first_tick, run.last_tick + 1):
            assert run.state_hash(tick) == plain_hashes()[tick], f"{tape}: tick {tick}"


def descendants(process_id: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{process_id}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return children + [one for child in children for one in descendants(child)]


def is_alive(process_id: int) -> bool:
    """Return True unless the process is gone or has ended."""
    try:
        os.kill(process_id, 0)
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
