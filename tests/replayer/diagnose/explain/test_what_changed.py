"""What replay explain says where no line is the cause: what was found later, and the command that tests what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from recorder.ambient.outside.outside_read import FILE, VARIABLE
from replayer.commands.explain_proofs import proof_lines
from replayer.desync import finding
from replayer.desync.code_comparison import CODE
from replayer.desync.outside_comparison import EQUAL, NOT_NOTED, ReadComparison
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.step_trace import StepTrace
from replayer.diagnose.explain.trace_step import TracedStep
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.diagnose.investigation.investigate import HIDDEN, hidden_found

COUNTER = {"tick": 3, "text": "tick 3: it diverges", "suspects": ["One.count"], "is_known": True}
VARIABLES = {"tick": 23, "text": "tick 23: another one", "suspects": ["os.environ['PRICE']"], "is_known": True}
OTHER_CODE = "--code FOLDER  # with the code as it was when this tick was recorded, in FOLDER"
NOT_CHANGED = (
    "compared and equal: 3 functions of the recorded class's modules, when the recording began and at its keyframes"
)


@pytest.mark.parametrize(
    ("findings", "tick", "suspicious", "found"),
    [
        ([VARIABLES], 23, True, "tick 23: another one; suspects: os.environ['PRICE']"),
        (
            [VARIABLES],
            22,
            None,
            "none was seen up to tick 22; later than this tick: tick 23: another one; suspects: os.environ['PRICE']",
        ),
        (
            [COUNTER, VARIABLES],
            5,
            True,
            "tick 3: it diverges; suspects: One.count; shown of tick 3: whether it makes tick 5 differ is not tested",
        ),
        (
            [COUNTER, VARIABLES],
            23,
            True,
            (
                "tick 3: it diverges; tick 23: another one; suspects: One.count; os.environ['PRICE']; "
                "shown of tick 3: whether it makes tick 23 differ is not tested"
            ),
        ),
        (
            [{**COUNTER, "is_known": False}, VARIABLES],
            5,
            None,
            "tick 3: it diverges; suspects: One.count; the cause of that is not known",
        ),
    ],
)
def test_what_shows_later_is_no_finding_about_a_tick(
    findings: list[dict[str, Any]], tick: int, found: str, *, suspicious: bool | None
) -> None:
    """It is told as later, or left out beside one that shows in time."""
    is_of_tick = "shown of tick 3" not in found or tick == VARIABLES["tick"]
    expected = finding.TestedCause(HIDDEN, found, suspicious=suspicious, is_of_tick=is_of_tick)
    assert hidden_found(findings, tick) == expected


@pytest.mark.parametrize(
    ("as_recorded", "words", "suspicious"),
    [
        (["LINES"], "tick 1: it diverges; suspects: COLUMNS: proved", True),
        (
            ["LINES", "COLUMNS"],
            "none was seen but that the step reads COLUMNS, LINES, as when the recording began",
            None,
        ),
        ([], "tick 1: it diverges; suspects: COLUMNS: proved; LINES: proved", True),
    ],
)
def test_a_variable_that_is_as_recorded_is_no_finding(
    as_recorded: list[str], words: str, *, suspicious: bool | None
) -> None:
    """The step reads it, and another value would give another state; but this is the one that it had."""
    found = {"tick": 1, "text": "tick 1: it diverges", "is_known": True, "variables": ["COLUMNS", "LINES"]}
    found["suspects"] = ["COLUMNS: proved", "LINES: proved"]
    assert hidden_found([found], 1, as_recorded) == finding.TestedCause(HIDDEN, words, suspicious=suspicious)


def explanation(changed: str, *variants: Variant, reads: tuple[ReadComparison, ...] = ()) -> Explanation:
    """All variants gave one state, which is not the recorded one."""
    step = TracedStep(None, "one error", StepTrace(), is_same=True, note=None)
    ran = [VariantOutcome(one, step) for one in (Variant("now"), *variants)]
    found = Explanation(5, 1, ran, None, [], None, [], None, [], [])
    return attrs.evolve(found, code=finding.TestedCause(CODE, changed, suspicious=None), outside=list(reads))


def read(kind: str, name: str, result: str) -> ReadComparison:
    return ReadComparison(kind, name, "game.py", 7, "game.py:7", result, "")


@pytest.mark.parametrize(
    "changed",
    [
        "changed since the recording, or new: fare (ferry.py:26); not tested",
        "removed since the recording: 1 function, of which the tape has no names; not tested",
        "compared and equal: 1 function; replaced while the run was recorded: fare (ferry.py:26) at tick 4; not tested",
    ],
)
def test_the_command_that_tests_what_changed_is_named(changed: str) -> None:
    """Unless a folder with other code was given, which is that test."""
    assert proof_lines(Path("my run.tape"), explanation(changed), "ferry:Ferry") == [
        f"next: replay explain 'my run.tape' --tick 5 --sim ferry:Ferry {OTHER_CODE}"
    ]
    assert proof_lines(Path("run.tape"), explanation(changed, Variant("before", code="before")), None) == []


def test_the_command_that_tests_a_variable_is_named() -> None:
    """One that the step reads, and of which the recording did not note that it was equal."""
    reads = (read(VARIABLE, "PRICE", NOT_NOTED), read(VARIABLE, "SPEED", EQUAL), read(FILE, "a.txt", NOT_NOTED))
    assert proof_lines(Path("run.tape"), explanation(NOT_CHANGED, reads=reads), None) == [
        "next: replay explain run.tape --tick 5 --env PRICE=VALUE  # with the value that it had when this tick was recorded"
    ]
    assert (
        proof_lines(Path("run.tape"), explanation(NOT_CHANGED, Variant("3", {"PRICE": "3"}), reads=reads), None) == []
    )


def test_no_command_is_named_where_nothing_is_known_to_differ() -> None:
    """Equal code is no reason to try other code."""
    assert proof_lines(Path("run.tape"), explanation(NOT_CHANGED), None) == []


def test_variables_that_python_reads_for_a_line_are_not_suggested(tmp_path: Path) -> None:
    """argparse asks for the size of the terminal and for languages: the user's file names none of these."""
    own = tmp_path / "game.py"
    own.write_text("import os\nPARSED = PARSER.parse_args()\nFARE = os.environ['FARE']\n")
    reads = [ReadComparison(VARIABLE, name, str(own), 2, "game.py:2", NOT_NOTED, "") for name in ("COLUMNS", "FARE")]
    [line] = proof_lines(Path("run.tape"), explanation(NOT_CHANGED, reads=tuple(reads)), None)
    assert "--env FARE=VALUE" in line
