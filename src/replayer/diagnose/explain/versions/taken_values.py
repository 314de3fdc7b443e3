"""Values that a module or a class is given by one statement, taken from another version of the code like its functions."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any

from replayer.diagnose.explain.line_pairs.source_functions import value_statements


def made_value(module: ModuleType, holder: Any, name: str, tree: ast.Module, path: str) -> Any:
    """The value that a statement of a file gives with the globals of a module. Raises KeyError, and whatever the statement raises."""
    program = ast.Module([value_statements(tree)[name]], [])
    names = dict(vars(holder)) if isinstance(holder, type) else {}
    exec(compile(program, path, "exec", dont_inherit=True), vars(module), names)  # noqa: S102 - the user's own code
    return names[name.rpartition(".")[2]]
