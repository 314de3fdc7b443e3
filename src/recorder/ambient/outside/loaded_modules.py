"""The packages that a process has loaded: one that is missing where the run is replayed may have an effect."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

from recorder.ambient.roots import content_of, is_users

MODULES_MAX = 64  # In a note.
_OURS = {"sim", "recorder", "replayer"}


def loaded_modules() -> list[str]:
    """The names of top-level modules with a file that are neither Python's nor this library's; at most MODULES_MAX.

    Of more than these, the user's own come first.
    """
    names = sorted(
        name
        for name, module in list(sys.modules.items())
        if "." not in name
        and name not in sys.stdlib_module_names
        and name not in _OURS
        and not name.startswith("_")
        and _file_of(module)
    )
    if len(names) > MODULES_MAX:
        names.sort(key=lambda name: not is_users(name))
    return sorted(names[:MODULES_MAX])


def missing_imports(names: list[str] | tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Of these modules, those that are not found and that a loaded module of the user's imports: the name, file and line."""
    missing = [name for name in names if name.isidentifier() and name not in sys.modules and not _is_found(name)]
    loaded = [(_file_of(module), name) for name, module in list(sys.modules.items())] if missing else []
    own = [file for file, name in loaded if file is not None and file.endswith(".py") and is_users(name)]
    imports = {file: _imports_in(Path(file)) for file in own}
    return [(name, file, lines[name]) for name in missing for file, lines in imports.items() if name in lines]


def _file_of(module: object) -> str | None:
    file = (content_of(module) or {}).get("__file__")
    return file if isinstance(file, str) else None


def _imports_in(path: Path) -> dict[str, int]:
    """The top-level modules that a file imports, each with its first line; none of a file that cannot be read."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError):
        return {}
    lines: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        else:
            continue
        for name in names:
            lines.setdefault(name.partition(".")[0], node.lineno)
    return lines


def _is_found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
