"""Collected rows of the long form equal the concatenation of all that was added."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.datasets.rows.states import _Collected

DTYPES = ["<i4", "<f8", "<i8", "<u2", "?"]


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(DTYPES)), min_size=1), min_size=1, max_size=3))
def test_rows_are_those_that_came(rounds: list[list[tuple[int, str]]]) -> None:
    """Dtypes may differ, since a later state may have a different schema. Rows that were taken do not change."""
    collected, taken = _Collected(), []
    number = 0
    for lots in rounds:
        given = []
        for count, dtype in lots:
            number += 1
            given.append(np.full((count, 2), number % 7 + (0.5 if dtype == "<f8" else 0), dtype))
            collected.add(given[-1])
        taken.append((collected.take(), np.concatenate(given)))
    for found, expected in taken:
        assert found.tolist() == expected.tolist()


def test_rows_of_another_shape_are_refused() -> None:
    """NumPy would repeat them until they fit."""
    collected = _Collected()
    collected.add(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="shape"):
        collected.add(np.zeros((3, 1)))
