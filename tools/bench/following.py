"""Measure a recording with and without a process that verifies it behind its head.

The processor time of each process is counted, which other programs on the machine do not change much; runs alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TICKS, RUNS = 1_500, 3


def main() -> None:
    """Print what each run took without and with a follower, and how far behind the head it was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=TICKS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--scenario", default="quiet-meadow")
    arguments = parser.parse_args()
    for number in range(arguments.runs):
        for follows in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                print(
                    f"run {number}, {'followed' if follows else 'alone'}: {measured(arguments, Path(folder), follows=follows)}"
                )


def measured(arguments: argparse.Namespace, folder: Path, *, follows: bool) -> str:
    """Record a run and return its figures. follows: with a follower."""
    path, process = folder / "run.tape", None
    command = [sys.executable, "-m", "recorder", "run", arguments.scenario, "--ticks", str(arguments.ticks), "-q"]
    recording = subprocess.Popen([*command, "-o", str(path)], text=True)
    if follows:
        while not path.exists():
            time.sleep(0.01)
        time.sleep(0.3)  # Until the first keyframe is there.
        process = subprocess.Popen(
            [sys.executable, "-m", "replayer", "follow", str(path), "--json"], stdout=subprocess.PIPE, text=True
        )
    lines = [json.loads(line) for line in process.stdout] if process is not None and process.stdout is not None else []
    text = f"recorder {processor_s(recording):.2f} s of processor time"
    if process is None:
        return text
    lags = [one["head_tick"] - one["last_tick"] for one in lines]
    follower_s = processor_s(process)
    well = all(one["ok"] for one in lines)
    return f"{text}, follower {follower_s:.2f} s; {len(lines)} intervals {'match' if well else 'DIFFER'}, {lags} ticks behind"


def processor_s(process: subprocess.Popen[str]) -> float:
    """Wait for a process and return the seconds of processor time that it and its children took."""
    _, _, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
