"""A difference by the depth of the stack is told from one by time or by chance."""

from __future__ import annotations

import itertools
import random

import pytest

from replayer.desync.stack_depth import DEPTHS, differs_by_depth


def test_a_result_of_each_depth_differs_by_depth() -> None:
    assert differs_by_depth(lambda deeper: deeper)
    assert not differs_by_depth(lambda _: 1)
    assert not differs_by_depth(lambda deeper: deeper or None)


@pytest.mark.parametrize("runs", range(1, len(DEPTHS) + 1))
def test_a_clock_that_moves_on_between_some_runs_is_not_the_depth(runs: int) -> None:
    """Such as one of seconds: the same in some runs one after another, then another one."""
    count = itertools.count(1)
    assert not differs_by_depth(lambda _: next(count) // runs)


def test_a_coin_is_seldom_taken_for_the_depth() -> None:
    """In one case of 128: each of the eight runs gives what its depth asks for, with either side first."""
    coin = random.Random(3)
    taken = sum(differs_by_depth(lambda _: coin.random() < 0.5) for _ in range(5_000))
    assert taken < 5_000 / 128 * 2
