"""The names of fields in the picture of a difference."""

from __future__ import annotations

import numpy as np

from replayer.diagnose.compare.spread import DifferenceSpread
from replayer.export.plot import draw_difference


def test_recorded_objects_have_the_names_of_the_text() -> None:
    """Not those under which the library keeps them."""
    fields = [
        "graph.special_bytes.byte",
        "graph.value_bytes.byte",
        "graph.array_bytes.byte",
        "graph.0.list.node",
        "graph.0.list.cells.value",
        "mood",
    ]
    spread = DifferenceSpread(3, fields, np.ones((6, 4), np.int64), "bounded", None)
    (axes, _) = draw_difference(spread, "two tapes").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "contents of sets or random generators or the like",
        "texts, tuples, decimals, dates and the like",
        "arrays in objects",
        "which lists exist, or in which order they were made",
        "values of the recorded object itself or of lists",
        "mood",
    ]
