"""Separate the files of a simulation's code from Python's own, installed packages and this library."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sim.kernel
from recorder.ambient.roots import is_installed
from sim.kernel.simulation import Simulation, subject_of

_PACKAGES = Path(sim.kernel.__file__ or "").parents[2]
# Not imported: the adapters and the replayer are above this room.
_LIBRARY = tuple(f"{_PACKAGES / name}/" for name in ("recorder", "replayer", "sim"))
_WORLDS = tuple(f"{_PACKAGES / name}/" for name in ("sim/worlds", "sim/scenario"))  # They count as the user's code.

_PYTHONS = Path(os.__file__).parent
# Locks, waits and pools of Python's library, which ask a clock how long they may wait, and for random names: neither leaves
# them. Whether they end in time may, as in Condition.wait_for(…, 2): that it depends on a clock is not noted, as Event.wait(2)
# is not, which asks none that Python sees. To note each would list every thread pool as a clock that was not compared.
_WAITS = tuple(
    f"{_PYTHONS}/{name}"
    for name in ("threading.py", "queue.py", "subprocess.py", "concurrent/futures/", "multiprocessing/")
)


def only_waits(path: str) -> bool:
    """Return True for a file of Python's library that reads clocks only to see how long it may wait, and random names."""
    return path.startswith(_WAITS)


class OwnCode:
    """Separates the user's files from others."""

    def __init__(self, simulation: Simulation, layers: Iterable[Any] = ()) -> None:
        """layers: further objects whose packages are the user's: those that the simulation's object wraps."""
        objects = (subject_of(simulation), *layers)
        self._own = {root for one in objects if (root := _root_of(type(one).__module__))}
        self._decided: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        """Return True if the file is the user's."""
        decided = self._decided.get(path)
        if decided is None:
            decided = self._decided[path] = self._decide(path)
        return decided

    def _decide(self, path: str) -> bool:
        return any(path == root or path.startswith(f"{root}/") for root in self._own) or is_users_file(path)


def is_users_file(path: str) -> bool:
    """Return True for a file of code that is neither of Python, nor of an installed package, nor of this library."""
    if not path or path.startswith("<"):
        return False
    return not (is_installed(path) or is_librarys(path) or "/site-packages/" in path)


def is_librarys(path: str) -> bool:
    """Return True for a file of this library, other than a world's or a scenario's."""
    return path.startswith(_LIBRARY) and not path.startswith(_WORLDS)


def _root_of(module_name: str) -> str:
    """The folder of the outermost package that a class comes from, or its file; for a shipped world, that world's."""
    parts = module_name.split(".")
    outermost = ".".join(parts[:3]) if parts[:2] == ["sim", "worlds"] else parts[0]
    path = getattr(sys.modules.get(outermost), "__file__", None) or ""
    is_pythons = path.startswith(f"{sysconfig.get_paths()['stdlib']}/") and "/site-packages/" not in path
    if not path or is_pythons or outermost in {"recorder", "replayer", "sim"}:
        return ""
    return str(Path(path).parent) if Path(path).name == "__init__.py" else path
