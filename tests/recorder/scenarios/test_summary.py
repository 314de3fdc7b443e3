"""Survival curves and extinction probabilities, compared with counts by run and tick."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.scenarios.batch import RunRecord
from recorder.scenarios.summary import draw_survival, groups_of, summary_lines, survival_of

TICKS = 20
fates = st.lists(st.one_of(st.none(), st.integers(0, TICKS)), min_size=1, max_size=12)


def records_of(fates: list[int | None], species: str = "owl") -> list[RunRecord]:
    """Make runs in which the species died out at these ticks."""
    return [
        RunRecord(index, "x", {"seed": index}, final_tick=TICKS, extinctions={species: tick})
        for index, tick in enumerate(fates)
    ]


@given(fates)
def test_curves_against_counting(fates: list[int | None]) -> None:
    """The curve gives, for each tick, the share of runs in which the species is alive after it."""
    (found,) = survival_of(records_of(fates))
    assert (found.runs, found.extinct) == (len(fates), sum(tick is not None for tick in fates))
    assert found.extinction_probability == found.extinct / found.runs
    assert found.curve[0][0] == 0
    assert [tick for tick, _ in found.curve] == sorted({tick for tick, _ in found.curve})
    for tick in range(TICKS + 1):
        said = [share for at, share in found.curve if at <= tick][-1]
        alive = sum(fate is None or fate > tick for fate in fates)
        assert said == pytest.approx(alive / len(fates), abs=1e-12)


def test_runs_with_errors_do_not_count() -> None:
    """Runs with errors, and species that a run did not have, do not count."""
    records = [
        *records_of([3, None]),
        *records_of([5], "fox"),
        RunRecord(9, "x", {}, error="oh", extinctions={"owl": 1}),
    ]
    assert [(one.species, one.runs, one.extinct) for one in survival_of(records)] == [("owl", 2, 1), ("fox", 1, 1)]
    assert survival_of([]) == []


def test_lines_and_picture(tmp_path: Path) -> None:
    """Errors, violations, one line per species and combination; a picture only if there is a curve."""
    records = [
        RunRecord(0, "x", {"loss": 0, "seed": 1}, final_tick=9, extinctions={"owl": 4}, violations=[["p", 1200, "t"]]),
        RunRecord(1, "x", {"loss": 0, "seed": 2}, final_tick=9, extinctions={"owl": None}),
        RunRecord(2, "x", {"loss": 1, "seed": 1}, final_tick=9, extinctions={"owl": None}, violations=[["p", 3, "t"]]),
        RunRecord(3, "x", {"loss": 1, "seed": 2}, error="OSError: no room"),
    ]
    assert list(groups_of(records)) == ["loss=0", "loss=1"]
    assert summary_lines(records) == [
        "4 runs, 1 with errors",
        "  run 3: OSError: no room",
        "  property p: violated in 2 runs, first run 0 at tick 1,200",
        "  loss=0: owl: extinct in 1 of 2 runs (50%)",
        "  loss=1: owl: extinct in 0 of 1 run (0%)",
    ]
    assert draw_survival(records, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert not draw_survival(records_of([])[:0], tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()
