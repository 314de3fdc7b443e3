"""The source of a module with single statements of another version of the code, loaded in place of the module's own.

What a module makes as it is loaded, such as the members of an enumeration or the fields of a class, cannot be put into a process
that has loaded it: other values are made of it. So the module is loaded with the statement as the other version has it.
"""

from __future__ import annotations

import ast
import copy
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

import attrs

from replayer.diagnose.explain.line_pairs.source_functions import (
    FunctionNode,
    functions_of,
    value_statements,
)
from replayer.diagnose.explain.source_lines import SourceFile

Sources = Mapping[str, tuple[SourceFile, SourceFile]]  # By module, in both versions.
_Head = ast.ClassDef | FunctionNode


@attrs.frozen
class EditedStatement:
    """A statement of a module or a class body that gives a value to one name, in both versions; None in one without it.

    Attributes:
        module: that has it.
        name: qualified.
        is_head: True for a class or a function of which only what stands before its body is meant: decorators, and of a class
            its bases.
    """

    module: str
    name: str
    first: ast.stmt | None
    second: ast.stmt | None
    is_head: bool = False

    @property
    def shown(self) -> str:
        """What is taken from the first version, in words."""
        if not self.is_head:
            return self.name
        kinds = [_decorators(one) for one in (self.first, self.second) if isinstance(one, _Head)]
        if isinstance(self.first, FunctionNode) or _bases(self.first) == _bases(self.second):
            return f"the decorators of {self.name}"
        return f"the {'bases' if len(set(kinds)) == 1 else 'decorators and bases'} of {self.name}"

    def line(self, side: int) -> int | None:
        """The line to name in one of the versions; None in the one without it."""
        node = (self.first, self.second)[side]
        if node is None:
            return None
        if not isinstance(node, _Head) or not self.is_head:
            return node.lineno
        other = (self.second, self.first)[side]
        others = {ast.dump(one) for one in other.decorator_list} if isinstance(other, _Head) else set[str]()
        own = [one.lineno for one in node.decorator_list if ast.dump(one) not in others]
        is_of_bases = isinstance(node, ast.ClassDef) and _bases(self.first) != _bases(self.second)
        return own[0] if own and not is_of_bases else node.lineno


def statement_at(
    module: str, first: SourceFile, second: SourceFile, line: int, *, is_first: bool
) -> EditedStatement | None:
    """The statement at a line of one of the versions; None if it gives no value to a name, or others to that name, too."""
    own, other = (value_statements(source.tree) for source in (first, second))
    chosen = own if is_first else other
    names = [name for name, node in chosen.items() if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if len(names) != 1 or not _has_holder(first, names[0]) or not _has_holder(second, names[0]):
        return None
    found = EditedStatement(module, names[0], own.get(names[0]), other.get(names[0]))
    return None if _shares_a_line(found, first, second) else found


def edited_statements(sources: Sources) -> list[EditedStatement]:
    """What differs of what modules run as they are loaded: of classes and functions what stands before their bodies, and values."""
    heads, values = list[EditedStatement](), list[EditedStatement]()
    for module, (first, second) in sources.items():
        own, other = _heads(first.tree.body), _heads(second.tree.body)
        for name in own.keys() & other.keys():
            if _head_dump(own[name]) != _head_dump(other[name]):
                heads.append(EditedStatement(module, name, own[name], other[name], is_head=True))
        values += _edited(module, *(value_statements(source.tree) for source in (first, second)))
    able = [one for one in values if all(_has_holder(source, one.name) for source in sources[one.module])]
    found = [*sorted(heads, key=lambda one: (one.module, one.line(1) or 0)), *able]
    return [one for one in found if not _shares_a_line(one, *sources[one.module])]


def _shares_a_line(statement: EditedStatement, *sources: SourceFile) -> bool:
    """Return True if another statement stands in a line of it: whole lines are taken, and that one would come with it."""
    for node, source in zip((statement.first, statement.second), sources, strict=True):
        lines = set() if node is None else set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        inside = set(map(id, ast.walk(node))) if node is not None else set[int]()
        for other in ast.walk(source.tree) if lines else ():
            if isinstance(other, ast.stmt) and id(other) not in inside and {other.lineno, other.end_lineno} & lines:
                own = range(other.lineno, (other.end_lineno or other.lineno) + 1)
                is_around = hasattr(other, "body") and lines <= set(own) and other.lineno not in lines
                if not is_around:
                    return True
    return False


def used_with(sources: Sources, statement: EditedStatement) -> list[EditedStatement]:
    """What differs, too, and goes with a statement: the others of its class, and what mentions its name, or its class.

    A function of one version may need what the other one lacks.
    """
    holder, _, word = statement.name.rpartition(".")
    words = {*statement.name.split("."), word}
    found = []
    for module, (first, second) in sources.items():
        values = [value_statements(source.tree) for source in (first, second)]
        functions = [dict(functions_of(source.tree)) for source in (first, second)]
        mentioning = [
            one
            for one in (*_edited(module, *values), *_edited(module, *functions))
            if one.first is not None
            and one.second is not None
            and _mentions(one, {word} if isinstance(one.first, FunctionNode) else words)
        ]
        siblings = [
            one
            for one in _edited(module, *values)
            if holder and module == statement.module and one.name.rpartition(".")[0] == holder
        ]
        found += [*siblings, *(one for one in mentioning if one not in siblings)]
    return [one for one in found if (one.module, one.name) != (statement.module, statement.name)]


def _edited(module: str, own: Mapping[str, ast.stmt], other: Mapping[str, ast.stmt]) -> list[EditedStatement]:
    return [
        EditedStatement(module, name, own.get(name), other.get(name))
        for name in dict.fromkeys([*own, *other])
        if _dump(own.get(name)) != _dump(other.get(name))
    ]


def _dump(node: ast.AST | None) -> str:
    return "" if node is None else ast.dump(node)


def _mentions(statement: EditedStatement, words: set[str]) -> bool:
    for node in (statement.first, statement.second):
        for part in ast.walk(node) if node is not None else ():
            match part:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    if name in words:
                        return True
    return False


def _heads(body: Sequence[ast.stmt], prefix: str = "") -> dict[str, _Head]:
    """The classes and functions of a module, and those in its classes, by qualified names that only one of them has."""
    found = list(_head_items(body, prefix))
    counts = Counter(name for name, _ in found)
    return {name: node for name, node in found if counts[name] == 1}


def _head_items(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, _Head]]:
    for node in body:
        if isinstance(node, _Head):
            yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from _head_items(node.body, f"{prefix}{node.name}.")


