"""The line that a recording prints about what is captured."""

from __future__ import annotations

import pytest

from sim.adapters.interface.capture_report import Part, Report
from sim.kernel.exactness import Level


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["Game"], "Game captured"),
        (["Game", "Game.grid", "Game.shop"], "Game captured"),
        (["Wrapper", "Game", "Game.grid"], "Wrapper, Game captured"),
        (["Game", "Gamer"], "Game, Gamer captured"),
    ],
)
def test_parts_inside_of_others_are_not_listed(names: list[str], line: str) -> None:
    """A list of some of them reads as if the others were left out."""
    report = Report("objects", "Game", Level.EXACT, tuple(Part(name, captured=("x",)) for name in names))
    assert report.captured_line() == f"{line}; no attribute of these objects, and of what they hold, is left out"


def test_what_a_trial_found_stands_beside_the_level() -> None:
    """The level is about what is captured: alone it would be taken for a result of the trial."""
    report = Report("objects", "Game", Level.EXACT, (Part("Game", captured=("x",)),))
    line = report.line(is_tested=True, found="its steps did not repeat (x differs)")
    expected = "Game: exact by what it captures, but its steps did not repeat (x differs): Game captured"
    assert line == f"{expected}; no attribute of these objects, and of what they hold, is left out"


@pytest.mark.parametrize(
    ("level", "is_tested", "text"),
    [
        (Level.EXACT, True, "exact in the steps tried"),
        (Level.EXACT, False, "exact, untested"),
        (Level.CANONICAL, True, "canonical in the steps tried"),
        (Level.INPUTS_ONLY, True, "inputs_only"),
    ],
)
def test_the_level_is_said_as_far_as_it_was_tried(level: Level, is_tested: bool, text: str) -> None:  # noqa: FBT001
    """A level is declared, and a later step may need what no keyframe holds."""
    line = Report("objects", "Game", level, (Part("Game", captured=("x",)),)).line(is_tested=is_tested)
    assert line.startswith(f"Game: {text}: Game captured; ")


def test_attributes_that_a_restore_does_not_set_are_counted() -> None:
    """Few are named. Those that the user has left out are not among them."""
    kept = ("cell", "view", "log")
    many = Report("objects", "Game", Level.EXACT, (Part("Game", captured=("x",), kept=(*kept, "pen")),))
    assert many.captured_line() == "Game captured; a restore leaves 4 attributes as they are"
    report = Report("objects", "Game", Level.EXACT, (Part("Game", captured=("x",), kept=kept),))
    assert report.captured_line() == "Game captured; a restore leaves Game.cell, Game.view, Game.log as they are"
    ignoring = Report("objects", "Game", Level.EXACT, report.parts, ignored=("Game.cell", "Game.log"))
    assert ignoring.captured_line() == (
        "Game captured; left out as asked: Game.cell, Game.log; a restore leaves Game.view as it is"
    )
