"""What a forked child cannot use: libraries whose threads it lacks, and files and threads that an object has opened."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_REFUSED: ContextVar[str | None] = ContextVar("why this process is not forked", default=None)


class ForkHazardError(RuntimeError):
    """Something with threads of its own has been used in this process, which can no longer be forked.

    Attributes:
        hazard: its name, see fork_hazard.
    """

    def __init__(self, hazard: str) -> None:
        super().__init__(hazard)
        self.hazard = hazard

    def __str__(self) -> str:
        return (
            f"{self.hazard} has been used in this process, and its threads are missing in a forked one, which would hang: "
            "pass pool=recorder.processes.spawn_pool.SpawnPool(workers)"
        )


def fork_hazard() -> str | None:
    """Something with threads that was used in this process and does not work in a forked child; None if there is none.

    JAX: its computations wait for threads that the child does not have. An import alone starts none. Numba with OpenMP
    ends the child.
    """
    if (refused := _REFUSED.get()) is not None:
        return refused
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and getattr(bridge, "_backends", True):  # True: a version that keeps them elsewhere.
        return "JAX"
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    if parallel is not None and getattr(parallel, "_threading_layer", None) == "omp":
        return "numba with OpenMP"
    return None


@contextmanager
def forks_refused(hazard: str | None) -> Iterator[None]:
    """Make fork_hazard return hazard; None changes nothing."""
    token = _REFUSED.set(hazard if hazard is not None else _REFUSED.get())
    try:
        yield
    finally:
        _REFUSED.reset(token)


class NewThreads:
    """The threads that were started since this was made."""

    def __init__(self) -> None:
        self._before, self._count = set(threading.enumerate()), _thread_count()

    def hazard(self) -> str | None:
        """Those that a forked child would miss, as fork_hazard names them; None if there are none.

        Threads of C code count if a library of OpenMP is there. Those of OpenBLAS alone are made again in a child.
        """
        started = [thread.name for thread in threading.enumerate() if thread not in self._before]
        if started:
            return f"a simulation whose making started threads ({', '.join(sorted(started)[:3])})"
        if _thread_count() > self._count and _has_openmp():
            return "a simulation whose making started threads of compiled code"
        return None


def _thread_count() -> int:
    held = held_by_process()
    return held[1] if held is not None else 0


def _has_openmp() -> bool:
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(name in mapped for name in ("libgomp", "libiomp", "libomp"))


def held_by_process() -> tuple[frozenset[tuple[str, str]], int] | None:
    """The open files, pipes and sockets of this process, and its number of threads; None where that is not known.

    If it is the same before and after an object was made, a forked child has the object as this process has it.
    """
    try:
        files = frozenset((one.name, _target(one)) for one in Path("/proc/self/fd").iterdir())
        return files, len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return None


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except FileNotFoundError:  # The one that listed the others.
        return ""
