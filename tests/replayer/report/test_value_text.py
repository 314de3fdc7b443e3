"""States and values as text and JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recorder.text import bytes_text
from replayer.value_text import describe_field, field_summary, picture, to_json
from sim import Field, Schema, State


def test_values_become_json() -> None:
    """Arrays become lists, bytes hexadecimal text, complex numbers pairs, keys text."""
    value = {1: (np.arange(3, dtype="u1"), b"\x00\xff"), "c": np.complex128(1 + 2j), "n": None, "b": np.bool_(True)}

    assert json.loads(json.dumps(to_json(value))) == {"1": [[0, 1, 2], "00ff"], "c": [1.0, 2.0], "n": None, "b": True}


@pytest.mark.parametrize(
    ("dtype", "values", "text"),
    [
        (
            "i8",
            [2**62, 2**62, 2**62, -1],
            "4 int64: min -1, max 4,611,686,018,427,387,904, sum 13,835,058,055,282,163,711",
        ),
        ("u1", [200, 100], "2 uint8: min 100, max 200, sum 300"),
        ("?", [True, False, True], "3 bool: min False, max True, sum 2"),
        ("f4", [0.5, 1.5], "2 float32: min 0.5, max 1.5, mean 1"),
        ("i4", [7], "1 int32: value 7"),
        ("i4", [], "0 int32"),
        ("c16", [1j, 2j], "2 complex128"),
    ],
)
def test_a_field_in_one_line(dtype: str, values: list[object], text: str) -> None:
    """Extremes and the exact sum, also beyond 64 bits; empty fields and single numbers have separate formats."""
    state = State(Schema(Field("f", dtype, (len(values),))))
    state["f"][:] = values

    assert describe_field(state.snapshot(), "f") == text


def test_the_summary_of_a_number() -> None:
    """A field of one number shows its value."""
    state = State(Schema(Field("tick", "i8")))
    state["tick"][()] = 5

    assert field_summary(state.snapshot(), "tick") == {"dtype": "int64", "shape": [], "value": 5}


def test_a_picture_is_darker_where_values_are_larger() -> None:
    """Two rows make a line; the lowest block is blank, the highest is full; a flat field is blank."""
    field = np.array([[0, 1, 2, 3, 4]] * 2)

    assert picture(field, 80) == [" ░▒▓█"]
    assert picture(np.full((4, 3), 7), 80) == ["   ", "   "]


def test_a_picture_fits_the_width() -> None:
    """A wide field is gathered into blocks, none of its cells left out."""
    field = np.zeros((10, 1000))
    field[9, 999] = 1

    lines = picture(field, 80)
    assert {len(line) for line in lines} == {77}
    assert lines[-1][-1] == "█"
    assert "".join(lines).strip() == "█"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (1_550_000, "1.6 MB"), (5e12, "5000.0 GB")],
)
def test_sizes_for_people(size: float, text: str) -> None:
    """Decimal units, one place."""
    assert bytes_text(size) == text
