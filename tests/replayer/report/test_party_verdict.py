"""What is told of two tapes' parties if no difference between them decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replayer.desync.state_diff import FieldDifference
from replayer.diagnose.parties.differences.factor import Factor
from replayer.diagnose.parties.party_explanation import FactorTest
from replayer.diagnose.parties.party_runner import PartyRun
from replayer.diagnose.parties.step_results import outcome_of
from replayer.report.parties.party_report import CauseTexts, party_lines
from sim import Field, Schema, State

IDLE = FactorTest(Factor("module", "rules", ("a.py", "b.py"), lambda to, _: to), ("A", "B"))
FAILED = FactorTest(IDLE.factor, (None, None), "A: No module named 'charge'")
BOTH = Factor("together", "", ("", ""), lambda to, _: to, parts=(IDLE.factor, IDLE.factor))
TOGETHER = FactorTest(BOTH, ("A", "B"))
TOGETHER_FAILED = FactorTest(BOTH, (None, None), "A: No module named 'charge'")
WHOLE_FAILED = FactorTest(Factor("package", "rules", ("a", "b"), lambda to, _: to), (None, None), "A: No module")
TOO_HEAVY = "the step raised ValueError: too heavy (bridge.py:9)"


def explanation(**facts: Any) -> Any:
    """Two parties with different states at tick 3."""
    difference = SimpleNamespace(
        first_tick=0, last_tick=9, first_bad=3, compared_ticks=10, unreadable_ticks=0, inputs_tick=None,
        is_key_order=False, ticks=[SimpleNamespace(fields=())],
    )  # fmt: skip
    usual: dict[str, Any] = {
        "difference": difference, "tick": 3, "fields": (), "states": None, "cause": None, "tests": (), "told": (), "notes": (),
        "seeds": None, "variable": None, "unsteady": (), "deciding": [], "varying": None, "why_older": None,
        "is_first_tick": False, "is_reproduced": True, "is_recorded": lambda _: True, "recorded": (7, 8),
    }  # fmt: skip
    sides = [
        SimpleNamespace(
            tape=f"{name}.tape", sim="game:Game", paths=(), work_tree=None, python="python", environment={}, words=words
        )
        for name, words in (("host", ("--sim", "game:Game")), ("guest", ("--other-path", "the guest")))
    ]
    runs = [
        SimpleNamespace(state_hash=one, start=None, raised=None, made=SimpleNamespace(files={}, arguments={}))
        for one in (7, 8)
    ]
    return SimpleNamespace(**{**usual, "parties": sides, "runs": runs, **facts})


def told(shown: Any) -> str:
    texts: Any = None  # There is no line.
    return "\n".join(party_lines(shown, texts))


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ([IDLE, IDLE], "different states, and none of their differences decides alone about that\n"),
        ([IDLE, FAILED], "of their differences, none that could be tested decides alone about that, and 1 could not\n"),
        ([FAILED, FAILED], "different states, and none of their differences could be tested\n"),
        ([FAILED, FAILED, TOGETHER], "and none of their differences could be tested alone\n"),
        ([IDLE, FAILED, TOGETHER_FAILED], "decides alone about that, and 1 could not\n"),
        ([IDLE, FAILED, WHOLE_FAILED], "decides alone about that, and 1 could not\n"),
    ],
)
def test_a_difference_that_could_not_be_exchanged_is_not_said_to_decide_nothing(
    tests: list[FactorTest], words: str
) -> None:
    assert words in told(explanation(tests=tests))


@pytest.mark.parametrize("recorded", [(8, 7), (8, 9), (7, 8)])
def test_parties_whose_tapes_are_exchanged_are_told_with_the_command(recorded: tuple[int, int]) -> None:
    """Each gives what the other tape has; a state that is on neither tape is not said to be of one."""
    states = []
    for value in (7, 8, 9):
        states.append(State(Schema(Field("x", "i8"))))
        states[-1]["x"][()] = value
    hashes = {value: state.hash() for value, state in zip((7, 8, 9), states, strict=True)}
    shown = explanation(tests=[IDLE], recorded=tuple(hashes[one] for one in recorded))
    for run, value in zip(shown.runs, (7, 8), strict=True):
        run.state_hash = hashes[value]
    shown.states = states[0].snapshot(), states[1].snapshot()
    shown.fields = [FieldDifference("x", 1, [()], 7, 8, "of another size")]
    out = told(shown)
    exchanged = "that of A gives the state of tape B, and that of B the state of tape A" in out
    command = "\nnext: replay explain guest.tape host.tape --sim game:Game --other-path 'the guest'  # "
    assert (exchanged, command in out) == (recorded == (8, 7),) * 2
    assert ("which is not the state of tape A or tape B" in out) == (recorded == (8, 9))


@pytest.mark.parametrize(
    ("outcomes", "raised", "words"),
    [
        (("B", "A"), (None, None), "A with it gives what B gives, B with that of A what A gives"),
        (("other", "raised"), (None, TOO_HEAVY), "A with it gives a third state, B with that of A raises ValueError: too heavy (bridge.py:9)"),
        (("raised", "other"), (TOO_HEAVY, None), "A with it raises ValueError: too heavy (bridge.py:9), B with that of A gives a third state"),
        (("B", "A"), (None, TOO_HEAVY), "B with that of A raises ValueError: too heavy (bridge.py:9), as A does"),
        (("A", "B"), (TOO_HEAVY, None), "exchanged, it changes nothing"),
    ],
)  # fmt: skip
def test_an_error_of_a_step_is_not_called_a_state(outcomes: Any, raised: Any, words: str) -> None:
    test = FactorTest(IDLE.factor, outcomes, None, raised)
    shown = explanation(tests=[test], deciding=[test] if test.decides else [])
    shown.runs[0].raised = raised[1] if test.decides else raised[0]
    out = told(shown)
    assert words in out
    if test.decides:
        told_same = "and B with what A has raises what A raises" if raised[1] else "and B with what A has gives what A"
        assert told_same in out
    else:
        assert f"different {'results' if raised[0] else 'states'}, and none" in out


def test_errors_of_changed_parties_are_an_outcome_of_their_own() -> None:
    """An error that a party raises itself is what that one gives."""
    own: Any = [(5, None), (None, "the step raised KeyError: 'oak'")]

    def outcome(state_hash: int | None, raised: str | None) -> str | None:
        return outcome_of(PartyRun(None, state_hash, raised, None, None), own)

    assert [outcome(5, None), outcome(6, None), outcome(*own[1]), outcome(None, TOO_HEAVY)] == [
        "A",
        "other",
        "B",
        "raised",
    ]


@pytest.mark.parametrize("decides", [True, False])
def test_the_line_does_not_say_that_the_cause_is_unknown_once_a_setting_is_named_as_the_cause(*, decides: bool) -> None:
    """The line is where a value differs first; what it read was not seen."""
    texts = ("prec 28", "prec 9 (set at shop.py:4)")
    test = FactorTest(Factor("setting", "decimal.getcontext()", texts, lambda to, _: to), ("B", "A"))
    line: Any = SimpleNamespace(kind="unseen", other_place=None)
    shown = explanation(cause=line, tests=[test], deciding=[test] if decides else [])
    words = "\n".join(party_lines(shown, CauseTexts(lambda _: ["", "  shop.py:7 in pay"], lambda _: {})))
    setting = "decimal.getcontext(), a setting of the whole process that the state does not hold: prec 28 in A, prec 9"
    assert (f"cause: {setting} (set at shop.py:4) in B" in words) == decides
    assert ("the cause is not known, since not all that lines read" in words) == (not decides)
    assert "line: after this line a value differs; " in words
