"""Two locales are told by the categories that differ."""

from __future__ import annotations

import pytest

from replayer.diagnose.explain.values.process_settings import DifferingSetting

NAME = "locale.setlocale(locale.LC_ALL)"
SOME = "LC_CTYPE=C.UTF-8;LC_NUMERIC=C;LC_TIME={};LC_COLLATE=C;LC_MONETARY=C;LC_MESSAGES=C"


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        (SOME.format("C"), SOME.format("de_DE"), ("LC_TIME C", "LC_TIME de_DE")),
        ("C", "de_DE", ("C", "de_DE")),
    ],
)
def test_the_categories_that_differ_are_shown(first: str, second: str, texts: tuple[str, str]) -> None:
    assert DifferingSetting(NAME, first, second).texts == texts


def test_a_locale_of_one_name_has_it_in_all_categories() -> None:
    one, two = DifferingSetting(NAME, "C", SOME.format("de_DE")).texts
    assert one.startswith("LC_CTYPE C, LC_TIME C, ")
    assert two.startswith("LC_CTYPE C.UTF-8, LC_TIME de_DE, ")
    assert "LC_NUMERIC" not in one
    assert "LC_PAPER absent" in two
