"""The lines that two versions of a file have under one name, such as those of a function, wherever they are in each file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from replayer.diagnose.explain.line_pairs.source_functions import functions_of, value_statements
from replayer.diagnose.explain.source_lines import SourceFile

Lines = list[int]  # Counted from 0.
Blocks = Sequence[tuple[int, int, int]]  # As difflib.SequenceMatcher has them: equal lines of two files.


def segments(first: SourceFile, second: SourceFile, equal: Blocks) -> Iterator[tuple[Lines, Lines]]:
    """The lines of each function and each value that both versions name, and then all others.

    equal: the lines that a comparison of the two complete files found. A function most of whose lines went into another one,
    such as one that calls what it was before, has no segment.
    """
    spans = _spans(first), _spans(second)
    elsewhere = set(_gone_elsewhere(spans, equal, first))
    rest = [set(range(len(source.lines))) for source in (first, second)]
    for name in spans[0].keys() & spans[1].keys() - elsewhere:
        both = [sorted(one[name]) for one in spans]
        if all(set(lines) <= free for lines, free in zip(both, rest, strict=True)):  # Else two names share a line.
            for lines, free in zip(both, rest, strict=True):
                free.difference_update(lines)
            yield both[0], both[1]
    yield sorted(rest[0]), sorted(rest[1])


def _spans(source: SourceFile) -> dict[str, range]:
    """The lines of functions, with their decorators, and of statements that give a value, by the qualified name."""
    parts: dict[str, ast.stmt] = {**value_statements(source.tree), **functions_of(source.tree)}
    return {
        name: range(min([node.lineno, *_decorated_at(node)]) - 1, node.end_lineno or node.lineno)
        for name, node in sorted(parts.items())
    }


def _decorated_at(node: ast.stmt) -> list[int]:
    return [one.lineno for one in getattr(node, "decorator_list", [])]


def _gone_elsewhere(spans: Sequence[Mapping[str, range]], equal: Blocks, first: SourceFile) -> Iterator[str]:
    """The parts of the first file of which most lines are in parts of other names in the second."""
    owners = [{line: name for name, lines in one.items() for line in lines} for one in spans]
    went: dict[str, Counter[str | None]] = {}
    for start, other_start, size in equal:
        for offset in range(size):
            name = owners[0].get(start + offset)
            if name is not None and first.lines[start + offset].strip():
                went.setdefault(name, Counter())[owners[1].get(other_start + offset)] += 1
    for name, counts in went.items():
        count = sum(number for other, number in counts.items() if other not in (name, None))
        if 2 * count > len(spans[0][name]) and count > counts[name]:
            yield name
