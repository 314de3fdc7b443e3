"""What is told of two tapes' parties if no difference between them decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replayer.diagnose.parties.differences.factor import Factor
from replayer.diagnose.parties.party_explanation import FactorTest
from replayer.report.parties.party_report import party_lines

IDLE = FactorTest(Factor("module", "rules", ("a.py", "b.py"), lambda to, _: to), ("A", "B"))
FAILED = FactorTest(IDLE.factor, (None, None), "A: No module named 'charge'")


def explanation(**facts: Any) -> Any:
    """Two parties with different states at tick 3."""
    difference = SimpleNamespace(
        first_tick=0, last_tick=9, first_bad=3, compared_ticks=10, unreadable_ticks=0, inputs_tick=None,
        is_key_order=False, ticks=[SimpleNamespace(fields=())],
    )  # fmt: skip
    usual: dict[str, Any] = {
        "difference": difference, "tick": 3, "fields": (), "states": None, "cause": None, "tests": (), "notes": (),
        "seeds": None, "variable": None, "unsteady": (), "deciding": [], "varying": None, "why_older": None,
        "is_first_tick": False, "is_reproduced": True, "is_recorded": lambda _: True, "recorded": (7, 8),
    }  # fmt: skip
    sides = [
        SimpleNamespace(
            tape=f"{name}.tape", sim="game:Game", paths=(), work_tree=None, python="python", environment={}, given=()
        )
        for name in ("host", "guest")
    ]
    runs = [
        SimpleNamespace(state_hash=one, start=None, raised=None, made=SimpleNamespace(files={}, arguments={}))
        for one in (7, 8)
    ]
    return SimpleNamespace(**{**usual, "parties": sides, "runs": runs, **facts})


def told(**facts: Any) -> str:
    texts: Any = None  # There is no line.
    return "\n".join(party_lines(explanation(**facts), texts))


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ([IDLE, IDLE], "different states, and none of their differences decides alone about that\n"),
        ([IDLE, FAILED], "of their differences, none that could be tested decides alone about that, and 1 could not\n"),
        ([FAILED, FAILED], "different states, and none of their differences could be tested\n"),
    ],
)
def test_a_difference_that_could_not_be_exchanged_is_not_said_to_decide_nothing(
    tests: list[FactorTest], words: str
) -> None:
    assert words in told(tests=tests)
