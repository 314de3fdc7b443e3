"""A digest of each line of a function's code, so that a later edit is found by its line and not by its function alone.

Two bytes a line: an edited line looks unchanged once in 65,536 times, and then the function's first line is named; an
unchanged line never looks edited. Jumps count without their targets, which move with what stands between.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterator, Sequence

import xxhash

from recorder.ambient.outside.code_text import constant_text

LINE_BYTES = 2
LINES_MAX = 255  # Of a function; the count is a byte.
# How far the index of a name is shifted in the argument, where it is; dis has it in its code. Newer versions have no digests.
_SHIFTS = {
    (3, 11): {"LOAD_GLOBAL": 1},
    (3, 12): {"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
    (3, 13): {"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
}
_SHIFT = {dis.opmap[name]: shift for name, shift in _SHIFTS.get(sys.version_info[:2], {}).items()}
_CONSTANTS, _NAMES = frozenset(dis.hasconst), frozenset(dis.hasname)
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


def line_digests(code: types.CodeType) -> Sequence[tuple[int, bytes]]:
    """Each run of instructions of one line, in their order: the line and its digest; empty if it is unknown how to read them."""
    if sys.version_info[:2] not in _SHIFTS:
        return ()
    return _digests(code)


@functools.lru_cache(maxsize=4096)  # A process may begin many recordings.
def _digests(code: types.CodeType) -> tuple[tuple[int, bytes], ...]:
    found: list[tuple[int, bytes]] = []
    for line, parts, inner in _runs(code):
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        found.append((line, xxhash.xxh3_64_digest(text)[:LINE_BYTES]))
        for one in inner:
            found += _digests(one)
    return tuple(found[:LINES_MAX])


def _runs(code: types.CodeType) -> Iterator[tuple[int, list[str], list[types.CodeType]]]:
    """The line, its instructions as texts, and the code that it makes functions of."""
    raw, last = code.co_code, None
    parts, inner = list[str](), list[types.CodeType]()
    for start, end, line in code.co_lines():
        if line is None:
            continue
        if line != last:
            if last is not None:
                yield last, parts, inner
            last, parts, inner = line, [], []
        for operation, argument in operations(raw[start:end]):
            if operation in _CONSTANTS:
                value = code.co_consts[argument]
                if isinstance(value, types.CodeType):
                    inner.append(value)
                parts.append(value.co_name if isinstance(value, types.CodeType) else constant_text(value))
            elif operation in _NAMES:
                parts.append(code.co_names[argument >> _SHIFT.get(operation, 0)])
            if operation in _JUMPS or operation == dis.EXTENDED_ARG:
                told = 0
            elif operation in _CONSTANTS or operation in _NAMES:
                told = argument & (1 << _SHIFT.get(operation, 0)) - 1  # Without the index.
            else:
                told = argument
            parts.append(f"{operation} {told}")
    if last is not None:
        yield last, parts, inner


def operations(raw: bytes) -> Iterator[tuple[int, int]]:
    """Each instruction of a function's bytes and its whole argument."""
    extended = 0
    for operation, low in zip(raw[::2], raw[1::2], strict=True):
        argument = low | extended << 8
        extended = argument if operation == dis.EXTENDED_ARG else 0
        yield operation, argument


def first_edited_line(before: bytes, now: Sequence[tuple[int, bytes]]) -> int | None:
    """The first line whose digest is not that of before; None if there is none.

    before: the digests, joined. Where something was removed at the end, the last line.
    """
    for place, (line, digest) in enumerate(now):
        if before[place * LINE_BYTES : (place + 1) * LINE_BYTES] != digest:
            return line
    return now[-1][0] if now and len(before) > len(now) * LINE_BYTES else None
