"""The packages that a process has loaded: one that is missing where the run is replayed may have an effect."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

from recorder.ambient.roots import is_users

MODULES_MAX = 64  # In a note.
_OURS = {"sim", "recorder", "replayer"}


def loaded_modules() -> list[str]:
    """The names of top-level modules with a file that are neither Python's nor this library's; the first MODULES_MAX."""
    names = [
        name
        for name, module in list(sys.modules.items())
        if "." not in name
        and name not in sys.stdlib_module_names
        and name not in _OURS
        and not name.startswith("_")
        and getattr(module, "__file__", None)
    ]
    return sorted(names)[:MODULES_MAX]


def missing_imports(names: list[str] | tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Of these modules, those that are not found and that a loaded module of the user's imports: the name, file and line."""
    missing = [name for name in names if name.isidentifier() and name not in sys.modules and not _is_found(name)]
    found = []
    for name in missing:
        pattern = re.compile(rf"^\s*(?:from|import)\s+{name}\b")
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if not file or not file.endswith(".py") or not is_users(module.__name__):
                continue
            lines = (
                Path(file).read_text(encoding="utf-8", errors="replace").splitlines() if Path(file).is_file() else []
            )
            numbers = [number for number, line in enumerate(lines, 1) if pattern.match(line)]
            found += [(name, file, numbers[0])] if numbers else []
    return found


def _is_found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
