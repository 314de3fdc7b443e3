"""The packages that a process has loaded: one that is missing where the run is replayed may have an effect.

And the source of the user's modules that functions import: a process may not have loaded them when a recording begins.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import sys
import types
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from recorder.ambient.outside.code_text import code_text
from recorder.ambient.roots import content_of, is_installed, is_users

MODULES_MAX = 64  # In a note.
_OURS = {"sim", "recorder", "replayer"}
_IMPORTED_MAX = 100
_SOURCE_BYTES_MAX = 1 << 20
_IMPORT = dis.opmap["IMPORT_NAME"]


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
        and file_of(module)
    )
    if len(names) > MODULES_MAX:
        names.sort(key=lambda name: not is_users(name))
    return sorted(names[:MODULES_MAX])


def missing_imports(names: list[str] | tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Of these modules, those that are not found and that a loaded module of the user's imports: the name, file and line."""
    missing = [name for name in names if name.isidentifier() and name not in sys.modules and not _is_found(name)]
    loaded = [(file_of(module), name) for name, module in list(sys.modules.items())] if missing else []
    own = [file for file, name in loaded if file is not None and file.endswith(".py") and is_users(name)]
    imports = {file: _imports_in(Path(file)) for file in own}
    return [(name, file, lines[name]) for name in missing for file, lines in imports.items() if name in lines]


def file_of(module: object) -> str | None:
    """The file of a module; None if it has none."""
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


def imported_sources(functions: Iterable[types.FunctionType]) -> dict[str, tuple[str, str]]:
    """The user's modules that functions import while they run, and what those import: the code of each, and the place.

    They are read and compiled, not imported: whether a process has loaded them makes no difference.
    """
    waiting = [
        (name, f"{Path(one.__code__.co_filename).name}:{line}")
        for one in functions
        for name, line in _imports_of(one.__code__, str(one.__globals__.get("__package__") or ""))
    ]
    found: dict[str, tuple[str, str]] = {}
    seen = set[str]()
    for name, place in waiting:  # It grows by what these import.
        path = None if name in seen else _own_source(name)
        seen.add(name)
        code = None if path is None or len(found) >= _IMPORTED_MAX else _compiled(path)
        if path is None or code is None:
            continue
        found[name] = code_text(code), place
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        waiting += [(inner, f"{path.name}:{line}") for inner, line in _imports_of(code, package)]
    return found


def _imports_of(code: types.CodeType, package: str) -> Iterator[tuple[str, int]]:
    """The full names of what code imports, of those in it as well; and of what may be modules of a package."""
    before: list[object] = [0, None]
    line = code.co_firstlineno
    # Instructions begin at even bytes. To read them one by one takes a hundred times as long, and few functions import.
    for one in dis.get_instructions(code) if _IMPORT in code.co_code[::2] else ():
        line = one.starts_line if type(one.starts_line) is int else getattr(one, "line_number", None) or line
        if one.opname == "IMPORT_NAME":
            level, names = before[-2:]
            outer = package.split(".")[: len(package.split(".")) - level + 1] if type(level) is int and level else []
            full = ".".join([*outer, *filter(None, [str(one.argval)])])
            yield full, line
            for name in names if isinstance(names, tuple) else ():
                yield f"{full}.{name}", line
        before = [*before[-1:], one.argval]
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _imports_of(inner, package)


def _own_source(name: str) -> Path | None:
    """The file of a module of the user's; None for any other, and if it is not found."""
    if name.partition(".")[0] in sys.stdlib_module_names or name.partition(".")[0] in _OURS:
        return None
    parts, folders = name.split("."), None
    for number in range(1, len(parts) + 1):
        try:
            spec = PathFinder.find_spec(".".join(parts[:number]), folders)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        folders = spec.submodule_search_locations
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return None if is_installed(spec.origin) or "/site-packages/" in spec.origin else Path(spec.origin)


def _compiled(path: Path) -> types.CodeType | None:
    """The code of a module, without docstrings; None if it cannot be compiled."""
    try:
        source = path.read_bytes()
        if len(source) > _SOURCE_BYTES_MAX:
            return None
        tree = ast.parse(source)
        for node in ast.walk(tree):
            match node:
                case (
                    ast.Module(body=[ast.Expr(ast.Constant(str())) as text, *_] as body)
                    | ast.ClassDef(body=[ast.Expr(ast.Constant(str())) as text, *_] as body)
                ):
                    body[0] = ast.copy_location(ast.Pass(), text)
        return compile(tree, str(path), "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
