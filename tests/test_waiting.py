"""Tests wait for a condition, by one helper, and never for some time to pass."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from waiting import wait_until

TESTS = Path(__file__).parent
HELPER = "waiting.py"


def sleeps(text: str) -> list[int]:
    """Return the lines of a module that sleep, including those of programs in its strings."""
    if "sleep" not in text:
        return []  # Parsing all tests takes seconds.
    lines = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="sleep") | ast.Attribute(attr="sleep")):
                lines.append(node.lineno)
            case ast.Constant(value=str(program)) if "sleep(" in program:
                lines.append(node.lineno)
    return lines


def test_no_test_sleeps() -> None:
    """A sleep is too short on a busy machine and too long elsewhere: use wait_until(condition), an Event or a pipe."""
    found = {path: sleeps(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py") if path != Path(__file__)}

    (helper,) = (path for path in found if path.name == HELPER)
    assert found.pop(helper), "the search finds the one that may"
    assert not {str(path): lines for path, lines in found.items() if lines}


@pytest.mark.parametrize(
    "program", ["import time\ntime.sleep(1)", "from time import sleep\nsleep(1)", "x = 'sleep(1)'"]
)
def test_a_sleep_is_found(program: str) -> None:
    """By any name, and in a program of a different process."""
    assert sleeps(program)
    assert not sleeps("def sleep(seconds):\n    clock.append(seconds)\nset(clock, sleep)")


def test_waiting_ends_with_what_was_waited_for() -> None:
    """Its value is returned; a failure names what was waited for."""
    values = iter([0, [], "there"])

    assert wait_until(lambda: next(values)) == "there"
    with pytest.raises(AssertionError, match=r"<lambda> is still 0 after 0\.01 seconds"):
        wait_until(lambda: 0, seconds=0.01)
