"""A Ray for tests: on loopback, in a network namespace of its own where this machine allows one."""

from __future__ import annotations

import multiprocessing.spawn
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from recorder.processes.engines.ray_engine import RayEngine
from recorder.processes.engines.ray_pool import RayPool

ALONE = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


@cache
def why_not_alone() -> str | None:
    """Why Ray cannot have a network namespace of its own here; None if it can."""
    try:
        tried = subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False, timeout=20)
    except OSError as error:
        return str(error)
    return None if tried.returncode == 0 else tried.stderr.strip() or "unshare failed"


def alone(*command: str) -> list[str]:
    """A command in a network namespace of its own, with loopback alone, where this machine allows one; else as it is."""
    return [*ALONE, *command] if why_not_alone() is None else [*command]


@contextmanager
def ray_pool(
    folder: Path,
    workers: int = 2,
    *,
    attempts: int = 4,
    engine: RayEngine | None = None,
    before: Sequence[str] = ALONE,
) -> Iterator[RayPool]:
    """A pool of a Ray that is started for it. folder: for the program that starts it in a namespace.

    before: the words before the command of the process that speaks with Ray; for a cluster, see RayMachines.prefix.
    """
    used = engine or RayEngine(attempts=attempts, patience_s=20.0)
    if why_not_alone() is not None:
        with used.pool(workers) as pool:
            yield pool
        return
    python = folder / "python-alone"
    words = " ".join(f"'{word}'" for word in [*before, sys.executable])
    python.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    python.chmod(0o755)
    usual = multiprocessing.spawn.get_executable()
    multiprocessing.spawn.set_executable(str(python))
    try:
        entered = used.pool(workers)
        pool = entered.__enter__()
    finally:
        multiprocessing.spawn.set_executable(usual)
    try:
        yield pool
    finally:
        entered.__exit__(None, None, None)


def descendants(process: int) -> set[int]:
    """The processes that a process has started, and those that these have."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def listening(process: int) -> set[str]:
    """The addresses, without ports, on which a process and its descendants listen, in hexadecimal."""
    sockets, addresses = set(), set()
    for one in {process, *descendants(process)}:
        for descriptor in Path(f"/proc/{one}/fd").iterdir():
            try:
                sockets.add(str(descriptor.readlink()))
            except OSError:
                continue
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                addresses.add(local.partition(":")[0])
    return addresses


def session_process() -> int:
    """The process that speaks with Ray: the child of this one that has most descendants."""
    children = [one for one in descendants(os.getpid()) if os.getpid() == _parent(one)]
    return max(children, key=lambda one: len(descendants(one)))


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
