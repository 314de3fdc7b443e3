"""The line that says which read of the outside world makes the difference."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replayer.desync.outside_comparison import DIFFERS, EQUAL, LATER, NOT_COMPARED, ReadComparison
from replayer.diagnose.explain.answer.explanation import DecidingReads, DecidingVariables
from replayer.diagnose.explain.variants import Replaced, Variant, VariantOutcome
from replayer.report.outside_lines import outside_cause_line, unrepeated_lines


@pytest.mark.parametrize(
    ("differs_by", "begins"),
    [
        ("the addresses of objects, by id()", "cause: the addresses of objects"),
        (None, "cause: the environment variable X"),
    ],
)
def test_what_stand_ins_prove_comes_before_a_variable(differs_by: str | None, begins: str) -> None:
    """A variable changes where objects are in memory: with its recorded value a step may have the recorded order by chance."""
    line = line_of(DecidingVariables({"X": ("1", None)}, 3, is_recorded=True, is_noted=True), differs_by)
    assert line.startswith(begins)


def line_of(found: DecidingVariables, differs_by: str | None = None) -> str:
    """The line about the cause."""
    explanation: Any = SimpleNamespace(
        run_before=None,
        other_values=None,
        replaced=None,
        differs_by=None if differs_by is None else DecidingReads(differs_by, "it was tested"),
        depends_on=None,
        pair=(1, 2),
        variables=found,
        memory_runs=0,
    )
    return outside_cause_line(explanation) or ""


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            DecidingVariables({"PYTHONHASHSEED": ("3", "0")}, 3, is_recorded=True, is_noted=True),
            (
                "the environment variable PYTHONHASHSEED (3 in the recording), on which hash() of texts and the order of sets of "
                "texts depend: as recorded, the step gives the recorded state, and with 0 another one (in 3 of 3 processes each)"
            ),
        ),
        (
            DecidingVariables({"TZ": ("Asia/Tokyo", None)}, 3, is_recorded=True, is_noted=True),
            (
                "the environment variable TZ (Asia/Tokyo in the recording): as recorded, the step gives the recorded state, and as "
                "it is now another one (in 3 of 3 processes each)"
            ),
        ),
        (
            DecidingVariables({"PYTHONHASHSEED": ("1", "5")}, 3, is_recorded=False, is_noted=False),
            (
                "the hash seed of the process, on which hash() of texts and the order of sets of texts depend: with "
                "PYTHONHASHSEED=1 the step gives the recorded state, with 5 another one (in 3 of 3 processes each); which seed the "
                "recording had is not known"
            ),
        ),
        (
            DecidingVariables({"OMP_NUM_THREADS": ("1", None)}, 3, is_recorded=False, is_noted=True),
            (
                "the environment variable OMP_NUM_THREADS: with OMP_NUM_THREADS=1 the step gives the recorded state, with it not "
                "set another one (in 3 of 3 processes each)"
            ),
        ),
    ],
)
def test_only_what_the_recording_notes_is_told_of_it(found: DecidingVariables, words: str) -> None:
    """A value that was tried, and gives the recorded state, is not said to be that of the recording."""
    assert line_of(found) == f"cause: {words}"


def test_what_may_differ_is_told_before_the_cause_is_called_not_known() -> None:
    """A file that was changed later, and an answer that the recording lacks; not a clock, which is tried, nor what is equal."""
    heading = "  this step, or the code that it runs, "
    untested = "  whether that makes the difference is not tested"
    reads = [
        ReadComparison(kind, name, "game.py", 3, "game.py:3", result, "so it is")
        for kind, name, result in (
            ("file", "later.json", LATER),
            ("contact", "http.client.request", NOT_COMPARED),
            ("clock", "time.time", NOT_COMPARED),
            ("file", "same.json", EQUAL),
        )
    ]
    later = [
        f"{heading}reads what was changed after the recording began:",
        "    later.json: so it is (read at game.py:3)",
    ]
    asked = f"{heading}asks another program or computer, whose answers the recording did not note:"
    assert unrepeated_lines(reads) == [
        *later,
        untested,
        asked,
        "    http.client.request: so it is (read at game.py:3)",
        untested,
    ]
    assert unrepeated_lines(reads[2:]) == []
    both = unrepeated_lines([ReadComparison("variable", "PACE", "game.py", 3, "game.py:3", DIFFERS, "so"), *reads[:1]])
    assert both[1:] == [
        "    PACE: so (read at game.py:3)",
        "  whether that makes the difference is not tested: the tape has a digest of it at most, and no content",
        *later,
        untested,
        "  --env PACE=VALUE tests a value",
    ]


def test_what_was_tested_is_not_called_untested() -> None:
    """A variant had what was read as it was when the recording began; of a number, the tape has more than a digest."""
    processors, name = (
        ReadComparison("threads", "os.cpu_count", "game.py", 3, "game.py:3", DIFFERS, "2 now, 4 then"),
        "x.json",
    )
    read = ReadComparison("file", name, "game.py", 3, "game.py:3", DIFFERS, "other content")
    replaced = Replaced("", "", as_recorded=(("threads", "os.cpu_count"),))
    ran = VariantOutcome(Variant("", replaced=replaced), None, given=(5, None))
    failed = VariantOutcome(Variant("", replaced=replaced), None)
    untested = "makes the difference is not tested"
    tested = "  tested: with what the recording noted of os.cpu_count, the step does not give the recorded state"
    digest = ": the tape has a digest of it at most, and no content"

    assert unrepeated_lines([processors], [failed])[2:] == [f"  whether that {untested}"]
    assert unrepeated_lines([processors], [ran])[2:] == [tested]
    assert unrepeated_lines([processors, read], [ran])[3:] == [tested, f"  whether the rest of it {untested}{digest}"]
    assert unrepeated_lines([read], [ran])[2:] == [f"  whether that {untested}{digest}"]
