"""Read the source of a simulation: the names that a line reads, writes and calls, and its line in the other version.

A statement of several lines counts as one; of an ``if``, ``for``, ``while`` or ``with``, only the head does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import attrs

_GOING_THROUGH = frozenset({"enumerate", "iter", "list", "reversed", "tuple", "zip"})
_VIEWS = frozenset({"items", "keys", "values"})


@attrs.frozen
class Statement:
    """One statement, or the head of one that holds others.

    Attributes:
        first_line, last_line: counted from 1.
        reads: names that it reads; ``self.x`` is one, and a string constant, which may name a field, is one in quotes.
        writes: names that it assigns to; ``self.x`` is one.
        calls: the functions that it calls, as written.
        inner: names that its comprehensions and generator expressions bind: the function around them does not see those.
        iterates: names that it iterates over, or hands to a function that may, or takes an element from.
        displays: True if it iterates over a set that it makes.
        makes: of the sets that it makes so, those whose order follows from what names hold, as written.
        asks: the last names of the functions and properties whose results it iterates over, as in iterates.
        chains: attributes that it names, as written: ``creep.health``, ``self.market.prices``.
        may_call: of the functions, those that it need not call each time, such as one in a branch of a condition.
        identities: pairs of names or attributes of which it asks whether they are one object (``is``, ``is not``).
        whole: names and attributes that it reads as a whole: of ``self.grid.cells``, not ``self.grid``, and not those whose
            elements it only goes through or takes.
        elements: names and attributes of which it takes an element or a part.
    """

    first_line: int
    last_line: int
    reads: frozenset[str]
    writes: frozenset[str]
    calls: tuple[str, ...]
    inner: frozenset[str] = frozenset()
    iterates: frozenset[str] = frozenset()
    displays: bool = False
    makes: frozenset[str] = frozenset()
    asks: frozenset[str] = frozenset()
    chains: frozenset[str] = frozenset()
    may_call: frozenset[str] = frozenset()
    identities: frozenset[tuple[str, str]] = frozenset()
    whole: frozenset[str] = frozenset()
    elements: frozenset[str] = frozenset()

    def renamed(self, names: Mapping[str, str]) -> Statement:
        """The statement as it is with other names of variables."""
        if not names:
            return self

        def new(words: frozenset[str]) -> frozenset[str]:
            parted = [word.partition(".") for word in words]
            return frozenset(f"{names.get(base, base)}{dot}{rest}" for base, dot, rest in parted)

        return attrs.evolve(
            self,
            reads=new(self.reads),
            writes=new(self.writes),
            inner=new(self.inner),
            iterates=new(self.iterates),
            makes=frozenset() if names else self.makes,
            chains=new(self.chains),
            whole=new(self.whole),
            elements=new(self.elements),
        )


class SourceFile:
    """One file of a simulation."""

    def __init__(self, path: str) -> None:
        """Read it; a file that cannot be read has no lines."""
        self.path = path
        try:
            self.lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
        except (OSError, ValueError):
            self.lines = []

    def text(self, line: int) -> str:
        """The line without surrounding whitespace; empty if there is none."""
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""

    def statement(self, line: int) -> Statement | None:
        """The statement that the line belongs to; None if it is not known."""
        return self._statements.get(line)

    def statement_text(self, line: int) -> str:
        """The complete statement in one line."""
        statement = self.statement(line)
        if statement is None:
            return self.text(line)
        return " ".join(self.text(number) for number in range(statement.first_line, statement.last_line + 1))

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file; empty if it cannot be parsed."""
        try:
            return ast.parse("\n".join(self.lines))
        except (SyntaxError, ValueError):
            return ast.Module([], [])

    def first_parameter(self, line: int) -> str:
        """The name of the first parameter of the innermost function around a line, such as self; empty without one."""
        around = [one for one in self._functions if one.lineno <= line <= (one.end_lineno or one.lineno)]
        inner = max(around, key=lambda one: one.lineno, default=None)
        parameters = [*inner.args.posonlyargs, *inner.args.args] if inner is not None else []
        return parameters[0].arg if parameters else ""

    @cached_property
    def _functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [one for one in ast.walk(self.tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]

    @cached_property
    def _statements(self) -> dict[int, Statement]:
        by_line: dict[int, Statement] = {}
        # Outer statements come first in the walk: inner ones then take over their own lines.
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt):
                statement = _statement(node)
                for line in range(statement.first_line, statement.last_line + 1):
                    by_line[line] = statement
        return by_line

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """By name, the module that it is imported from, as written, and its name there."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)]
        return {one.asname or one.name: (node.module or "", one.name) for node in nodes for one in node.names}

    @cached_property
    def definitions(self) -> dict[str, list[int]]:
        """Lines that assign to a name of the module, and, as Class.name, of a class or an attribute of its self."""
        lines: dict[str, list[int]] = {}
        self._note_definitions(self.tree.body, "", lines)
        return lines

    def _note_definitions(self, body: list[ast.stmt], prefix: str, lines: dict[str, list[int]]) -> None:
        """Those of a module, or of a class, which prefix names."""
        methods = []
        for node in body:
            if isinstance(node, ast.ClassDef):
                self._note_definitions(node.body, f"{prefix}{node.name}.", lines)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                methods.append(node)
            else:
                for name in sorted(_statement(node).writes):
                    lines.setdefault(f"{prefix}{name}", []).append(node.lineno)
        numbers = [line for node in methods if prefix for line in range(node.lineno, (node.end_lineno or 0) + 1)]
        for statement in dict.fromkeys(self._statements[line] for line in numbers if line in self._statements):
            for name in sorted(statement.writes):
                if name.startswith("self."):
                    lines.setdefault(f"{prefix}{name[5:]}", []).append(statement.first_line)

    @cached_property
    def classes(self) -> dict[str, list[str]]:
        """The classes by qualified name, each with those of this file that it inherits from, itself first."""
        found = dict(_classes(self.tree.body, ""))
        names = {name.rpartition(".")[2]: name for name in found}
        return {name: list(dict.fromkeys(_with_bases(name, found, names))) for name in found}


def _classes(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _classes(node.body, f"{prefix}{node.name}.")


def _with_bases(name: str, classes: Mapping[str, ast.ClassDef], names: Mapping[str, str]) -> Iterator[str]:
    waiting, seen = [name], set[str]()
    while waiting:
        one = waiting.pop(0)
        if one in seen:
            continue
        seen.add(one)
        yield one
        bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in classes[one].bases]
        waiting += [names[base] for base in bases if base in names]


def _statement(node: ast.stmt) -> Statement:
    body = getattr(node, "body", None)
    last = node.end_lineno or node.lineno
    heads: list[ast.AST] = [node]
    if isinstance(body, list) and body:
        last = max(node.lineno, body[0].lineno - 1)
        inner = ("body", "orelse", "finalbody", "handlers", "cases")
        heads = [
            part
            for name, value in ast.iter_fields(node)
            if name not in inner
            for part in (value if isinstance(value, list) else [value])
            if isinstance(part, ast.AST)
        ]
    reads: set[str] = set()
    writes: set[str] = set()
    calls: list[str] = []
    for head in heads:
        for part in ast.walk(head):
            _note(part, reads, writes, calls)
    parts = [part for head in heads for part in ast.walk(head)]
    bound = {
        name.id
        for part in parts
        if isinstance(part, ast.comprehension)
        for name in ast.walk(part.target)
        if isinstance(name, ast.Name)
    }
    iterated = [one for part in (node, *parts) for one in _iterated(part)]
    names = [ast.unparse(one) for one in iterated if isinstance(one, ast.Name | ast.Attribute)]
    return Statement(
        node.lineno,
        last,
        frozenset(reads),
        frozenset(writes),
        tuple(dict.fromkeys(calls)),
        frozenset(bound),
        frozenset(names),
        any(map(_makes_set, iterated)),
        frozenset(ast.unparse(one) for one in iterated if _is_made_of_names(one)),
        frozenset(name for one in iterated if (name := _asked(one)) is not None),
        frozenset(ast.unparse(part) for part in parts if isinstance(part, ast.Attribute) and _is_chain(part)),
        frozenset(calls) - {called for head in heads for called in _called_each_time(head)},
        frozenset(pair for part in parts for pair in _compared_by_identity(part)),
        frozenset(_whole_reads(node, parts)),
        frozenset(_element_reads(parts)),
    )


def _compared_by_identity(part: ast.AST) -> Iterator[tuple[str, str]]:
    match part:
        case ast.Compare(
            left=ast.Name() | ast.Attribute() as one,
            ops=[ast.Is() | ast.IsNot()],
            comparators=[ast.Name() | ast.Attribute() as other],
        ) if _is_chain(one) and _is_chain(other):
            yield ast.unparse(one), ast.unparse(other)


def _called_each_time(part: ast.AST) -> Iterator[str]:
    """The functions that a part of a statement calls whenever it runs, as written."""
    passed_over: list[ast.AST] = []
    match part:
        case ast.Call(func=function):
            yield ast.unparse(function)
        case ast.IfExp(body=first, orelse=second):
            passed_over = [first, second]
        case ast.BoolOp(values=[_, *rest]) | ast.Compare(comparators=[_, *rest]):
            passed_over = list(rest)
        case ast.Lambda(body=body):
            passed_over = [body]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield from _called_each_time(part.generators[0].iter)  # It may be empty.
            return
        case ast.Assert(msg=ast.expr() as message):
            passed_over = [message]
    for inner in ast.iter_child_nodes(part):
        if inner not in passed_over:
            yield from _called_each_time(inner)


def _is_chain(part: ast.expr) -> bool:
    """Return True for names that are joined by dots alone."""
    while isinstance(part, ast.Attribute):
        part = part.value
    return isinstance(part, ast.Name)


def _element_reads(parts: Sequence[ast.AST]) -> Iterator[str]:
    """The names and attributes of which a statement reads an element or a part, as written."""
    for one in parts:
        if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name | ast.Attribute) and _is_chain(one.value):
            yield ast.unparse(one.value)


def _whole_reads(node: ast.stmt, parts: Sequence[ast.AST]) -> Iterator[str]:
    """Those of a statement, as written. parts: of it, or of its head, all nodes.

    What a loop or a comprehension only goes through is none of them: its elements are read by what it does with them.
    """
    inner = {id(one.value) for one in parts if isinstance(one, ast.Attribute | ast.Subscript)}
    over = [one.iter for one in (node, *parts) if isinstance(one, ast.For | ast.AsyncFor | ast.comprehension)]
    gone_through = {id(chain) for one in over for chain in _gone_through(one)}
    changed = {id(one.target) for one in (node, *parts) if isinstance(one, ast.AugAssign)}
    for one in parts:
        if not isinstance(one, ast.Name | ast.Attribute) or id(one) in inner | gone_through or not _is_chain(one):
            continue
        if isinstance(one.ctx, ast.Load) or id(one) in changed:
            yield ast.unparse(one)


def _gone_through(over: ast.expr) -> Iterator[ast.expr]:
    """The chains in what is iterated over that are themselves gone through, element by element."""
    match over:
        case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]) if name in _VIEWS:
            yield over.func
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _GOING_THROUGH:
            for one in arguments:
                yield from _gone_through(one)
        case ast.Name() | ast.Attribute():
            yield over


def _iterated(part: ast.AST) -> list[ast.expr]:
    """The expressions that a part of a statement may iterate over."""
    match part:
        case ast.For(iter=over) | ast.AsyncFor(iter=over) | ast.comprehension(iter=over) | ast.Starred(value=over):
            return [over]
        case ast.Call(func=ast.Attribute(value=over, attr="pop"), args=[]):
            return [over]
        case ast.Call(args=arguments):
            return list(arguments)
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=over):
            return [over]
    return []


def _asked(over: ast.expr) -> str | None:
    """The last name of the function or property that gives what is iterated over; None if none does."""
    match over:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) | ast.Attribute(attr=name):
            return name
    return None


def _is_made_of_names(over: ast.expr) -> bool:
    """Return True for a | b and the like, and set(a), of names and of each other."""
    match over:
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return all(_is_chain(one) or _is_made_of_names(one) for one in (left, right))
        case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[of], keywords=[]):
            return _is_chain(of) or _is_made_of_names(of)
    return False


def _makes_set(over: ast.expr) -> bool:
    """Return True for {a, b}, {a for a in b}, set(a) and frozenset(a)."""
    is_call = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id in {"set", "frozenset"}
    return is_call or isinstance(over, ast.Set | ast.SetComp)


def _note(part: ast.AST, reads: set[str], writes: set[str], calls: list[str]) -> None:
    match part:
        case ast.Name(id=name, ctx=ast.Store()):
            writes.add(name)
        case ast.Name(id=name):
            reads.add(name)
        case ast.Attribute(value=ast.Name(id=base), attr=attribute, ctx=ast.Store()):
            writes.add(f"{base}.{attribute}")
        case ast.Attribute(value=ast.Name(id=base), attr=attribute):
            reads.add(f"{base}.{attribute}")
        case ast.Constant(value=str(text)):
            reads.add(repr(text))
        case ast.Call(func=function):
            calls.append(ast.unparse(function))
    if isinstance(part, ast.AugAssign):  # It also reads its target.
        for target in ast.walk(part.target):
            if isinstance(target, ast.Name):
                reads.add(target.id)
            elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                reads.add(f"{target.value.id}.{target.attr}")
