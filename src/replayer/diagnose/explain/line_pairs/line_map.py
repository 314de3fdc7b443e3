"""The corresponding lines of two versions of a file, and the local variables that have another name in the second one."""

from __future__ import annotations

import ast
import copy
import difflib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from replayer.diagnose.explain.line_pairs.named_parts import segments
from replayer.diagnose.explain.line_pairs.source_functions import (
    FunctionNode,
    functions_of,
    local_names,
    names_in,
    outermost,
)
from replayer.diagnose.explain.source_lines import SourceFile

_PAIRED_LINES_MAX = 40  # Of a block with more lines, each line is paired with the one at its place.
_BODIES = {"body", "orelse", "finalbody", "handlers", "cases"}
_OTHER_KIND = 0.01  # Of two lines that are statements of different kinds: paired only if there is nothing else.

Renames = Mapping[str, str]  # From names in the second version to those in the first.


class LineMap:
    """The corresponding lines of two versions of a file.

    Attributes:
        edited: lines of the second file whose text differs in the first, by more than layout and names of local variables.
        same: True if the two files have the same lines.
    """

    def __init__(self, first: SourceFile, second: SourceFile) -> None:
        self.edited: set[int] = set()
        self.same = first.lines == second.lines
        self._to_first: dict[int, int] = {}
        self._renames: dict[str, dict[str, str]] = {}
        self._names: tuple[dict[str, frozenset[str]], ...] = ({}, {})
        if self.same:
            return
        functions = functions_of(first.tree), functions_of(second.tree)
        places = tuple(_names_by_line(one) for one in functions)
        for second_line, first_line, is_edited in _pairs(first, second, places):
            self._to_first[second_line] = first_line
            if is_edited:
                self.edited.add(second_line)
        self._names = tuple({name: names_in(node) for name, node in one.items()} for one in functions)
        heads = _statements(first.tree), _statements(second.tree)
        for name in functions[0].keys() & functions[1].keys():
            both = functions[0][name], functions[1][name]
            own = local_names(both[0]) - names_in(both[1]), local_names(both[1]) - names_in(both[0])
            pairs = [
                (heads[0][self._to_first[line]], node)
                for line, node in heads[1].items()
                if places[1].get(line) == name and self._to_first.get(line) in heads[0]
            ]
            self._renames[name] = _renames(pairs, own)
        self._forget_renamed(first, second, places[1])

    def to_first(self, line: int) -> int:
        """The corresponding line in the first file; a negative number if there is none."""
        return line if self.same else self._to_first.get(line, -line)

    def has_first(self, first_line: int) -> bool:
        """Return True if a line of the first file has a corresponding line in the second."""
        return self.same or first_line in self._to_first.values()

    def renames(self, function: str) -> Renames:
        """The local variables of a function that have another name in the second version."""
        return self._renames.get(outermost(function), {})

    def is_alike(self, one: FunctionNode, other: FunctionNode, name: str) -> bool:
        """Return True if two versions of a function differ in layout, docstrings and names of variables alone."""
        return _content(one, {}) == _content(other, self.renames(name))

    def is_of_one(self, function: str, name: str) -> bool:
        """Return True for a variable of a function that only one of the two versions mentions. name: as the first has it."""
        both = [names.get(outermost(function)) for names in self._names]
        if both[0] is None or both[1] is None:
            return False
        renames = self.renames(function)
        return (name in both[0]) != (name in {renames.get(one, one) for one in both[1]})

    def _forget_renamed(self, first: SourceFile, second: SourceFile, places: Mapping[int, str]) -> None:
        """Take those lines out of the edited ones whose statements are all alike but for layout and renamed variables."""
        own, other = _statements_at(first.tree), _statements_at(second.tree)
        for line in sorted(self.edited):
            nodes = own.get(self._to_first[line], []), other.get(line, [])
            if not nodes[1] and second.statement(line) is None and second.text(line).startswith("#"):
                self.edited.discard(line)
            if not nodes[0] or len(nodes[0]) != len(nodes[1]):
                continue
            renames = self._renames.get(places.get(line, ""), {})
            if all(_text(one, {}) == _text(two, renames) for one, two in zip(*nodes, strict=True)):
                self.edited.discard(line)


def _pairs(
    first: SourceFile, second: SourceFile, places: Sequence[Mapping[int, str]]
) -> Iterator[tuple[int, int, bool]]:
    """Pairs of a line of the second file and one of the first, with True for another text.

    A function that was moved behind another one, or a table, is compared with itself.
    """
    lines = [[line.strip() for line in source.lines] for source in (first, second)]
    complete = difflib.SequenceMatcher(None, lines[0], lines[1], autojunk=False)
    for own, other in segments(first, second, complete.get_matching_blocks()):
        texts = [lines[0][number] for number in own], [lines[1][number] for number in other]
        matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
        for tag, start, end, other_start, other_end in matcher.get_opcodes():
            rows, columns = own[start:end], other[other_start:other_end]
            found = list(zip(rows, columns, strict=False))
            if tag == "replace" and len(rows) != len(columns) and max(len(rows), len(columns)) <= _PAIRED_LINES_MAX:
                found = _most_alike(lines, places, rows, columns)
            for row, column in found:
                yield column + 1, row + 1, tag != "equal"


