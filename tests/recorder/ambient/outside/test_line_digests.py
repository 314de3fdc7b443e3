"""The line of an edit: the first that differs, and no line that is as it was."""

from __future__ import annotations

import dis
import random
import sys
import types
from collections.abc import Iterator

import pytest

from recorder.ambient.outside.line_digests import first_edited_line, line_digests

LINES = [
    "def step(self, amount, rate=2):",
    "    total, count = 0, 0",
    "    for unit in self.units:",
    "        if unit.hp > 10 and unit.name != 'x':",
    "            total += unit.hp * rate",
    "            count += 1",
    "        while unit.queue:",
    "            unit.queue.pop()",
    "    self.seen = sorted(self.units, key=lambda one: one.hp + 3)",
    "    try:",
    "        self.mean = total / count",
    "    except ZeroDivisionError:",
    "        self.mean = 0.25",
    "    self.log = [one.name for one in self.units if one.hp]",
    "    return f'{total} of {count}' + str(amount)",
]
EDITS = [
    (2, "0, 0", "0, 1"),
    (4, "> 10", ">= 10"),
    (4, "'x'", "'y'"),
    (4, "unit.name", "unit.kind"),
    (5, "unit.hp", "unit.mp"),
    (5, "* rate", "* rate * rate"),
    (6, "+= 1", "+= 2"),
    (8, "pop()", "popleft()"),
    (9, "+ 3", "+ 4"),
    (9, "sorted", "list"),
    (11, "total / count", "count / total"),
    (12, "ZeroDivisionError", "ArithmeticError"),
    (13, "0.25", "0.5"),
    (14, "if one.hp", "if one.mp"),
    (15, "' + str", " in all' + str"),
]


def code_of(lines: list[str]) -> types.CodeType:
    """The code of the function in these lines."""
    made: dict[str, types.FunctionType] = {}
    exec("\n".join(lines), made)
    return made["step"].__code__


def bytes_of(code: types.CodeType) -> bytes:
    """The digests, as a note has them."""
    return b"".join(digest for _, digest in line_digests(code))


@pytest.mark.parametrize(("line", "old", "new"), EDITS)
def test_the_edited_line_is_found(line: int, old: str, new: str) -> None:
    """Wherever jumps, constants and names are numbered differently after the edit."""
    edited = list(LINES)
    assert old in edited[line - 1]
    edited[line - 1] = edited[line - 1].replace(old, new)
    assert first_edited_line(bytes_of(code_of(LINES)), line_digests(code_of(edited))) == line


@pytest.mark.parametrize("place", [2, 4, 5, 7, 8, 14])
def test_an_inserted_line_is_found_and_so_is_the_one_behind_a_removed_one(place: int) -> None:
    """A line more in a loop moves the targets of its jumps."""
    indent = len(LINES[place]) - len(LINES[place].lstrip())
    longer = [*LINES[:place], " " * indent + "self.more = amount - 77", *LINES[place:]]
    assert first_edited_line(bytes_of(code_of(LINES)), line_digests(code_of(longer))) == place + 1
    assert first_edited_line(bytes_of(code_of(longer)), line_digests(code_of(LINES))) == place + 1


def test_comments_and_lines_in_between_are_no_edit() -> None:
    """Neither is a docstring."""
    spread = [LINES[0], '    """Does a step."""', "", *(f"{one}  # a" for one in LINES[1:])]
    assert first_edited_line(bytes_of(code_of(LINES)), line_digests(code_of(spread))) is None


def test_a_removed_end_is_the_last_line() -> None:
    """What is left there returns."""
    before = bytes_of(code_of([LINES[0], "    a = 1", "    return a"]))
    assert first_edited_line(before, line_digests(code_of([LINES[0], "    a = 1"]))) == 2
    assert first_edited_line(b"abcd", ()) is None
    assert first_edited_line(b"abcd", [(7, b"ab")]) == 7
    assert first_edited_line(b"", [(7, b"ab")]) == 7


def functions() -> Iterator[types.FunctionType]:
    """Those of the modules that this process has loaded."""
    for module in list(sys.modules.values()):
        for value in list(getattr(module, "__dict__", {}).values()):
            if type(value) is types.FunctionType:
                yield value


def test_names_and_constants_are_read_as_by_dis() -> None:
    """In functions of loaded modules: an edit that renames what one instruction loads is seen."""
    if not line_digests(code_of(LINES)):
        pytest.skip("nothing is known of how this Python numbers names")
    chosen = random.Random(1).sample(list(functions()), 300)
    loads = [(one, load) for one in chosen for load in dis.get_instructions(one) if load.opcode in dis.hasname]
    assert len(loads) > 1000
    seen = 0
    for function, load in random.Random(2).sample(loads, 400):
        code = function.__code__
        names = tuple("renamed_by_test" if name == load.argval else name for name in code.co_names)
        both = zip(line_digests(code), line_digests(code.replace(co_names=names)), strict=True)
        renamed = {line for (line, old), (_, new) in both if old != new}
        same = [one for one in dis.get_instructions(code) if one.opcode in dis.hasname and one.argval == load.argval]
        assert renamed <= {one.positions.lineno for one in same if one.positions is not None}
        seen += bool(renamed)
    assert (
        seen > 380
    )  # Two lines have the same byte once in 256 times, and some functions have more lines than are kept.
