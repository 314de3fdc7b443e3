"""What --upload costs the recording: its ticks with an upload beside it and without one, in turns.

Usage: python tools/bench/uploading.py [--ticks N] [--rounds N]

The store is an S3 server on loopback, in a process of its own. The processor time is that of the recording process alone: it
does not depend on what else the machine does. The time of a tick does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

SUPPORT = Path(__file__).parents[2] / "tests" / "support"
SERVER = """
import sys
import s3_store
with s3_store.serving() as store:
    print(store.endpoint, flush=True)
    sys.stdin.read()
"""
RECORDING = """
import json, os, sys, time
import numpy as np
from recorder import Recorder
from small_worlds import Walkers
walkers = Walkers(1, 5000)
walkers.state["x"][:] = np.random.default_rng(1).integers(-(2**62), 2**62, 5000)
times = []
with Recorder(sys.argv[1], walkers, keyframe_interval_ticks=50, split=400_000, trial_ms=0) as recorder:
    recorder.step(None)
    recorder.flush()
    print("begun", flush=True)
    sys.stdin.readline()
    before_s = sum(os.times()[:2])
    for _ in range(int(sys.argv[2])):
        start_s = time.perf_counter()
        recorder.step(None)
        times.append(time.perf_counter() - start_s)
    used_s = sum(os.times()[:2]) - before_s
times.sort()
print(json.dumps({"cpu_us": 1e6 * used_s / len(times), "p50_us": 1e6 * times[len(times) // 2],
                  "p99_us": 1e6 * times[len(times) * 99 // 100]}))
"""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ticks", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parsed = parser.parse_args()
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    files = 0
    with serving() as endpoint:
        for number in range(parsed.rounds):
            for uploads in (False, True) if number % 2 else (True, False):
                with tempfile.TemporaryDirectory() as folder:
                    facts, files = recorded(
                        Path(folder), f"s3://runs/{number}.tape", endpoint, parsed.ticks, uploads=uploads
                    )
                    found[uploads].append(facts)
    print(f"{parsed.rounds} rounds of {parsed.ticks:,} ticks, {files} files each")
    for name in ("cpu_us", "p50_us", "p99_us"):
        alone, beside = (median(one[name] for one in found[uploads]) for uploads in (False, True))
        ratio = median(b[name] / a[name] for a, b in zip(found[False], found[True], strict=True))
        print(f"{name:8} alone {alone:8,.1f}   with an upload {beside:8,.1f}   ratio {ratio:.3f}")
    return 0


def recorded(folder: Path, url: str, endpoint: str, ticks: int, *, uploads: bool) -> tuple[dict[str, float], int]:
    """The figures of one run, and the number of files that its tape has; all of them are in the store if it uploads."""
    environment = environment_of(endpoint)
    tape = folder / "run.tape"
    words = [sys.executable, "-c", RECORDING, str(tape), str(ticks)]
    recording = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert recording.stdin is not None
    assert recording.stdout is not None
    assert recording.stdout.readline() == "begun\n"
    command = [str(Path(sys.executable).parent / "record"), "upload", str(tape), url, "--json"]
    upload = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) if uploads else None
    if upload is not None:
        time.sleep(2.0)  # It has started, and waits for the first file.
    recording.stdin.write("\n")
    recording.stdin.flush()
    facts = json.loads(recording.communicate()[0])
    files = len(list(folder.glob("run.tape*")))
    if upload is not None:
        report = json.loads(upload.communicate()[0])
        assert report["files"] == files, report
    return facts, files


@contextmanager
def serving() -> Iterator[str]:
    """Serve an empty bucket; the address."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment_of("")
    )
    assert server.stdout is not None
    endpoint = server.stdout.readline().strip()
    made = "import s3fs; s3fs.S3FileSystem().mkdir('runs')"
    subprocess.run([sys.executable, "-c", made], env=environment_of(endpoint), check=True)
    try:
        yield endpoint
    finally:
        server.kill()
        server.wait()


def environment_of(endpoint: str) -> dict[str, str]:
    """The environment of a process that uses the store."""
    settings = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    paths = [str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    settings |= {"AWS_CONFIG_FILE": os.devnull, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return {**os.environ, **settings} | ({"AWS_ENDPOINT_URL": endpoint} if endpoint else {})


if __name__ == "__main__":
    sys.exit(main())
