"""What a forked child cannot use: libraries whose threads it lacks, and files and threads that an object has opened."""

from __future__ import annotations

import sys
from pathlib import Path


class ForkHazardError(RuntimeError):
    """A library with threads of its own has been used in this process, which can no longer be forked."""


def fork_hazard() -> str | None:
    """The name of a library that was used in this process and does not work in a forked child; None if there is none.

    JAX: its computations wait for threads that the child does not have. An import alone starts none.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return None
    return "JAX" if getattr(bridge, "_backends", True) else None  # True: a version that keeps them elsewhere.


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