def _decorators(node: _Head) -> str:
    return ", ".join(map(ast.dump, node.decorator_list))


def _bases(node: ast.stmt | None) -> str:
    return ast.dump(_head(node)) if isinstance(node, ast.ClassDef) else ""


def _head(node: ast.ClassDef) -> ast.ClassDef:
    """A class with no decorator and nothing in it."""
    head = copy.copy(node)
    head.body, head.decorator_list = [ast.Pass()], []
    return head


def _head_dump(node: _Head) -> tuple[str, str]:
    return _decorators(node), _bases(node)


def mixed_sources(sources: Sources, statements: Sequence[EditedStatement]) -> dict[str, str] | None:
    """The sources of modules of the second version with statements as the first one has them; None as in mixed_source."""
    found = {}
    for module in dict.fromkeys(one.module for one in statements):
        text = mixed_source(*sources[module], [one for one in statements if one.module == module])
        if text is None:
            return None
        found[module] = text
    return found


def mixed_source(first: SourceFile, second: SourceFile, statements: Sequence[EditedStatement]) -> str | None:
    """The source of the second version with statements as the first one has them; None if the place of one is not known."""
    lines = list(second.lines)
    changes = []
    for one in statements:
        if one.is_head:
            changes.append(_head_change(first, one))
            continue
        text = first.lines[_begin(one.first) - 1 : one.first.end_lineno] if one.first is not None else []
        if one.second is not None:
            begin, end = _begin(one.second) - 1, one.second.end_lineno or one.second.lineno
            changes.append((begin, end, text or [f"{' ' * one.second.col_offset}pass"]))
        elif one.first is not None and (place := _place(first, second, one)) is not None:
            changes.append((place, place, text))
        else:
            return None
    changes.sort(key=lambda change: change[:2], reverse=True)
    if any(later[0] < earlier[1] for later, earlier in itertools.pairwise(changes)):
        return None
    for begin, end, text in changes:
        lines[begin:end] = text
    return "\n".join([*lines, ""])


def _begin(node: ast.stmt) -> int:
    """The first line of a statement, with its decorators."""
    decorators = node.decorator_list if isinstance(node, _Head) else []
    return min([node.lineno, *(one.lineno for one in decorators)])


def _head_change(first: SourceFile, one: EditedStatement) -> tuple[int, int, list[str]]:
    """The lines before the body of a class or a function, as the first version has them."""
    own, other = one.first, one.second
    assert isinstance(own, _Head)
    assert isinstance(other, _Head)
    begin = _begin(other) - 1
    decorators = first.lines[_begin(own) - 1 : own.lineno - 1]
    if not isinstance(own, ast.ClassDef) or not isinstance(other, ast.ClassDef):
        return begin, other.lineno - 1, decorators
    whole = copy.copy(own)
    is_in_one_line = _begin(other.body[0]) == other.lineno
    whole.body, whole.decorator_list = other.body if is_in_one_line else [ast.Pass()], []
    text = ast.unparse(whole).splitlines()
    text = [f"{' ' * other.col_offset}{line}" for line in (text if is_in_one_line else text[:-1])]
    end = other.end_lineno if is_in_one_line else _begin(other.body[0]) - 1
    return begin, end or other.lineno, [*decorators, *text]


def _place(first: SourceFile, second: SourceFile, statement: EditedStatement) -> int | None:
    """Where a statement of the first version goes: before the next one of its class that both versions have, or else after the last."""
    holder = statement.name.rpartition(".")[0]
    own, other = (value_statements(source.tree) for source in (first, second))
    of_both = [
        (node.lineno, other[name]) for name, node in own.items() if name.rpartition(".")[0] == holder and name in other
    ]
    line = statement.first.lineno if statement.first is not None else 0
    after = [there.lineno - 1 for here, there in of_both if here > line]
    before = [there.end_lineno or there.lineno for here, there in of_both if here < line]
    return after[0] if after else before[-1] if before else None


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
