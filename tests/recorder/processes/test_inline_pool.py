"""Work in this process, where a fork would hang."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.processes.fork_call import in_a_copy
from recorder.processes.fork_hazard import ForkHazardError, fork_hazard
from recorder.processes.fork_pool import ForkPool
from recorder.processes.inline_pool import InlinePool, local_pool
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from recorder.processes.pool import results_in_order

from small_worlds import Saved


@pytest.fixture
def used_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that looks as JAX's does once it has been used."""
    bridge = types.ModuleType("jax._src.xla_bridge")
    bridge._backends = {"cpu": object()}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)


def name(item: int) -> str:
    return f"worked on {item}"


def test_results_come_in_order_from_this_process_with_their_progress() -> None:
    """One item at a time, and none before it is asked for."""
    begun: list[int] = []
    seen: list[int] = []

    def work(item: int, report: Any) -> tuple[int, int]:
        begun.append(item)
        report(item * 10)
        return item * item, os.getpid()

    results = results_in_order(InlinePool(), work, [1, 2, 3], name=name, on_progress=seen.append)
    assert next(results) == (1, os.getpid())
    assert begun == [1]
    assert [square for square, _ in results] == [4, 9]
    assert seen[0] == 10


def test_an_error_belongs_to_its_item_and_a_cancelled_submission_ends() -> None:
    """As with workers."""

    def work(item: int, _: Any) -> int:
        if item == 2:
            raise ValueError("two")
        return item

    outcomes = list(InlinePool().submit(work, [1, 2, 3], name=name))
    assert [(one.index, one.result, str(one.error or "")) for one in outcomes] == [
        (0, 1, ""),
        (1, None, "two"),
        (2, 3, ""),
    ]
    submission = InlinePool().submit(work, [1, 3], name=name)
    next(submission)
    assert submission.cancel() == ()
    assert list(submission) == []


@pytest.mark.usefixtures("used_jax")
def test_a_process_that_used_jax_is_not_forked() -> None:
    """The message says what hangs and which pool to pass."""
    assert fork_hazard() == "JAX"
    assert local_pool(2) == InlinePool()
    with pytest.raises(
        ForkHazardError, match=r"^JAX has been used in this process.*: pass pool=.*SpawnPool\(workers\)$"
    ):
        ForkPool(1).submit(lambda item, _: item, [1], name=name)
    with pytest.raises(RuntimeError, match="JAX has been used in this process"):
        in_a_copy(dict)


def test_an_import_of_jax_alone_is_no_hazard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads start at first use."""
    bridge = types.ModuleType("jax._src.xla_bridge")
    bridge._backends = {}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    assert fork_hazard() is None
    assert local_pool(2) == ForkPool(2, PATIENCE_S)


@pytest.mark.usefixtures("used_jax")
def test_verify_works_in_fresh_processes_or_this_one_after_jax_was_used(tmp_path: Path) -> None:
    """With the same result, and a desync is still found. No other process can import a class of this function."""
    with recorder.Recorder(tmp_path / "run.tape", Saved(), keyframe_interval_ticks=5) as tape:
        for tick in range(20):
            tape.step(tick)
    report = replayer.open(tmp_path / "run.tape", world=Saved).verify()
    assert report.ok
    assert "fresh process" in report.notes[0]
    assert "because JAX was used" in report.notes[0]

    class Other(Saved):
        def step(self, inputs: Any) -> None:
            super().step(inputs if inputs != 12 else 99)

    report = replayer.open(tmp_path / "run.tape", world=Other).verify()
    assert not report.ok
    assert report.first_bad == 13
    assert report.notes[0].startswith("simulated in this process, because JAX was used")
