"""Hints for names that do not exist."""

from __future__ import annotations

import pytest

from sim.near_names import did_you_mean

KNOWN = ["meadow", "plants.energy", "swarms.energy", "Units"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("medow", "; did you mean meadow?"),
        ("plants.enregy", "; did you mean plants.energy?"),
        ("energy", "; did you mean plants.energy or swarms.energy?"),
        ("units", "; did you mean Units?"),
        ("water", ""),
        ("", ""),
    ],
)
def test_names_that_are_near_are_asked_for(name: str, hint: str) -> None:
    """A letter more or less, the other case, or a column without its table; nothing for a name that is like none."""
    assert did_you_mean(name, KNOWN) == hint


def test_no_name_is_near_where_there_is_none() -> None:
    assert did_you_mean("meadow", []) == ""
