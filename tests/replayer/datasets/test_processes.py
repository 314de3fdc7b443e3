"""The parts of an extraction are shared out so that each process has work, for short tapes and for large states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import recorder
import replayer
from recorder.processes.inline_pool import InlinePool
from recorder.processes.pool import Pool, Submission
from replayer.datasets import plan
from replayer.datasets.parts import run_parts

from oracle.live_runs import record_live
from small_worlds import Herd


class CountingPool(InlinePool):
    """A pool of this process, and the parts of each batch that it was given. Also the engine that has it."""

    def __init__(self) -> None:
        object.__setattr__(self, "batches", list[list[Any]]())
        object.__setattr__(self, "read", list[Any]())

    def pool(self, workers: int | None = None) -> AbstractContextManager[Pool]:
        """See Engine. workers: None for as many as there are processors."""
        assert workers is None
        return nullcontext(self)

    def submit(self, work: Any, items: Any, *, name: Callable[[Any], str], on_progress: Any = None) -> Submission[Any]:
        """Note the batches of parts, and work on them."""
        items = list(items)
        if items and isinstance(items[0], Sequence) and isinstance(items[0][0], plan.DatasetPart):
            self.batches.extend(items)  # type: ignore[attr-defined]
        elif items and isinstance(items[0], Sequence):
            self.read.extend(path for batch in items for path in batch)  # type: ignore[attr-defined]
        return super().submit(work, items, name=name, on_progress=on_progress)


def ticks_of_batches(tapes: Path | list[Path], out: Path, jobs: int, **wanted: Any) -> list[int]:
    pool = CountingPool()
    replayer.extract(tapes, out, pool=pool, jobs=jobs, **wanted)
    return [sum(part.last - part.first + 1 for part in batch) for batch in pool.batches]  # type: ignore[attr-defined]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_intervals_of_one_tape_of_large_states_are_shared_out(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that is full by its bytes is a batch of its own, though it has few ticks."""
    record_live(tmp_path / "herd.tape", Herd(3), [None] * 60, keyframe_interval_ticks=6)
    with replayer.open(tmp_path / "herd.tape", Herd) as run:
        run.seek(0)
        state_bytes = run.state.layout.size_bytes
    monkeypatch.setattr(plan, "PART_BYTES", 12 * state_bytes)
    ticks = ticks_of_batches(tmp_path / "herd.tape", tmp_path / "out", jobs, world=Herd, tables="states")
    assert len(ticks) == 5, ticks
    assert sum(ticks) == 61
    assert max(ticks) <= 18


@pytest.mark.parametrize(("jobs", "batches"), [(1, 1), (2, 2), (4, 4)])
def test_short_tapes_are_shared_out_among_the_processes(jobs: int, batches: int, tmp_path: Path) -> None:
    """One process for as much work as a part may be, and more only where there are processes for it."""
    paths = [tmp_path / f"{number}.tape" for number in range(8)]
    for path in paths:
        record_live(path, Herd(3), [None] * 20, keyframe_interval_ticks=6)
    ticks = ticks_of_batches(paths, tmp_path / "out", jobs, world=Herd, tables="states")
    assert ticks == [8 * 21 // batches] * batches


def record_cart(path: Path, seed: int, steps: int) -> None:
    """Record random actions in CartPole, with a reset after each episode."""
    gymnasium = pytest.importorskip("gymnasium")
    with recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, keyframe_interval_ticks=20) as env:
        env.action_space.seed(seed)
        env.reset(seed=seed)
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()


def test_the_tape_of_an_environment_is_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process takes several full parts, and two processes take half of them each, in more than one turn."""
    record_cart(tmp_path / "cart.tape", seed=1, steps=400)
    monkeypatch.setattr(plan, "PART_TICKS", 50)
    (alone,) = ticks_of_batches(tmp_path / "cart.tape", tmp_path / "one", 1)
    several = ticks_of_batches(tmp_path / "cart.tape", tmp_path / "two", 2)
    assert sum(several) == alone
    assert len(several) >= 4
    assert max(several) <= alone / 4
    files = [sorted(path.read_bytes() for path in (tmp_path / name).rglob("*.parquet")) for name in ("one", "two")]
    assert files[0] == files[1]


def test_one_process_takes_more_of_an_environment_once_it_is_known_to_be_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch is measured; with no time allowed for a longer one, all are as long as the first."""
    record_cart(tmp_path / "cart.tape", seed=2, steps=300)
    monkeypatch.setattr(plan, "PART_TICKS", 20)
    monkeypatch.setattr(run_parts, "ENVIRONMENT_PARTS", 2)
    monkeypatch.setattr(run_parts, "LONGER_S", 0.0)
    short = ticks_of_batches(tmp_path / "cart.tape", tmp_path / "short", 1)
    monkeypatch.setattr(run_parts, "LONGER_S", 1e9)
    first, rest = ticks_of_batches(tmp_path / "cart.tape", tmp_path / "long", 1)
    assert len(short) > 4
    assert (first, rest) == (short[0], sum(short[1:]))
    files = [sorted(path.read_bytes() for path in (tmp_path / name).rglob("*.parquet")) for name in ("short", "long")]
    assert files[0] == files[1]


def test_an_engine_without_jobs_is_not_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has as many as its machines have processors: it reads the tapes too, and no batch is made longer for one process."""
    gymnasium = pytest.importorskip("gymnasium")
    paths = [tmp_path / f"{number}.tape" for number in range(6)]
    for path in paths:
        with recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True) as env:
            env.reset(seed=3)
            for number in range(8):
                env.step(number % 2)
    monkeypatch.setattr(run_parts, "ENVIRONMENT_TAPES", 2)
    monkeypatch.setattr(run_parts, "LONGER_S", 1e9)
    engine = CountingPool()
    replayer.extract(paths, tmp_path / "out", engine=engine)
    read, batches = engine.read, engine.batches  # type: ignore[attr-defined]
    assert read[: len(paths)] == paths
    assert [len(batch) for batch in batches] == [2, 2, 2]
