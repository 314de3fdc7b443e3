"""Work for the tests of Ray; a module of its own, so that worker processes can import it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from waiting import wait_until

from recorder.processes.pool import Report

_seen: list[int] = []


def count_here(item: int, _: Report) -> int:
    """How many items this process has had, with this one."""
    _seen.append(item)
    return len(_seen)


def killed_at_first(folder: Path, kill: str, item: int, report: Report) -> int:
    """Item 1 is killed once, by SIGKILL, and its begins are counted; kill: who dies, itself or its Ray worker."""
    with (folder / f"{item}.begun").open("a") as file:
        file.write("x")
    if item == 1 and (folder / "1.begun").stat().st_size == 1:
        os.kill(os.getpid() if kill == "item" else ray_worker(), signal.SIGKILL)
        signal.pause()
    report(item)
    return item * 10


def always_killed(_: int, __: Report) -> int:
    """Every attempt is killed."""
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def held(folder: Path, item: int, _: Report) -> int:
    """Note that the item has begun, and in which process, and wait until the folder has the file go."""
    with (folder / f"{item}.begun").open("a") as file:
        file.write(f"{os.getpid()} ")
    wait_until((folder / "go").exists)
    return item * 10


class KillsWhileLoading:
    """Work that kills its Ray worker while it is loaded there, a number of times: before any item has begun."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder = folder
        self.times = times

    def __reduce__(self) -> tuple[object, ...]:
        return load_or_kill, (self.folder, self.times)

    def __call__(self, item: int, _: Report) -> int:
        return item + 1


def load_or_kill(folder: Path, times: int) -> KillsWhileLoading:
    """In the process of the work: kill the Ray worker, or load."""
    count = folder / "loads"
    with count.open("a") as file:
        file.write("x")
    if count.stat().st_size <= times:
        os.kill(ray_worker(above=2), signal.SIGKILL)
        signal.pause()
    return KillsWhileLoading(folder, times)


def ray_worker(above: int = 3) -> int:
    """The process of Ray above this one. above: an item's process is below that of the work, and this one below the host."""
    process = os.getpid()
    for _ in range(above):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def environment(name: str, _: Report) -> str | None:
    """A variable of the worker."""
    return os.environ.get(name)


def folder_of_worker(_: int, __: Report) -> str:
    """The current folder."""
    return str(Path.cwd())


def has_file(path: Path, _: Report) -> bool:
    """Return True if a worker finds a path."""
    return path.exists()
