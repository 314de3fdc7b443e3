"""Stripes own each row exactly once, and hold the rows of others that are near."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.sharding import ShardsError, Stripes


@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 4))
def test_each_row_has_one_owner(rows: int, count: int, halo: int) -> None:
    """Or the division is refused: exactly if a stripe would be lower than the halo, or empty."""
    heights = [rows * (k + 1) // count - rows * k // count for k in range(count)]
    if count > 1 and min(heights) < max(halo, 1):
        with pytest.raises(ShardsError, match="do not divide a world of"):
            Stripes.divide(rows, count, halo)
        return
    stripes = Stripes.divide(rows, count, halo)
    owners = [shard for shard in range(count) for _ in range(*stripes.own(shard))]
    assert stripes.owner(range(rows)).tolist() == owners
    assert sorted(owners) == owners
    assert len(owners) == rows
    assert max(heights) - min(heights) <= 1


@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 60))
def test_rows_near_another_shard(rows: int, count: int, width: int) -> None:
    """By brute force: all rows of one shard whose distance from some row of the other is at most the width."""
    count = min(count, rows)
    stripes = Stripes.divide(rows, count, 1)
    for shard in range(count):
        for other in range(count):
            near = [row for start, stop in stripes.rows_near(shard, other, width) for row in range(start, stop)]
            theirs = range(*stripes.own(other))
            expected = [
                row
                for row in range(*stripes.own(shard))
                if other != shard and min(abs(row - y) for y in theirs) <= width
            ]
            assert sorted(near) == expected


def test_what_is_held_ends_at_the_world() -> None:
    """The halo of the first and of the last stripe is on one side."""
    stripes = Stripes.divide(10, 3, 2)
    assert [stripes.own(shard) for shard in range(3)] == [(0, 3), (3, 6), (6, 10)]
    assert [stripes.held(shard) for shard in range(3)] == [(0, 5), (1, 8), (4, 10)]


def test_the_refusal_says_how_many_are_possible() -> None:
    """Such a number of shards is then accepted."""
    with pytest.raises(
        ShardsError, match=r"^6 shards do not divide a world of 10 rows: .*, so there can be at most 5$"
    ):
        Stripes.divide(10, 6, 2)
    assert Stripes.divide(10, 5, 2).count == 5
