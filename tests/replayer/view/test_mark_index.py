"""Marks counted into bins and curves in few points, compared with plain loops over all ticks."""

from __future__ import annotations

import itertools
import random

import numpy as np

from replayer.view.curve_files import curves_as_csv
from replayer.view.mark_index import MarkIndex, curve_points


def test_bins_count_each_mark_once_at_every_zoom() -> None:
    """Each bin has the same whole number of ticks, so that an even run does not look like a comb."""
    ticks = sorted(random.choices(range(1500), k=400))
    index = MarkIndex()
    index.add({"event_ticks": {"born": np.array(ticks, np.int64)}, "input_ticks": np.arange(0, 1500)})
    for _ in range(60):
        first, bins = random.randrange(1500), random.randrange(1, 2000)
        last = random.randrange(first, 1500)
        tracks = index.tracks(first, last, bins)

        width, counts = tracks["width"], tracks["events"]["born"]
        assert len(counts) <= max(1, bins)
        for number, count in enumerate(counts):
            start = first + number * width
            assert count == sum(start <= tick < start + width and tick <= last for tick in ticks)
        assert sum(counts) == sum(first <= tick <= last for tick in ticks)
        assert set(tracks["inputs"][:-1]) <= {width}
        assert tracks["event_counts"] == {"born": 400}


def test_a_jump_finds_the_next_mark_and_the_one_before() -> None:
    """Of one kind, or of any."""
    index = MarkIndex()
    kinds = {kind: sorted(random.sample(range(100), 9)) for kind in ("a", "b")}
    index.add({"event_ticks": {kind: np.array(ticks, np.int64) for kind, ticks in kinds.items()}})
    for name in ("a", "b", None):
        ticks = kinds[name] if name is not None else sorted(kinds["a"] + kinds["b"])
        for tick in range(-1, 101):
            assert index.jump("event", name, tick, back=False) == min((t for t in ticks if t > tick), default=None)
            assert index.jump("event", name, tick, back=True) == max((t for t in ticks if t < tick), default=None)
    assert index.jump("event", "unknown", 5, back=False) is None
    assert index.jump("nonsense", None, 5, back=False) is None


def test_a_curve_keeps_each_peak_and_draws_nothing_over_unknown_ticks() -> None:
    """The greatest and the least value of a stretch are among its points; a gap is a point without a value."""
    for _ in range(30):
        ticks = np.array(sorted(random.sample(range(3000), random.randrange(1, 2000))), np.int64)
        values = np.array([random.uniform(-5, 5) for _ in ticks])
        points = curve_points(ticks, values, 0, 2999, random.choice([5, 50, 4000]))

        known = {tick: value for tick, value in points if value is not None}
        assert known.items() <= dict(zip(ticks.tolist(), values.tolist(), strict=True)).items()
        assert max(known.values()) == values.max()
        assert min(known.values()) == values.min()
        assert [tick for tick, _ in points] == sorted(tick for tick, _ in points)
        for (tick, value), (following, after) in itertools.pairwise(points):
            if value is not None and after is not None:  # A line is drawn: all ticks between are known.
                assert set(range(tick, following)) <= set(ticks.tolist())


def test_curves_as_csv_have_no_formulas() -> None:
    """A name that a spreadsheet would evaluate gets a quotation mark; values are exact, and empty where none is known."""
    ticks, values = np.array([1, 2, 4], np.int64), np.array([0.1, -2.0, 1e300])
    other = np.array([2, 9], np.int64), np.array([float("inf"), 3.0])
    text = curves_as_csv([("", "=1+1", (ticks, values)), ("B ", "=x", other)], 2, 4)
    assert text == "tick,'=1+1,B =x\r\n2,-2.0,inf\r\n4,1e+300,\r\n"
    assert curves_as_csv([], 0, 9) == "tick\r\n"
