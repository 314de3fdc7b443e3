"""The functions that a line names in calls: those that it calls whenever it runs, and those that it may pass over."""

from __future__ import annotations

from pathlib import Path

import pytest

from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.report.cause_text import cause_text


@pytest.mark.parametrize(
    ("line", "called", "may_call"),
    [
        ("x = left(a) + right(b)", {"left", "right"}, set()),
        ("x = left(a) if test(b) else right(b)", {"test"}, {"left", "right"}),
        ("x = left(a) or middle(a) or right(b)", {"left"}, {"middle", "right"}),
        ("x = left() < right() < last()", {"left", "right"}, {"last"}),
        ("x = left(lambda: right(1))", {"left"}, {"right"}),
        ("x = [left(one) for one in right() if test(one)]", {"right"}, {"left", "test"}),
        ("x = {left(k): right(v) for k, v in rows() for _ in more(k)}", {"rows"}, {"left", "right", "more"}),
        ("x = left(a) if left(b) else right(b)", {"left"}, {"right"}),
        ("assert left(), right()", {"left"}, {"right"}),
    ],
)
def test_calls_that_a_line_need_not_make(tmp_path: Path, line: str, called: set[str], may_call: set[str]) -> None:
    """Of both classes in a condition, one is made."""
    path = tmp_path / "press.py"
    path.write_text(f"{line}\n")
    statement = SourceFile(str(path)).statement(1)
    assert statement is not None
    assert (set(statement.calls) - statement.may_call, statement.may_call) == (called, may_call)


def test_a_cause_says_which_functions_the_line_may_call() -> None:
    """It said "calling" of both branches of a condition."""
    cause = Cause(
        "line", SourceLocation("press.py", 3, "step", ""), None, None, ("clean", "wet", "dry"), None, [], [],
        may_call=frozenset({"wet", "dry"}),
    )  # fmt: skip
    assert cause_text(cause).endswith("in those that it reads, calling clean; it may call wet, dry")


@pytest.mark.parametrize(
    ("text", "compares"),
    [
        ("if self.leader is robot:", True),
        ("elif self.leader is not self.robots[0]:", True),
        ("while heads(a) is b:", True),
        ("if self.leader is None:", False),
        ("if None is not self.leader and a == b:", False),
        ('if self.x > 9: raise ValueError(f"{robot} is lost")', False),
        ('if mood == "is grumpy":', False),
        ("if a > 3:  # what is meant", False),
        ("if a > 3: b = c is d", False),
    ],
)
def test_a_line_that_compares_by_identity_is_known_by_its_code(text: str, *, compares: bool) -> None:
    """Texts and comments may have the word, too."""
    cause = Cause("branch", SourceLocation("press.py", 3, "step", text), None, None, (), None, [], [])
    assert ("compares by identity (is)" in cause_text(cause)) == compares
