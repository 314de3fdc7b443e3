"""What the pictures of `replay plot` show: read from the figure before it is written."""

from __future__ import annotations

import numpy as np
import pytest
from optional_packages import LazyModule, needs

needs("matplotlib")
plot = LazyModule("replayer.export.plot")

TICKS = np.arange(601)
DEATHS = {"tick": TICKS, "deaths.grass.feeding": np.cumsum(TICKS % 7 == 3), "defence_cost.sting": np.zeros(601)}


@pytest.mark.parametrize("what", [None, ["defences"]])
def test_a_panel_without_curves_says_so(what: list[str] | None) -> None:
    """It has the ticks of the run all the same."""
    axes = plot.draw_curves(DEATHS, what, "a run").axes[-1]
    assert axes.get_title(loc="left") == "Defences"
    assert [text.get_text() for text in axes.texts] == ["none in this run"]
    first, last = axes.get_xlim()
    assert first <= 0
    assert last >= 600


@pytest.mark.parametrize(
    ("ticks", "label"),
    [
        (601, "plants per tick\n(means of 3 ticks)"),
        (501, "plants per tick\n(means of 2 to 3 ticks)"),
        (201, "plants per tick"),
        (2, "plants per tick"),
    ],
)
def test_rates_tell_of_how_many_ticks_they_are_means(ticks: int, label: str) -> None:
    """A third of a plant dies nowhere: three ticks had one death."""
    rows = {name: column[:ticks] for name, column in DEATHS.items()}
    assert plot.draw_curves(rows, ["deaths"], "a run").axes[0].get_ylabel() == label


@pytest.mark.parametrize("dtype", ["i1", "u8", "f8", "?"])
def test_whole_numbers_have_whole_numbers_at_their_colour_bar_which_is_as_high_as_the_map(dtype: str) -> None:
    """Also where the map is much wider than high."""
    layer = (np.arange(2800).reshape(40, 70) % 3).astype(dtype)
    figure = plot.draw_layers({"cells": layer}, "a tick")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    (beside,) = axes.child_axes
    assert all(float(tick).is_integer() for tick in beside.get_yticks())
    assert beside.get_window_extent().height == pytest.approx(axes.get_window_extent().height)
    assert beside.get_window_extent().y0 == pytest.approx(axes.get_window_extent().y0)


def test_a_picture_has_no_colour_bar() -> None:
    """It has its own colours."""
    (axes,) = plot.draw_layers({"seen": np.zeros((6, 8, 3), np.uint8)}, "a tick").axes
    assert not axes.child_axes
    assert axes.images[0].get_array().shape == (6, 8, 3)
