"""Arrow arrays made of bytes equal those that pyarrow makes of the same values, and pandas is not imported for them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replayer.datasets.stores.arrow_arrays import (
    fixed_lists_array,
    lists_array,
    numbers_array,
    text_lists_array,
    texts_array,
)

LENGTHS = (0, 1, 7, 8, 9, 100)


@pytest.mark.parametrize("dtype", "?bBhHiIlLefd")
def test_numbers_equal_those_of_pyarrow(dtype: str) -> None:
    random = np.random.default_rng(1)
    for length in LENGTHS:
        values = (random.random(length) * 100).astype(dtype)
        present = random.random(length) < 0.5
        _ensure_equal(numbers_array(values), pa.array(values))
        _ensure_equal(numbers_array(values, present), pa.array(values, mask=~present))


def test_numbers_of_other_layouts_keep_their_values() -> None:
    assert numbers_array(np.arange(10)[::3]).to_pylist() == [0, 3, 6, 9]
    assert numbers_array(np.array([1, 2], ">i4")).equals(pa.array([1, 2], pa.int32()))
    assert str(numbers_array(np.array([1.5, np.nan])).to_pylist()) == "[1.5, nan]"


def test_lists_equal_those_of_pyarrow() -> None:
    items, present = np.arange(12.0), np.array([True, False, True])
    expected: list[Any] = [[0.0, 1.0, 2.0, 3.0], None, [8.0, 9.0, 10.0, 11.0]]
    _ensure_equal(fixed_lists_array(numbers_array(items), 4, present), pa.array(expected, pa.list_(pa.float64(), 4)))
    expected = [[0.0], None, [1.0, 2.0], []]
    made = lists_array(numbers_array(items[:3]), [1, 0, 2, 0], np.array([True, False, True, True]))
    _ensure_equal(made, pa.array(expected, pa.list_(pa.float64())))


@pytest.mark.parametrize("texts", [["a", None, "ü€", ""], [], [None], ("x",)])
def test_texts_equal_those_of_pyarrow(texts: Any) -> None:
    _ensure_equal(texts_array(texts), pa.array(texts, pa.string()))
    lists = [texts and [text or "" for text in texts], None, []]
    _ensure_equal(
        text_lists_array(lists), pa.array([None if one is None else list(one) for one in lists], pa.list_(pa.string()))
    )


def _ensure_equal(made: pa.Array, expected: pa.Array) -> None:
    made.validate(full=True)
    assert made.type == expected.type
    assert made.null_count == expected.null_count
    assert repr(made.to_pylist()) == repr(expected.to_pylist())


def test_files_are_written_without_pandas(tmp_path: Any) -> None:
    """Of many short tapes, its import took as long as the steps of several."""
    program = f"""
import sys
import numpy as np
from replayer.datasets.rows.columns import Labels, Lists, Nested, Texts
from replayer.datasets.stores.arrow_files import FILES

present = np.array([True, False])
block = {{
    "run": Labels(("a",), np.zeros(2, np.int32)), "tick": np.arange(2), "tensor": np.zeros((2, 2, 2)),
    "nested": Nested(np.zeros((2, 3)), present), "texts": Texts(["a", None]), "lists": Lists(np.arange(2.0), np.array([2, 0])),
}}
for name, kind in FILES.items():
    file = kind({str(tmp_path)!r} + "/rows." + name)
    file.write(block)
    file.close()
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
