"""The source of a module with single statements of another version of the code, loaded in place of the module's own.

What a module makes as it is loaded, such as the members of an enumeration or the fields of a class, cannot be put into a process
that has loaded it: other values are made of it. So the module is loaded with the statement as the other version has it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

import attrs

from replayer.diagnose.explain.line_pairs.source_functions import value_statements
from replayer.diagnose.explain.source_lines import SourceFile


@attrs.frozen
class EditedStatement:
    """A statement of a module or a class body that gives a value to one name, in both versions; None in one without it.

    Attributes:
        name: qualified.
    """

    name: str
    first: ast.stmt | None
    second: ast.stmt | None


def statement_at(first: SourceFile, second: SourceFile, line: int, *, is_first: bool) -> EditedStatement | None:
    """The statement at a line of one of the versions; None if it gives no value to a name, or others to that name, too."""
    own, other = (value_statements(source.tree) for source in (first, second))
    chosen = own if is_first else other
    names = [name for name, node in chosen.items() if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if len(names) != 1 or not _has_holder(first, names[0]) or not _has_holder(second, names[0]):
        return None
    return EditedStatement(names[0], own.get(names[0]), other.get(names[0]))


def made_of(first: SourceFile, second: SourceFile, statement: EditedStatement) -> list[EditedStatement]:
    """The other statements of the module that differ and mention a statement's name, or its class."""
    own, other = (value_statements(source.tree) for source in (first, second))
    words = set(statement.name.split("."))
    found = [EditedStatement(name, own[name], other[name]) for name in own if name in other and name != statement.name]
    return [
        one
        for one in found
        if one.first is not None
        and one.second is not None
        and ast.dump(one.first) != ast.dump(one.second)
        and words & {part.id for part in ast.walk(one.first) if isinstance(part, ast.Name)}
    ]


def mixed_source(first: SourceFile, second: SourceFile, statements: Sequence[EditedStatement]) -> str | None:
    """The source of the second version with statements as the first one has them; None if the place of one is not known."""
    lines = list(second.lines)
    changes = []
    for one in statements:
        text = first.lines[one.first.lineno - 1 : one.first.end_lineno] if one.first is not None else []
        if one.second is not None:
            begin, end = one.second.lineno - 1, one.second.end_lineno or one.second.lineno
            changes.append((begin, end, text or [f"{' ' * one.second.col_offset}pass"]))
        elif one.first is not None and (place := _place(first, second, one)) is not None:
            changes.append((place, place, text))
        else:
            return None
    for begin, end, text in sorted(changes, key=lambda change: change[:2], reverse=True):
        lines[begin:end] = text
    return "\n".join([*lines, ""])


def _place(first: SourceFile, second: SourceFile, statement: EditedStatement) -> int | None:
    """Where a statement of the first version goes: before the next one of its class that both versions have."""
    holder = statement.name.rpartition(".")[0]
    own, other = (value_statements(source.tree) for source in (first, second))
    after = [
        other[name].lineno - 1
        for name, node in own.items()
        if statement.first is not None
        and node.lineno > statement.first.lineno
        and name.rpartition(".")[0] == holder
        and name in other
    ]
    return after[0] if after else None


def _has_holder(source: SourceFile, name: str) -> bool:
    *classes, _ = name.split(".")
    body: Sequence[ast.stmt] = source.tree.body
    for kind in classes:
        found = [node for node in body if isinstance(node, ast.ClassDef) and node.name == kind]
        if len(found) != 1:
            return False
        body = found[0].body
    return True


def load_mixed(sources: Mapping[str, str]) -> None:
    """Let this process load modules from these sources, by name, in place of those of their files."""
    sys.meta_path.insert(0, _Finder(sources))


class _Finder(MetaPathFinder):
    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The place of a module, with another source."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._sources else None
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(fullname, spec.loader.path, self._sources[fullname])
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> Any:
        """Compile the source; nothing of it is kept in a file."""
        return compile(self._source, self.get_filename(fullname), "exec", dont_inherit=True)
