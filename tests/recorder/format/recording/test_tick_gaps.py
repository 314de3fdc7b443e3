"""Ranges without frames and their drops, compared with counting tick by tick."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.errors import CorruptError
from recorder.format.blocks.drop_block import Drop, decode_drop
from recorder.format.recording.tick_gaps import drop_at, gap_at, merged, share_out
from sim.kernel.plain_data import encode_plain

LAST = 40

ranges = st.tuples(st.integers(0, LAST), st.integers(0, 12)).map(lambda one: (one[0], one[0] + one[1]))
drops_said = st.lists(
    st.builds(lambda span, why: Drop(*span, why), ranges, st.sampled_from(("full", "slow"))), max_size=7
)


@st.composite
def gaps_without_overlap(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Ascending ranges; some touch."""
    cuts = sorted(draw(st.sets(st.integers(0, LAST), max_size=8)))
    kept = [pair for pair in itertools.pairwise(cuts) if draw(st.booleans())]
    return [
        (first, last - draw(st.integers(1, last - first))) if last - first > 1 else (first, first)
        for first, last in kept
    ]


@given(gaps_without_overlap(), drops_said)
def test_of_each_tick_the_first_drop_with_it_counts(gaps: list[tuple[int, int]], drops: list[Drop]) -> None:
    """Drops may overlap; the result ascends, and ranges that touch with the same reason are joined."""
    found = share_out(gaps, drops)
    said = {}
    for first, last in gaps:
        for tick in range(first, last + 1):
            whys = [drop.why for drop in drops if drop.first_tick <= tick <= drop.last_tick]
            if whys:
                said[tick] = whys[0]
    assert {tick: one.why for one in found for tick in range(one.first_tick, one.last_tick + 1)} == said
    for one, two in itertools.pairwise(found):
        assert one.last_tick < two.first_tick
        assert (one.last_tick + 1, one.why) != (two.first_tick, two.why)
    for tick in range(-1, LAST + 15):
        at = drop_at(found, tick)
        assert (at.why if at is not None else None) == said.get(tick)
        inside = [gap for gap in gaps if gap[0] <= tick <= gap[1]]
        assert gap_at(gaps, tick) == (inside[0] if inside else None)


@given(st.lists(ranges, max_size=8).map(sorted))
def test_merged_ranges_have_the_same_ticks(some: list[tuple[int, int]]) -> None:
    """The merged ranges do not touch each other."""
    found = merged(some)
    assert {tick for first, last in found for tick in range(first, last + 1)} == {
        tick for first, last in some for tick in range(first, last + 1)
    }
    assert all(one[1] + 1 < two[0] for one, two in itertools.pairwise(found))


def test_ranges_of_any_length_take_no_time() -> None:
    """Work is in proportion to the number of ranges."""
    far = 1 << 62
    drops = [Drop(0, far, "a"), Drop(5, 7, "b"), Drop(far + 1, far + 1, "a")]
    assert share_out([(3, far + 1)], drops) == [Drop(3, far + 1, "a")]
    assert share_out([(3, 9)], drops[1:]) == [Drop(5, 7, "b")]


@pytest.mark.parametrize(
    ("said", "first", "last"),
    [({}, 4, 4), ({}, 0, 9), ({"more": 1}, 4, 5)],
    ids=["one", "several", "a later version's"],
)
def test_what_a_drop_says(said: dict[str, int], first: int, last: int) -> None:
    """Its ticks and why."""
    payload = encode_plain({"first_tick": first, "last_tick": last, "why": "no room", **said})
    assert decode_drop(payload, 64) == Drop(first, last, "no room")


@pytest.mark.parametrize("wrong", [{"first_tick": 5}, {"first_tick": -1}, {"last_tick": 1.5}, {"why": None}])
def test_invalid_drops_are_corrupt(wrong: dict[str, object]) -> None:
    """Other values, and ticks the wrong way round."""
    with pytest.raises(CorruptError):
        decode_drop(encode_plain({"first_tick": 3, "last_tick": 4, "why": "x", **wrong}), 64)
