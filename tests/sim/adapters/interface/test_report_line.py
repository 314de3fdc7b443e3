"""The line that a recording prints about what is captured."""

from __future__ import annotations

import pytest

from sim.adapters.interface.capture_report import Part, Report
from sim.kernel.exactness import Level


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["Game"], "Game captured"),
        (["Game", "Game.grid", "Game.shop"], "Game with what it holds captured"),
        (["Wrapper", "Game", "Game.grid"], "Wrapper, Game with what they hold captured"),
        (["Game", "Gamer"], "Game, Gamer captured"),
    ],
)
def test_parts_inside_of_others_are_not_listed(names: list[str], line: str) -> None:
    """A list of some of them reads as if the others were left out."""
    report = Report("objects", "Game", Level.EXACT, tuple(Part(name, captured=("x",)) for name in names))
    assert report.line() == f"Game: exact: {line}; nothing is left out"


def test_what_a_trial_found_stands_beside_the_level() -> None:
    """The level is about what is captured: alone it would be taken for a result of the trial."""
    report = Report("objects", "Game", Level.EXACT, (Part("Game", captured=("x",)),))
    line = report.line(found="its steps did not repeat (x differs)")
    expected = "Game: exact by what it captures, but its steps did not repeat (x differs): Game captured"
    assert line == f"{expected}; no attribute is left out"
