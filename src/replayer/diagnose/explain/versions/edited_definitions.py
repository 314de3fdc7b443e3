"""The lines where two versions of the code give one name different values, in the module that has it or one that it is from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile

_FURTHER = 3  # Values that a value is made of: so many lines back.

Places = tuple[SourceLocation, SourceLocation]


def edited_definition(alignment: Alignment, module: str, function: str, outside: Iterable[str]) -> Places | None:
    """The lines that give values of other content in two versions; None if none of the values is given by an edited line.

    module, function: of the line that reads the values. outside: the values, as traces name them.
    """
    for name in outside:
        word = name.rpartition(":")[2]
        for home, inner in _homes(alignment, name, module):
            first, second = _sources(alignment, home)
            lines = alignment.line_maps[home]
            default = re.compile(rf"\bdef {re.escape(function.rpartition('.')[2])}\(.*\b{re.escape(word)}\b.*=")
            found = list(_defining(second, inner))
            if home == module:
                found += [line for line in sorted(lines.edited) if default.search(second.lines[line - 1])]
            for start in found:
                line = _edited_in(second, start, lines.edited)
                if line is not None:
                    mapped = lines.to_first(line)
                    return (
                        SourceLocation(first.path, mapped, "", _text(first, mapped)),
                        SourceLocation(second.path, line, "", _text(second, line)),
                    )
    return None


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
        head = re.compile(rf"\s*class {re.escape(prefix[1:].rpartition('.')[2])}\b")
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


def _defining(source: SourceFile, word: str) -> Iterator[int]:
    """The lines that assign to a name, and then those that assign to the names that these read."""
    words, seen = [word, f"self.{word}"], set[str]()
    for _ in range(_FURTHER):
        lines = [line for one in words for line in source.definitions.get(one, ())]
        yield from lines
        seen |= set(words)
        statements = [source.statement(line) for line in lines]
        words = sorted({read for one in statements if one is not None for read in one.reads} - seen)
