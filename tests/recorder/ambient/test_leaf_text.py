"""The contrast of two values shows where they differ, and never two equal texts as a difference."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from recorder.ambient.leaf_text import difference_of

PAIR = np.array([(1, 0.0), (2, 0.0)], [("a", "i4"), ("b", "f8")])
OTHER = np.array([(1, 0.0), (2, 3.0)], [("a", "i4"), ("b", "f8")])


def leaf(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """As an ambient has it."""
    return array.dtype.str, array.shape, array.tobytes()


@pytest.mark.parametrize(
    ("ours", "theirs", "text"),
    [
        (
            leaf(np.array([[0.0, 1.0], [2.0, 3.0]])),
            leaf(np.array([[0.0, 1.0], [2.5, 4.0]])),
            "[1, 0] 2.0 in the live run, 2.5 for the copy; 2 of 4 elements differ",
        ),
        (leaf(np.array(1)), leaf(np.array(2)), "1 in the live run, 2 for the copy"),
        (leaf(PAIR), leaf(OTHER), "[1] differs; 1 of 2 elements differ"),
        (("<f8", (3,), 5), ("<f8", (3,), 6), "array of 3 <f8 in both, with different contents"),
        (("dict", ("a", "b"), (1, 2)), ("dict", ("a", "b"), (1, 3)), "['b'] 2 in the live run, 3 for the copy"),
        (("dict", ("U", "U"), (6, 6)), ("dict", ("U", "U"), (8, 6)), "['U'] 6 in the live run, 8 for the copy"),
        (
            ("dict", (3, "b", 4), (6, 7, 0)),
            ("dict", ("3", "b", "4"), (6, 7, 0)),
            "key 3 in the live run only, key '3' for the copy only; 2 of 3 keys are others",
        ),
        (
            ("dict", ("U", "U", 1), (6, 7, 0)),
            ("dict", (1, "U", "U"), (0, 7, 6)),
            "3 entries in the live run, as many, which are not the same, for the copy",
        ),
    ],
)
def test_the_difference_is_shown(ours: Any, theirs: Any, text: str) -> None:
    """Elements by their index; a large array by its type alone."""
    assert difference_of(ours, theirs) == (None, text)


def test_generators_of_random_differ_by_a_part_of_their_state() -> None:
    """The second number of a pair alone, if it alone differs."""
    generator = random.Random(1)
    generator.gauss(0, 1)
    before = generator.getstate()
    generator.gauss(0, 1)
    _, text = difference_of(before, generator.getstate())
    assert text == "the state of the generator differs: second number of a pair from gauss()"
