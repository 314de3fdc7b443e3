"""A function with some of the edits between two versions as the first has them, and the others as the second has them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import attrs

from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.source_functions import FunctionNode, functions_of
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.versions.edits.statement_order import ORDER, first_two, joined_orders

_INNER = ("body", "orelse", "finalbody")
_HOLDERS = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try)


@attrs.frozen(eq=False)
class Edit:
    """Statements of one version that stand in the place of those of the other; one of the two may have none.

    Attributes:
        lines: the first in each version; of a version without any, the head of the function.
        last_lines: the last in each.
        reordered: of statements that both versions have, in another order: two of them, as each version has them; else empty.
    """

    own: Sequence[ast.stmt]
    other: Sequence[ast.stmt]
    lines: tuple[int, int]
    last_lines: tuple[int, int]
    reordered: Sequence[Sequence[ast.stmt]] = ()

    def is_at(self, side: int, line: int) -> bool:
        """Return True for a line of it in one of the versions."""
        return bool((self.own, self.other)[side]) and self.lines[side] <= line <= self.last_lines[side]


@attrs.frozen(eq=False)
class _Nested:
    """A statement that holds others, with the parts of what stands in it. head: its own edit; None if both have one head."""

    own: ast.stmt
    other: ast.stmt
    head: Edit | None
    inner: dict[str, list[_Part]]


_Part = ast.stmt | Edit | _Nested


class FunctionEdits:
    """The edits of a function of both versions.

    Attributes:
        edits: in their order; what stands before its body is one.
    """

    def __init__(self, name: str, first: SourceFile, second: SourceFile, lines: LineMap) -> None:
        self.edits: list[Edit] = []
        self._name, self._text = name, "\n".join(first.lines)
        own, other = functions_of(first.tree)[name], copy.deepcopy(functions_of(second.tree)[name])
        _rename(other, lines.renames(name))
        self._nodes, self._lines = (own, other), lines
        self._heads = own.lineno, other.lineno
        self._head: Edit | None = None
        if _head(own) != _head(other):
            self._head = Edit([own], [other], *_head_lines(own, other))
            self.edits.append(self._head)
        self._parts = list(self._compared(_body(own), _body(other)))

    def text(self, chosen: AbstractSet[int]) -> str:
        """The source of the first version, with this function as the second has it, apart from the edits of these numbers."""
        tree = ast.parse(self._text)
        node, (own, other) = functions_of(tree)[self._name], self._nodes
        taken = {id(one) for number, one in enumerate(self.edits) if number in chosen}
        head = own if self._head is not None and id(self._head) in taken else other
        node.decorator_list, node.args = head.decorator_list, head.args
        node.body = _built(self._parts, taken) or [ast.Pass()]
        return ast.unparse(ast.fix_missing_locations(tree))

    def _compared(self, own: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> Iterator[_Part]:
        for tag, begin, end, other_begin, other_end in joined_orders(
            list(map(ast.dump, own)), list(map(ast.dump, other))
        ):
            parts = own[begin:end], other[other_begin:other_end]
            if tag == "equal":
                yield from parts[1]
            elif tag == ORDER:
                yield from self._edit(*parts, reordered=first_two(*parts))
            else:
                yield from self._replaced(*parts)

    def _replaced(self, own: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> Iterator[_Part]:
        """The parts of two stretches that have no statement in common: pairs of statements, and what stands between them."""
        begin = other_begin = 0
        for place, node in enumerate(other):
            line = self._lines.to_first(node.lineno)
            pair = next((at for at in range(begin, len(own)) if own[at].lineno == line), None)
            if pair is None:
                continue
            yield from self._edit(own[begin:pair], other[other_begin:place])
            yield from self._pair(own[pair], node)
            begin, other_begin = pair + 1, place + 1
        yield from self._edit(own[begin:], other[other_begin:])

    def _pair(self, own: ast.stmt, other: ast.stmt) -> Iterator[_Part]:
        if not isinstance(other, _HOLDERS) or type(own) is not type(other):
            yield from self._edit([own], [other])
            return
        head = None
        if _without_inner(own) != _without_inner(other):
            ends = [max(one.lineno, one.body[0].lineno - 1) for one in (own, other)]
            head = Edit([own], [other], (own.lineno, other.lineno), (ends[0], ends[1]))
            self.edits.append(head)
        inner = {
            name: list(self._compared(getattr(own, name), getattr(other, name)))
            for name in _INNER
            if hasattr(other, name)
        }
        yield _Nested(own, other, head, inner)

    def _edit(
        self, own: Sequence[ast.stmt], other: Sequence[ast.stmt], reordered: Sequence[Sequence[ast.stmt]] = ()
    ) -> Iterator[_Part]:
        if not own and not other:
            return
        starts = [body[0].lineno if body else head for body, head in zip((own, other), self._heads, strict=True)]
        ends = [(body[-1].end_lineno or body[-1].lineno) if body else 0 for body in (own, other)]
        made = Edit(own, other, (starts[0], starts[1]), (ends[0], ends[1]), reordered)
        self.edits.append(made)
        yield made


def _built(parts: Sequence[_Part], taken: AbstractSet[int]) -> list[ast.stmt]:
    body: list[ast.stmt] = []
    for part in parts:
        match part:
            case Edit():
                body += part.own if id(part) in taken else part.other
            case _Nested():
                node = copy.copy(part.own if id(part.head) in taken else part.other)
                for name, inner in part.inner.items():
                    made = _built(inner, taken)
                    setattr(node, name, made or ([ast.Pass()] if name == "body" else []))
                body.append(node)
            case _:
                body.append(part)
    return body


def _rename(node: FunctionNode, renames: Mapping[str, str]) -> None:
    """Give the variables of the second version the names that they have in the first."""
    kept = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    kept |= {part.name or "" for part in ast.walk(node) if isinstance(part, ast.ExceptHandler)}
    names = {old: new for old, new in renames.items() if old not in kept}
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            part.id = names.get(part.id, part.id)


def _body(node: FunctionNode) -> Sequence[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def _head(node: FunctionNode) -> str:
    """What stands before the body, without annotations."""
    arguments = copy.deepcopy(node.args)
    for part in ast.walk(arguments):
        if isinstance(part, ast.arg):
            part.annotation = None
    return " ".join([type(node).__name__, *map(ast.dump, node.decorator_list), ast.dump(arguments)])


def _head_lines(own: FunctionNode, other: FunctionNode) -> tuple[tuple[int, int], tuple[int, int]]:
    are_decorators = list(map(ast.dump, own.decorator_list)) != list(map(ast.dump, other.decorator_list))
    starts = [
        node.decorator_list[0].lineno if are_decorators and node.decorator_list else node.lineno
        for node in (own, other)
    ]
    return (starts[0], starts[1]), (own.lineno, other.lineno)


def _without_inner(node: ast.stmt) -> str:
    plain = copy.copy(node)
    for name in _INNER:
        if hasattr(plain, name):
            setattr(plain, name, [])
    return ast.dump(plain)