def _most_alike(
    lines: Sequence[Sequence[str]],
    places: Sequence[Mapping[int, str]],
    rows: Sequence[int],
    columns: Sequence[int],
) -> list[tuple[int, int]]:
    """Pairs of lines of two blocks, in their order, so that the pairs are as alike as can be."""
    best: dict[tuple[int, int], tuple[float, list[tuple[int, int]]]] = defaultdict(lambda: (0.0, []))
    # A matcher keeps what it finds out about its second text.
    matchers = {column: difflib.SequenceMatcher(None, "", lines[1][column], autojunk=False) for column in columns}
    for place, row in enumerate(rows):
        for other_place, column in enumerate(columns):
            is_alike = places[0].get(row + 1) == places[1].get(column + 1)
            likeness = _likeness(lines[0][row], lines[1][column], matchers[column] if is_alike else None)
            score, chosen = best[place - 1, other_place - 1]
            taken = (score + likeness, [*chosen, (row, column)]) if likeness else (0.0, [])
            before = best[place - 1, other_place], best[place, other_place - 1]
            best[place, other_place] = max(taken, *before, key=lambda one: one[0])
    return best[len(rows) - 1, len(columns) - 1][1]


def _likeness(one: str, other: str, matcher: difflib.SequenceMatcher[str] | None) -> float:
    """From 0 to 1; 0 for an empty line.

    matcher: with the second line as its second text; None if the lines are of different functions.
    """
    if not one or not other:
        return 0.0
    if matcher is None or _kind(one) != _kind(other):
        return _OTHER_KIND
    matcher.set_seq1(one)
    return matcher.ratio() if matcher.real_quick_ratio() > _OTHER_KIND else _OTHER_KIND


def _kind(line: str) -> str:
    """The keyword that a statement begins with; empty for an assignment and a call."""
    word = line.partition(" ")[0].rstrip(":")
    return word if word in {"return", "if", "elif", "else", "for", "while", "with", "def", "class", "raise"} else ""


def _names_by_line(functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]) -> dict[int, str]:
    """The function that each line is of."""
    return {line: name for name, node in functions.items() for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def _statements(tree: ast.Module) -> dict[int, ast.stmt]:
    """The statements by their first lines; of several in one line, the innermost."""
    return {node.lineno: node for node in ast.walk(tree) if isinstance(node, ast.stmt)}


def _statements_at(tree: ast.Module) -> dict[int, list[ast.stmt]]:
    """For each line, the statements that it holds a part of; of one that holds others, of its head."""
    found = defaultdict[int, list[ast.stmt]](list)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            for line in range(node.lineno, _last_line(node) + 1):
                found[line].append(node)
    return found


def _last_line(node: ast.stmt) -> int:
    body: list[ast.stmt] = getattr(node, "body", [])
    if not body:
        return node.end_lineno or node.lineno
    heads = [value for name, value in ast.iter_fields(node) if name not in _BODIES]
    parts = [part for value in heads for part in (value if isinstance(value, list) else [value])]
    ends = [part.end_lineno or 0 for part in parts if isinstance(part, ast.expr)]  # The body may begin where they end.
    return max(node.lineno, body[0].lineno - 1, *ends)


def _renames(pairs: Sequence[tuple[ast.stmt, ast.stmt]], own: tuple[frozenset[str], frozenset[str]]) -> dict[str, str]:
    """The variables at the same places of corresponding statements, of which each version has only its own.

    own: the variables of the function that the other version does not mention: a line that still does reads something else.
    """
    votes = Counter(
        (second, first)
        for pair in pairs
        if _give_alike(*pair)
        for first, second in _names_at_places(*pair)
        if second in own[1] and first in own[0]
    )
    renames: dict[str, str] = {}
    for (second, first), _ in votes.most_common():
        if second not in renames and first not in renames.values():
            renames[second] = first
    return renames


def _give_alike(first: ast.stmt, second: ast.stmt) -> bool:
    """Return False for two assignments of which one gives a constant and the other does not: it need not be one variable."""
    constants = [isinstance(getattr(one, "value", None), ast.Constant) for one in (first, second)]
    return constants[0] == constants[1]


def _names_at_places(first: ast.AST, second: ast.AST) -> Iterator[tuple[str, str]]:
    if type(first) is not type(second):
        return
    match first, second:
        case ast.Name(id=one), ast.Name(id=other):
            yield one, other
        case ast.arg(arg=one), ast.arg(arg=other):
            yield one, other
    for name in first._fields:
        if name in _BODIES and isinstance(first, ast.stmt):
            continue
        parts = [value if isinstance(value := getattr(one, name, None), list) else [value] for one in (first, second)]
        if len(parts[0]) == len(parts[1]):
            for one, other in zip(*parts, strict=True):
                if isinstance(one, ast.AST) and isinstance(other, ast.AST):
                    yield from _names_at_places(one, other)


def _content(node: FunctionNode, renames: Renames) -> str:
    """A function without its docstring and with other names of variables."""
    plain = copy.deepcopy(node)
    if ast.get_docstring(plain, clean=False) is not None:
        plain.body = plain.body[1:]
    for part in ast.walk(plain):
        if isinstance(part, ast.Name):
            part.id = renames.get(part.id, part.id)
    return ast.dump(plain)


def _text(node: ast.stmt, renames: Renames) -> str:
    """A statement, or the head of one that holds others, with other names of variables."""
    names = {id(part): part for part in ast.walk(node) if isinstance(part, ast.Name)}
    kept = {key: part.id for key, part in names.items()}
    for part in names.values():
        part.id = renames.get(part.id, part.id)
    heads = {name: value for name, value in ast.iter_fields(node) if name not in _BODIES}
    text = f"{type(node).__name__} " + " ".join(
        ast.dump(value)
        if isinstance(value, ast.AST)
        else "; ".join(map(_part_text, value))
        if isinstance(value, list)
        else repr(value)
        for value in heads.values()
    )
    for key, part in names.items():
        part.id = kept[key]
    return text


def _part_text(part: object) -> str:
    return ast.dump(part) if isinstance(part, ast.AST) else repr(part)
