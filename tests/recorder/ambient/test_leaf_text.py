"""The contrast of two values shows where they differ, and never two equal texts as a difference."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy as np
import pytest

from recorder.ambient.c_memory import Memory, memory_text
from recorder.ambient.leaf_text import difference_of

PAIR = np.array([(1, 0.0), (2, 0.0)], [("a", "i4"), ("b", "f8")])
OTHER = np.array([(1, 0.0), (2, 3.0)], [("a", "i4"), ("b", "f8")])


class Cell(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint8), ("at", ctypes.c_int16))


CELLS = (Cell * 3)()


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
        (
            Memory.of(CELLS, bytes(CELLS)),
            Memory.of(CELLS, bytes((Cell * 3)((0,), (2, 7), (0, 7)))),
            "[1].kind 0 in the live run, 2 for the copy; 3 of 6 values differ",
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


def test_the_text_of_a_structure_has_no_address() -> None:
    """Two of equal values are equal; a field that a property hides is read past it."""

    class Hidden(Cell):
        @property
        def kind(self) -> int:
            raise AssertionError

    one, other = ((Hidden * 2).from_buffer_copy(bytes((Cell * 2)((3, 4)))) for _ in range(2))
    assert Memory.of(one, bytes(one)) == Memory.of(other, bytes(other))
    assert memory_text(one) == "Hidden_Array_2 [(kind=3, at=4), (kind=0, at=0)]"
    assert memory_text(ctypes.c_int(5)) == "c_int 5"


@pytest.mark.parametrize("unknown", [0, 1])
def test_memory_that_could_not_be_read_on_one_side_has_no_first_number(unknown: int) -> None:
    sides = [Memory.of(CELLS, bytes(CELLS)), Memory.of(CELLS, bytes(CELLS))]
    sides[unknown] = Memory.of(CELLS, None)
    kind, text = difference_of(*sides)
    assert kind is None
    assert "values differ" not in text


class Rounded(float):
    """Shown with one digit."""

    def __repr__(self) -> str:
        return f"{self:.1f}"


def test_items_that_are_shown_alike_and_differ_are_no_other_order() -> None:
    listed, moved, changed = (
        ("list", list(map(Rounded, numbers))) for numbers in ((0.01, 0.02), (0.02, 0.01), (3, 3.01))
    )
    assert difference_of(listed, moved)[0] == "order of a list"
    assert difference_of(listed, changed)[0] is None
    assert difference_of(listed, ("list", list(map(Rounded, (0.03, 0.04)))))[0] is None
