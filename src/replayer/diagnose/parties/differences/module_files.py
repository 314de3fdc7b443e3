"""The files of modules: whether two are the same, and whether one is of an installed package."""

from __future__ import annotations

import filecmp
from pathlib import Path


def is_installed(path: str) -> bool:
    """Return True for a file of an installed package."""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def same_file(one: str, other: str) -> bool:
    """Return True for two paths of one file, or of files with equal contents."""
    first, second = Path(one), Path(other)
    if first.resolve() == second.resolve():
        return True
    try:
        return filecmp.cmp(first, second, shallow=False)
    except OSError:
        return False
