"""Inputs are encoded as plain data is, also those that are encoded without it."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.session.hot_path.encode_inputs import encode_inputs
from sim.kernel.plain_data import PlainEncoder, encode_plain


@pytest.mark.parametrize("inputs", [*range(-2, 130), 255, 256, -(1 << 63), (1 << 64) - 1, True, False, None, 1.0, "a"])
def test_each_number_is_encoded_as_plain_data(inputs: Any) -> None:
    """Small numbers are taken from a table."""
    assert encode_inputs(PlainEncoder(), inputs, 1) == encode_plain(inputs)
