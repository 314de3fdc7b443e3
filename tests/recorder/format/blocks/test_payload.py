"""Payloads in parts: the pieces do not depend on the parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.format.blocks.payload import Payload


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 50))
def test_pieces_are_those_of_the_joined_payload(parts: list[bytes], size: int) -> None:
    """All pieces but the last have the requested size."""
    whole = b"".join(parts)
    expected = [whole[begin : begin + size] for begin in range(0, len(whole), size)]
    assert [bytes(piece) for piece in Payload.of(*parts).pieces(size)] == expected
    assert bytes(Payload.of(*parts).joined()) == whole
    assert Payload.of(*parts).size_bytes == len(whole)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 100])
def test_parts_that_reuse_their_memory(size: int) -> None:
    """A part is valid until the next one is requested: its memory may be reused for the next."""
    memory = np.empty(8, np.uint8)

    def parts() -> Iterator[np.ndarray]:
        for number in range(10):
            memory[:] = number
            yield memory

    whole = bytes(number for number in range(10) for _ in range(8))
    assert bytes(Payload(80, parts).joined()) == whole
    found = [bytes(piece) for piece in Payload(80, parts).pieces(size)]
    assert found == [whole[begin : begin + size] for begin in range(0, 80, size)]
