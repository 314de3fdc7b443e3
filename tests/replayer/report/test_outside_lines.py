"""The line that says which read of the outside world makes the difference."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import replayer.report.outside_lines
from replayer.report.outside_lines import outside_cause_line


@pytest.mark.parametrize(
    ("differs_by", "begins"),
    [
        ("the addresses of objects, by id()", "cause: the addresses of objects"),
        (None, "cause: the environment variable X"),
    ],
)
def test_what_stand_ins_prove_comes_before_a_variable(
    monkeypatch: pytest.MonkeyPatch, differs_by: str | None, begins: str
) -> None:
    """A variable changes where objects are in memory: with its recorded value a step may have the recorded order by chance."""
    monkeypatch.setattr(replayer.report.outside_lines, "_recorded_variables", lambda _: "the environment variable X")
    explanation: Any = SimpleNamespace(replaced=None, differs_by=differs_by, depends_on=None, pair=(1, 2))
    line = outside_cause_line(explanation)
    assert (line or "").startswith(begins)
