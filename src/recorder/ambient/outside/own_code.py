"""Separate the files of a simulation's code from Python's own, installed packages and this library."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import sim.kernel
from sim.kernel.simulation import Simulation, subject_of

_PACKAGES = Path(sim.kernel.__file__ or "").parents[2]
# Not imported: the adapters and the replayer are above this room. Worlds and scenarios count as the user's code.
_LIBRARY = tuple(f"{_PACKAGES / name}/" for name in ("recorder", "replayer", "sim/kernel", "sim/adapters"))


class OwnCode:
    """Separates the user's files from others."""

    def __init__(self, simulation: Simulation) -> None:
        paths = sysconfig.get_paths()
        others = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        self._others = (*(f"{folder}/" for folder in others), *_LIBRARY)
        self._own = _root_of(type(subject_of(simulation)).__module__)
        self._decided: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        """Return True if the file is the user's."""
        decided = self._decided.get(path)
        if decided is None:
            decided = self._decided[path] = self._decide(path)
        return decided

    def _decide(self, path: str) -> bool:
        if not path or path.startswith("<"):
            return False
        if self._own and (path == self._own or path.startswith(f"{self._own}/")):
            return True
        return not path.startswith(self._others) and "/site-packages/" not in path


def is_librarys(path: str) -> bool:
    """Return True for a file of this library, other than a world's or a scenario's."""
    return path.startswith(_LIBRARY)


def _root_of(module_name: str) -> str:
    """The folder of the outermost package that a class comes from, or its file; for a shipped world, that world's."""
    parts = module_name.split(".")
    outermost = ".".join(parts[:3]) if parts[:2] == ["sim", "worlds"] else parts[0]
    path = getattr(sys.modules.get(outermost), "__file__", None) or ""
    is_pythons = path.startswith(f"{sysconfig.get_paths()['stdlib']}/") and "/site-packages/" not in path
    if not path or is_pythons or outermost in {"recorder", "replayer", "sim"}:
        return ""
    return str(Path(path).parent) if Path(path).name == "__init__.py" else path
