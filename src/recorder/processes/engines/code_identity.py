"""The code that a process runs, for a comparison with that of a worker: results of another version are other results."""

from __future__ import annotations

import hashlib
import importlib
import platform
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from sim.extras import DISTRIBUTION

_OURS = ("sim", "recorder", "replayer")


@cache
def code_identity() -> dict[str, str]:
    """The versions that workers must have, by name; that of this package with a digest of its sources."""
    digest = hashlib.blake2b(digest_size=6)
    for package in _OURS:
        folder = Path(importlib.import_module(package).__file__ or "").parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        version = "unknown"
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "NumPy": np.__version__,
        DISTRIBUTION: f"{version} ({digest.hexdigest()})",
    }


def difference(expected: Mapping[str, str], actual: Mapping[str, str]) -> str | None:
    """The first difference for people: "NumPy 1.26.4 instead of 2.1.0"; None if there is none."""
    for name, version in expected.items():
        if actual.get(name) != version:
            return f"{name} {actual.get(name, 'missing')} instead of {version}"
    return None


def user_modules() -> dict[str, str]:
    """Digests of the source files of the modules that this process has imported and that are not installed, by name."""
    return {name: digest for name, path in _user_files().items() if (digest := _digest(path)) is not None}


def changed_module(expected: Mapping[str, str]) -> str | None:
    """The first of these modules that this process has imported with another source; None if there is none."""
    own = _user_files()
    return next((name for name, digest in expected.items() if name in own and _digest(own[name]) != digest), None)


def _user_files() -> dict[str, Path]:
    installed = tuple(
        {*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), sys.prefix}
    )
    files = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.partition(".")[0] in (*_OURS, "__main__", "__mp_main__") or not isinstance(path, str):
            continue
        if path.endswith(".py") and not path.startswith(installed):
            files[name] = Path(path)
    return files


def _digest(path: Path) -> str | None:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
    except OSError:
        return None
