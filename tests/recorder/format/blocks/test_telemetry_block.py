"""TELEMETRY payloads: figures come back, and anything else is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.errors import CorruptError
from recorder.format.blocks.telemetry_block import (
    COLUMNS_MAX,
    Row,
    decode_telemetry,
    encode_telemetry,
    join_telemetry,
    make_row,
)
from sim.kernel.plain_data import encode_plain

WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
DECIMAL = st.floats(allow_nan=False)


@given(st.data())
def test_rows_come_back(data: st.DataObject) -> None:
    """Whole numbers come back exactly, floats bit for bit."""
    names = data.draw(st.lists(st.text(min_size=1, max_size=5).filter(lambda n: n != "tick"), unique=True, max_size=4))
    kinds = [data.draw(st.sampled_from([WHOLE, DECIMAL])) for _ in names]
    ticks = sorted(data.draw(st.sets(st.integers(0, 1 << 40), min_size=1, max_size=6)))
    rows = [tuple(data.draw(kind) for kind in kinds) for _ in ticks]
    found = decode_telemetry(encode_telemetry(ticks, names, rows), 0)
    assert list(found) == ["tick", *names]
    assert found["tick"].tolist() == ticks
    assert list(zip(*(found[name].tolist() for name in names), strict=True)) == (rows if names else [])


ONE = {"tick": np.array([1, 2]), "columns": {"a": np.array([1, 2])}}


@pytest.mark.parametrize(
    "plain",
    [
        5,
        {"tick": np.array([1, 2])},
        {**ONE, "tick": np.array([2, 1])},
        {**ONE, "tick": np.array([1, 1])},
        {**ONE, "tick": np.array([1.0, 2.0])},
        {**ONE, "tick": np.array([[1], [2]])},
        {**ONE, "tick": np.array(1)},
        {**ONE, "columns": {"a": np.array([1])}},
        {**ONE, "columns": {"a": np.array([1, 2], np.int32)}},
        {**ONE, "columns": {"a": [1, 2]}},
        {**ONE, "columns": {"tick": np.array([1, 2])}},
        {**ONE, "columns": {5: np.array([1, 2])}},
    ],
    ids=repr,
)
def test_invalid_telemetry_is_corrupt(plain: Any) -> None:
    """The error names the offset."""
    with pytest.raises(CorruptError, match="corrupt at byte 77: a TELEMETRY block"):
        decode_telemetry(encode_plain(plain), 77)
    with pytest.raises(CorruptError, match="corrupt at byte 77: a TELEMETRY block that cannot be decoded"):
        decode_telemetry(encode_plain(plain)[:-1] or b"\xc1", 77)


def test_blocks_are_joined() -> None:
    """Rows ascend by tick, the later block's row of a tick is kept, and missing columns are NaN."""
    first = decode_telemetry(encode_telemetry([1, 2, 5], ["a", "b"], [(1, 1), (2, 2), (5, 5)]), 0)
    second = decode_telemetry(encode_telemetry([2, 3], ["a", "c"], [(20, 0.5), (30, 1.5)]), 0)
    found = join_telemetry([first, second])
    assert found["tick"].tolist() == [1, 2, 3, 5]
    assert found["a"].tolist() == [1, 20, 30, 5]
    assert np.array_equal(found["b"], [1, np.nan, np.nan, 5], equal_nan=True)
    assert np.array_equal(found["c"], [np.nan, 0.5, 1.5, np.nan], equal_nan=True)
    assert join_telemetry([])["tick"].tolist() == []


def test_rows_are_checked() -> None:
    """Numbers of every kind are accepted; the message names any other value."""
    row = {"a": 1, "b": True, "c": np.int16(3), "d": np.float32(0.5), "e": 0.25}
    assert make_row(7, row) == Row(7, ("a", "b", "c", "d", "e"), (1, 1, 3, 0.5, 0.25))
    for bad, error, message in [
        (5, TypeError, "returned int: expected a mapping"),
        ({"a": "1"}, TypeError, "figure a is str"),
        ({"a": None}, TypeError, "figure a is NoneType"),
        ({"a": 1 << 63}, ValueError, "figure a: 9223372036854775808 does not fit"),
        ({"tick": 1}, ValueError, "a figure named 'tick'"),
        ({"": 1}, ValueError, "a figure named ''"),
        ({3: 1}, ValueError, "a figure named 3"),
        ({"x" * 257: 1}, ValueError, "a figure named"),
        ({str(n): n for n in range(COLUMNS_MAX + 1)}, ValueError, "4097 figures"),
    ]:
        with pytest.raises(error, match=message):
            make_row(7, bad)


def test_the_limits_of_figures() -> None:
    """64 bits, the number of columns, the length of names: the limit is accepted, one more is refused."""
    lowest, highest = -(1 << 63), (1 << 63) - 1
    assert make_row(1, {"a": lowest, "b": highest}).values == (lowest, highest)
    for number in (lowest - 1, highest + 1):
        with pytest.raises(ValueError, match="does not fit into 64 bits"):
            make_row(1, {"a": number})
    assert len(make_row(1, {f"c{i}": 0 for i in range(COLUMNS_MAX)}).names) == COLUMNS_MAX
    with pytest.raises(ValueError, match="at most 4096"):
        make_row(1, {f"c{i}": 0 for i in range(COLUMNS_MAX + 1)})
    assert make_row(1, {"é" * 128: 0}).names == ("é" * 128,)
    with pytest.raises(ValueError, match="a short text"):
        make_row(1, {"é" * 128 + "e": 0})


def test_columns_have_one_kind_of_number() -> None:
    """One float makes a column of floats; whole numbers are int64, also on machines with a shorter C long."""
    found = decode_telemetry(encode_telemetry([1, 2], ["a", "b"], [(1, 2.5), (3, 4)]), 0)
    assert [(found[name].dtype, found[name].tolist()) for name in found] == [
        (np.int64, [1, 2]),
        (np.int64, [1, 3]),
        (np.float64, [2.5, 4.0]),
    ]
    assert join_telemetry([])["tick"].dtype == np.int64
    with pytest.raises(ValueError, match="zip"):
        encode_telemetry([1, 2], ["a", "b"], [(1, 2), (3,)])
    with pytest.raises(ValueError, match="zip"):
        encode_telemetry([1, 2], ["a", "b", "c"], [(1, 2), (3, 4)])
