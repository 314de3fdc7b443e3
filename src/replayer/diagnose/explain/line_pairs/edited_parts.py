"""The part in which two versions of one statement, or of one function, differ, by what they mean and not by their layout."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.source_functions import FunctionNode

Pair = tuple[int, int]  # A line in each version.


def differing_lines(one: ast.stmt, other: ast.stmt, by_key: int = 0) -> Pair | None:
    """The lines of the only entry of a value that differs, else the first ones of the statements; None if the two are alike.

    by_key: for so many levels of tables, entries are read by keys alone that both have: those of one alone do not count. Two constants are alike if they are written alike: ``10`` and ``10.0`` are equal, and are not.
    """
    if ast.dump(one) == ast.dump(other):
        return None
    return _differing(one, other, (one.lineno, other.lineno), by_key)


def _differing(one: ast.AST, other: ast.AST, lines: Pair, by_key: int) -> Pair:
    """lines: of the innermost part so far, of which all that differs is a part."""
    lines = getattr(one, "lineno", lines[0]), getattr(other, "lineno", lines[1])
    if type(one) is not type(other):
        return lines
    if isinstance(one, ast.Dict) and isinstance(other, ast.Dict):
        return _differing_entry(one, other, lines, by_key)
    pairs: list[tuple[object, object]] = []
    for name in one._fields:
        parts = [value if isinstance(value := getattr(node, name, None), list) else [value] for node in (one, other)]
        if len(parts[0]) != len(parts[1]):
            return lines
        pairs += [pair for pair in zip(*parts, strict=True) if not _are_alike(*pair)]
    if len(pairs) != 1:
        return lines
    first, second = pairs[0]
    are_nodes = isinstance(first, ast.AST) and isinstance(second, ast.AST)
    return _differing(first, second, lines, by_key) if are_nodes else lines  # type: ignore[arg-type]


def _differing_entry(one: ast.Dict, other: ast.Dict, lines: Pair, by_key: int) -> Pair:
    entries = [
        {_text(key): (key, value) for key, value in zip(node.keys, node.values, strict=True)} for node in (one, other)
    ]
    # What ``**`` puts in has no key, and may have any.
    if entries[0].keys() != entries[1].keys() and (by_key <= 0 or None in (*one.keys, *other.keys)):
        return lines
    both = [key for key in entries[0] if key in entries[1]]
    changed = [key for key in both if not _are_alike(entries[0][key][1], entries[1][key][1])]
    if len(changed) != 1:
        return lines
    (key, value), (other_key, other_value) = (found[changed[0]] for found in entries)
    starts = value.lineno if key is None else key.lineno, other_value.lineno if other_key is None else other_key.lineno
    inner = _differing(value, other_value, starts, by_key - 1)
    # A value that is no table is told with its key, which may stand in a line before it.
    return inner if isinstance(value, ast.Dict | ast.List | ast.Tuple | ast.Set) else starts


def _are_alike(one: object, other: object) -> bool:
    return _text(one) == _text(other)


def _text(part: object) -> str:
    return ast.dump(part) if isinstance(part, ast.AST) else repr(part)


def lines_that_differ(one: FunctionNode, other: FunctionNode, lines: LineMap) -> Pair:
    """The first lines to name of two versions of a function: of what its decorators, its defaults or its body differ in.

    The heads of the functions where that is a line of one version alone.
    """
    if list(map(ast.dump, one.decorator_list)) != list(map(ast.dump, other.decorator_list)):
        heads = [node.decorator_list[0].lineno if node.decorator_list else node.lineno for node in (one, other)]
        return heads[0], heads[1]
    head = one.lineno, other.lineno
    if _arguments(one) != _arguments(other):
        return head
    bodies = [_lines_of(_body(node)) for node in (one, other)]
    for line in bodies[1]:
        if line in lines.edited and lines.to_first(line) in bodies[0]:
            return lines.to_first(line), line
    return head


def _arguments(node: FunctionNode) -> str:
    """The arguments with their defaults, without annotations, which a call does not read."""
    arguments = node.args
    named = [arguments.posonlyargs, arguments.args, arguments.kwonlyargs]
    names = [[one.arg for one in group] for group in named]
    rest = [one.arg if one is not None else None for one in (arguments.vararg, arguments.kwarg)]
    defaults = [_text(one) for one in (*arguments.defaults, *arguments.kw_defaults)]
    return repr([names, rest, defaults])


def _body(node: FunctionNode) -> Sequence[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def _lines_of(body: Sequence[ast.stmt]) -> range:
    return range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1) if body else range(0)
