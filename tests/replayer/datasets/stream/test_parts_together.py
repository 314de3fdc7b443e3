"""Parts that are read as one give the rows of the parts, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pyarrow")

import gymnasium

import recorder
import replayer
from replayer.datasets.plan import DatasetPart
from replayer.datasets.stream import parts_together
from replayer.datasets.stream.parts_together import PartsTogether


def parts_of(count: int) -> list[DatasetPart]:
    """Parts of ten ticks, as they are planned; the last one has its last tick."""
    bounds = [(10 * n, 10 * (n + 1)) for n in range(count)]
    parts = [DatasetPart(n, 0, range(a, b), b, a + (n > 0), b) for n, (a, b) in enumerate(bounds)]
    parts[-1] = DatasetPart(count - 1, 0, range(10 * (count - 1), 10 * count + 1), None, 10 * count - 9, 10 * count)
    return parts


def read(together: PartsTogether, parts: list[DatasetPart], seconds: float) -> list[tuple[range, int, int]]:
    """Take all parts, each in so many seconds; return the ticks, the first and the last of what was taken."""
    found, index = [], 0
    while index < len(parts):
        part, index = together.take(parts, index)
        together._read_s = seconds  # Instead of a clock.
        found.append((part.ticks, part.first, part.last))
    return found


def test_more_and_more_parts_are_read_as_one_while_it_is_quick() -> None:
    parts = parts_of(8)
    assert read(PartsTogether(is_allowed=True), parts, 0) == [
        (range(10), 0, 10),
        (range(10, 30), 11, 30),
        (range(30, 70), 31, 70),
        (range(70, 81), 71, 80),
    ]
    one_by_one = [(part.ticks, part.first, part.last) for part in parts]
    assert read(PartsTogether(is_allowed=True), parts, parts_together.SECONDS_MAX + 1) == one_by_one
    assert read(PartsTogether(is_allowed=False), parts, 0) == one_by_one


def test_parts_that_do_not_follow_each_other_are_read_alone() -> None:
    """Those of another tape, of another range, and of another shard between them."""
    first, second, third = parts_of(3)
    other = DatasetPart(3, 1, range(11), None, 0, 10)
    together = PartsTogether(is_allowed=True)
    together._read_s = 0
    assert [one[1:] for one in read(together, [first, third, other, second], 0)] == [
        (0, 10),
        (21, 30),
        (0, 10),
        (11, 20),
    ]


@pytest.mark.parametrize("seconds", [0.0, 9.0])
def test_rows_in_order_are_those_of_a_plain_loop(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(self: PartsTogether, rows: Iterator[Any]) -> Iterator[Any]:
        self._read_s = seconds
        yield from rows

    monkeypatch.setattr(PartsTogether, "timed", timed)
    seen: dict[str, list[Any]] = {"obs": [], "action": [], "reward": [], "next": [], "terminated": [], "truncated": []}
    with recorder.record(
        gymnasium.make("CartPole-v1"), tmp_path / "cart.tape", quiet=True, keyframe_interval_ticks=20
    ) as env:
        env.action_space.seed(3)
        observation, _ = env.reset(seed=3)
        while len(seen["obs"]) < 400:
            action = env.action_space.sample()
            then, reward, terminated, truncated, _ = env.step(action)
            returned: tuple[Any, ...] = (observation.copy(), action, reward, then.copy(), terminated, truncated)
            for column, value in zip(seen.values(), returned, strict=True):
                column.append(value)
            observation = env.reset()[0] if terminated or truncated else then
    for proof in ("ticks", "sampled"):
        found = [*replayer.samples(tmp_path / "cart.tape", shuffle=False, batch=64, proof=proof)]
        for name, values in seen.items():
            rows = np.concatenate([batch[name] for batch in found])
            assert rows.tobytes() == np.array(values).tobytes(), (proof, name)
