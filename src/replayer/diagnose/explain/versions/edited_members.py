"""The first line in which the members of an enumeration differ between two versions of the code."""

from __future__ import annotations

import ast
from itertools import zip_longest

from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile


def edited_member(
    first: SourceFile, second: SourceFile, name: str
) -> tuple[SourceLocation, SourceLocation | None] | None:
    """Of a class of the module: the line of both, or of the version that has it alone. None for what is no class in both.

    Members are paired by their names; where both have the same ones, by their places.
    """
    members = [_members(source.tree, name) for source in (first, second)]
    own, other = ({one for one, _, _ in found} for found in members)
    for one, two in zip_longest(*members):
        if one is not None and two is not None and one[:2] == two[:2]:
            continue
        if two is not None and two[0] not in own:
            return _place(second, two[2]), None
        if one is not None and one[0] not in other:
            return _place(first, one[2]), None
        if one is not None and two is not None:
            return _place(first, one[2]), _place(second, two[2])
    return None


def _members(tree: ast.Module, name: str) -> list[tuple[str, str, int]]:
    """The names to which a class gives values, with the value as text and the line."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return [
        (target.id, ast.dump(node.value), node.lineno)
        for node in (classes[0].body if len(classes) == 1 else ())
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def _place(source: SourceFile, line: int) -> SourceLocation:
    return SourceLocation(source.path, line, "", source.statement_text(line))
