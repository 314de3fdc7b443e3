"""Statements that two versions of a function have in another order: a comparison of texts shows them as new and removed ones."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

ORDER = "order"
Code = tuple[str, int, int, int, int]  # As those of difflib: what it is, and begin and end in both.


def joined_orders(one: Sequence[str], other: Sequence[str]) -> Iterator[Code]:
    """The differences of two sequences of statements; those that have the same ones in another order are one difference."""
    codes = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    at = 0
    while at < len(codes):
        last = _last_of_order(codes, at, one, other)
        tag = codes[at][0] if last == at else ORDER
        yield tag, codes[at][1], codes[last][2], codes[at][3], codes[last][4]
        at = last + 1


def _last_of_order(codes: Sequence[Code], at: int, one: Sequence[str], other: Sequence[str]) -> int:
    """The last of the differences that together bring the statements into another order; the first itself if it is none of them."""
    if codes[at][0] not in ("insert", "delete"):
        return at
    for last in range(at + 1, len(codes)):
        tag, _, end, _, other_end = codes[last]
        if tag == "replace":
            break
        if tag != "equal" and Counter(one[codes[at][1] : end]) == Counter(other[codes[at][3] : other_end]):
            return last
    return at


def first_two(own: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> tuple[tuple[ast.stmt, ast.stmt], ...]:
    """The first statement of each version, as both have the two: what one begins with comes later in the other."""
    starts = ast.dump(own[0]), ast.dump(other[0])
    found = [[next(node for node in side if ast.dump(node) == start) for start in starts] for side in (own, other)]
    return (found[0][0], found[0][1]), (found[1][1], found[1][0])
