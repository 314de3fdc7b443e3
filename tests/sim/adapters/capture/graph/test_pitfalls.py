"""Each pitfall of capturing ordinary objects as a case of its own: exact, or refused by name, never silently wrong."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from object_graphs.exact_cases import EXACT
from object_graphs.named_cases import REFUSED, SAID
from object_graphs.odd_classes import Counting, Shared
from object_graphs.pitfalls import Subject, assert_exact, assert_exact_or_said, assert_refused


@pytest.fixture(autouse=True)
def classes_as_they_were() -> Any:
    """Cases change class attributes; files that a case leaves open are closed."""
    yield
    Shared.count = 0
    Subject.case = None  # type: ignore[assignment]
    gc.collect()


def cases(named: dict[str, Any]) -> list[Any]:
    """The names of cases; those of the largest graphs are long tests."""
    is_large = {name: "million" in name or "10,000" in name for name in named}
    return [pytest.param(name, marks=pytest.mark.long) if large else name for name, large in is_large.items()]


@pytest.mark.share(0.24)
@pytest.mark.parametrize("name", cases(EXACT))
@pytest.mark.seldom(0.15)
def test_exact(name: str) -> None:
    """Saved without trust, without a warning, and right at every tick."""
    assert_exact(EXACT[name])


@pytest.mark.share(0.24)
@pytest.mark.parametrize("name", cases(SAID))
@pytest.mark.seldom(0.15)
def test_never_silently_wrong(name: str) -> None:
    """Right at every tick, or refused by path, class and what to do, or warned of by name."""
    assert_exact_or_said(SAID[name])


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.share(0.22)
def test_refused(name: str) -> None:
    """Refused by path, class and what to do; the ticks before are kept."""
    assert_refused(REFUSED[name])


def test_objects_are_made_without_their_constructors() -> None:
    """A restore makes objects of the recorded classes and calls no __init__."""
    Subject.case = EXACT["__init__, __setstate__ and __reduce__ are not called"]
    before = Counting.calls
    assert_exact(Subject.case)
    subjects = 2 + 1 + (len(Subject.case.changes) + 3)  # Control, live and used; a fresh one for each tick.
    assert Counting.calls - before == subjects
