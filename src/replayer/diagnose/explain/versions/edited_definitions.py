"""The lines where two versions of the code give one name different values, in the module that has it or one that it is from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.line_pairs.edited_parts import differing_lines
from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.source_functions import (
    functions_of,
    local_names,
    outermost,
    value_statements,
)
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.versions.edited_members import edited_member
from replayer.diagnose.explain.versions.read_by_key import read_by_key

_FURTHER = 3  # Values that a value is made of: so many lines back.

Places = tuple[SourceLocation, SourceLocation | None]  # None: one version alone has the line.


def edited_definition(alignment: Alignment, module: str, function: str, outside: Iterable[str]) -> Places | None:
    """The lines that give values of other content in two versions; None if none of the values is given by an edited line.

    module, function: of the line that reads the values. outside: the values, as traces name them.
    """
    for name in outside:
        word = name.rpartition(":")[2]
        for home, inner in _homes(alignment, name, module):
            first, second = _sources(alignment, home)
            if _is_table(alignment, name) and (member := edited_member(first, second, inner)) is not None:
                return member
            lines = alignment.line_maps[home]
            default = re.compile(rf"\bdef {re.escape(function.rpartition('.')[2])}\(.*\b{re.escape(word)}\b.*=")
            found = _of_class_first(second, name, list(_defining(second, inner, _owners(second, name, function))))
            if home == module:
                found += [line for line in sorted(lines.edited) if default.search(second.lines[line - 1])]
            for start in found:
                pair = _edited_at(first, second, lines, start, read_by_key((alignment.first, alignment.second), inner))
                if pair is not None:
                    return (
                        SourceLocation(first.path, pair[0], "", _text(first, pair[0])),
                        SourceLocation(second.path, pair[1], "", _text(second, pair[1])),
                    )
                if (counted := _counted_member(first, second, lines, start)) is not None:
                    return counted
    return None


def _is_table(alignment: Alignment, name: str) -> bool:
    """Return True for a value of a module that is a dict, as the trace has the members of an enumeration."""
    trace = alignment.first
    digests = (one.before.get(name) for one in trace.records) if name[0] == "g" else ()
    return any(digest is not None and trace.texts.get(digest, "").startswith("{") for digest in digests)


def _counted_member(first: SourceFile, second: SourceFile, lines: LineMap, start: int) -> Places | None:
    """Of a member whose value auto() counts: the first line of its class that one version alone has, or that was edited."""
    statement = second.statement(start)
    if statement is None or not any(call.rpartition(".")[2] == "auto" for call in statement.calls):
        return None
    for line in _members_before(second, start):
        mapped = lines.to_first(line)
        if mapped < 0:
            return SourceLocation(second.path, line, "", _text(second, line)), None
        if line in lines.edited:
            one = SourceLocation(first.path, mapped, "", _text(first, mapped))
            return one, SourceLocation(second.path, line, "", _text(second, line))
    gone = [line for line in _members_before(first, lines.to_first(start)) if not lines.has_first(line)]
    return (SourceLocation(first.path, gone[0], "", _text(first, gone[0])), None) if gone else None


def _members_before(source: SourceFile, line: int) -> list[int]:
    """The lines that give values to names of a class before a line in it."""
    return [
        node.lineno
        for kind in ast.walk(source.tree)
        if isinstance(kind, ast.ClassDef) and any(inner.lineno == line for inner in kind.body)
        for node in kind.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno < line
    ]


def _of_class_first(source: SourceFile, name: str, lines: list[int]) -> list[int]:
    """The lines, with those in the class that a value is of first: classes that it inherits from may define it, too."""
    kind = _class_of(name)
    own = {
        line
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and node.name == kind
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sorted(lines, key=lambda line: line not in own)


def _class_of(name: str) -> str:
    """The name of the class that a value is of, as traces name it; empty for any other value."""
    prefix = name.partition(":")[0]
    return prefix[1:].partition("(")[0].rpartition(".")[2] if prefix.startswith("c") else ""


def _edited_at(
    first: SourceFile, second: SourceFile, lines: LineMap, start: int, by_key: int
) -> tuple[int, int] | None:
    """The lines in which a statement that begins at a line of the second version differs from that of the first.

    by_key: see differing_lines.
    """
    own = value_statements(first.tree)
    for name, other in value_statements(second.tree).items():
        if other.lineno == start and name in own:
            return differing_lines(own[name], other, by_key)
    line = _edited_in(second, start, lines.edited)
    if line is None:
        return None
    # Lines may be paired that are alike, and do not give values to one name.
    pair = first.statement(lines.to_first(line)), second.statement(line)
    is_of_one = pair[0] is not None and pair[1] is not None and bool(pair[0].writes & pair[1].writes)
    heads = [
        source.text(number).partition("(")[0] for source, number in ((first, lines.to_first(line)), (second, line))
    ]
    return (lines.to_first(line), line) if is_of_one or (heads[0] == heads[1] and "def " in heads[0]) else None


def _edited_in(source: SourceFile, line: int, edited: AbstractSet[int]) -> int | None:
    """The first edited line of the statement that begins at a line."""
    statement = source.statement(line)
    last = statement.last_line if statement is not None and statement.first_line == line else line
    return next((one for one in range(line, last + 1) if one in edited), None)


def _text(source: SourceFile, line: int) -> str:
    """The statement, or one line of a long one, such as an entry of a table."""
    statement = source.statement(line)
    is_long = statement is not None and statement.last_line - statement.first_line > 1
    return source.text(line) if is_long else source.statement_text(line)


def _homes(alignment: Alignment, name: str, module: str) -> Iterator[tuple[str, str]]:
    """The modules that may give a value, those of which two versions are known, and its name there."""
    prefix, _, word = name.partition(":")
    changed = [one for one, lines in alignment.line_maps.items() if not lines.same]
    if prefix == "g":
        home, _, word = word.rpartition(":")
        yield from ((home, word) for one in changed if one == home)
        source = _sources(alignment, home)[1] if home in alignment.line_maps or home in alignment.paths else None
        from_module, own = (source.imported if source is not None else {}).get(word, ("", ""))
        yield from ((one, own) for one in changed if from_module and f".{one}".endswith(f".{from_module}"))
        return
    yield from ((one, word) for one in changed if one == module)
    if prefix[0] == "c":
        head = re.compile(rf"\s*class {re.escape(_class_of(name))}\b")
        others = [one for one in changed if one != module]
        yield from ((one, word) for one in others if any(map(head.match, _sources(alignment, one)[1].lines)))


def _sources(alignment: Alignment, module: str) -> tuple[SourceFile, SourceFile]:
    if module in alignment.paths:
        first, second = alignment.paths[module]
        return alignment.source(first), alignment.source(second)
    traced = [
        next(one.path for one in trace.records if one.module == module)
        for trace in (alignment.first, alignment.second)
        if any(one.module == module for one in trace.records)
    ]
    return alignment.source(traced[0]), alignment.source(traced[-1])


def _owners(source: SourceFile, name: str, function: str) -> list[str]:
    """Whose name it is: "" for the module, or a class with those that it inherits from; none for a variable of a function.

    function: that reads it. An attribute is taken for one of its self.
    """
    if name[0] == "g":
        return [""]
    if name[0] == "f":
        return []
    kind = _class_of(name) if name[0] == "c" else outermost(function).rpartition(".")[0]
    own = [one for one in source.classes if one == kind or (name[0] == "c" and one.rpartition(".")[2] == kind)]
    return [base for one in own for base in source.classes[one]]


def _defining(source: SourceFile, word: str, owners: Sequence[str]) -> Iterator[int]:
    """The lines that assign to a name, and then those that assign to the names that these read.

    owners: see _owners.
    """
    words, seen = [f"{one}.{word}" if one else word for one in owners], set[str]()
    for _ in range(_FURTHER):
        lines = [line for one in words for line in source.definitions.get(one, ())]
        yield from lines
        seen |= set(words)
        read = sorted({one for line in lines for one in _read_at(source, line)})
        named = [f"{one}.{name.removeprefix('self.')}" for name in read if name.startswith("self.") for one in owners]
        words = [name for name in dict.fromkeys([*named, *read]) if name not in seen]


def _read_at(source: SourceFile, line: int) -> AbstractSet[str]:
    """The names that a line reads, without variables of its function; one in a class that reads another of it says self."""
    statement = source.statement(line)
    reads = statement.reads if statement is not None else frozenset[str]()
    for node in functions_of(source.tree).values():
        if node.lineno <= line <= (node.end_lineno or 0):
            return reads - local_names(node)
    is_in_class = any(line in lines for name, lines in source.definitions.items() if "." in name)
    return reads | {f"self.{one}" for one in reads if "." not in one} if is_in_class else reads
