"""The budget of memory for reading a tape: given, in the environment, or a share of what this process may use."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from recorder.format.blocks.memory_budget import MemoryBudget

VARIABLE = "REPLAY_MEMORY"  # Bytes, or with a unit; processes that a command starts inherit it.
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# A timeline that seeks holds up to four states: two full keyframes, a state made of them, and that of the simulation.
DEFAULT_SHARE = 4
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def memory_budget(memory_bytes: int | None = None) -> MemoryBudget:
    """The budget for one part of a tape: memory_bytes, else the environment's, else a quarter of the usable memory.

    Raises ValueError for a limit below 1, or text in the environment that is no size.
    """
    if memory_bytes is None:
        text = os.environ.get(VARIABLE)
        memory_bytes = usable_bytes() // DEFAULT_SHARE if text is None else parse_size(text)
    if memory_bytes < 1:
        raise ValueError(f"memory_bytes: expected at least 1, got {memory_bytes}")
    return MemoryBudget(memory_bytes)


def parse_size(text: str) -> int:
    """The bytes that a text such as 500MB, 2GiB or 4096 states. Raises ValueError."""
    digits = text.rstrip("BGIKMbgikm ")
    unit = text[len(digits) :].strip().upper()
    try:
        size = int(float(digits) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        raise ValueError(f"expected a size such as 500MB or 2GiB, got {text!r}") from None
    if size < 1:
        raise ValueError(f"expected a size of at least one byte, got {text!r}")
    return size


def usable_bytes() -> int:
    """The memory that this process may use: of the machine, of its control group, or of its address space."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits += [soft] if soft != resource.RLIM_INFINITY else []
    for name in _CGROUP_LIMITS:
        try:
            limits.append(int(Path(name).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue  # There is no such group, or it has no limit ("max").
    return min(limits)
