"""Ends of runs in data sets: terminated, outcomes, and the last pair of a range, for runs that ended and others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duel_world
import pyarrow.parquet as pq
import pytest
from corpora import duel_folder  # noqa: F401 - a fixture

from recorder import Recorder
from recorder.corpus import examine
from replayer.datasets.extract import extract
from replayer.datasets.request import ExtractionError
from replayer.repair.repair import repair_tape

pytestmark = [pytest.mark.share(0.12), pytest.mark.usefixtures("duel_folder")]

TICKS = 20


def record(name: str, reason: str | None = None, *, ticks: int = TICKS, **config: Any) -> Path:
    """Record a run of the world duel in which the left player wins. reason: None closes without an outcome."""
    path = Path(f"{name}.tape")
    with Recorder(path, duel_world.Duel({"seed": 3, **config})) as tape:
        for _ in range(ticks):
            tape.step([[0, 3]])
        if reason is not None:
            tape.close({"reason": reason})
    return path


def rows(path: Path | list[Path], **wanted: Any) -> list[dict[str, Any]]:
    """The rows of pairs, without observations."""
    shutil.rmtree("out", ignore_errors=True)
    extract(path, "out", tables="pairs", fields="heaps", actions=(), **wanted)
    return pq.read_table("out/pairs").to_pylist()


def test_a_run_that_ended_by_itself_is_terminated() -> None:
    """The world's own end needs no outcome that the caller gives to close."""
    full = int(duel_world_heaps(TICKS)[0])
    *others, left, right = rows(record("run", full=full))
    assert not any(row["terminated"] or row["truncated"] or row["reason"] for row in others)
    for row, outcome in ((left, "won"), (right, "lost")):
        assert (row["terminated"], row["truncated"], row["reason"]) == (True, False, "full")
        assert (row["outcome"], row["tick"] + row["ticks"]) == (outcome, TICKS)


def duel_world_heaps(ticks: int) -> list[int]:
    live = duel_world.Duel({"seed": 3})
    for _ in range(ticks):
        live.step([[0, 3]])
    heaps: list[int] = live.state["heaps"].tolist()
    return heaps


REASONS = [
    *("interrupted", "terminated", "exception", "written out", "cut out", "shrunk", "checkpoint", "peer desync"),
    "repaired",
]


@pytest.mark.parametrize("reason", [None, "ticks", "a goal", *REASONS])
def test_outcomes_are_those_of_the_listing(reason: str | None) -> None:
    """A run that was stopped has no outcome and is truncated, whatever stopped it."""
    path = record("run", reason)
    listed = {player.player: player.outcome or "" for player in examine(path).players}
    found = rows(path)
    assert {row["agent"]: row["outcome"] for row in found} == listed
    assert listed == ({"left": "won", "right": "lost"} if reason not in REASONS else {"left": "", "right": ""})
    assert (found[-1]["terminated"], found[-1]["truncated"]) == (reason == "a goal", reason != "a goal")
    if reason in REASONS:
        with pytest.raises(ExtractionError, match="the runs have no winners"):
            rows(path, mode="balanced")


def test_a_repaired_tape_without_an_end_has_no_outcome() -> None:
    """A torn tape has no end, and so has its repaired copy."""
    path = record("run", full=1000)
    path.write_bytes(path.read_bytes()[:-300])
    repair_tape(path, "good.tape")
    for tape in (path, Path("good.tape")):
        last = rows(tape)[-1]
        assert (last["outcome"], last["terminated"], last["truncated"]) == ("", False, True), tape


@pytest.mark.parametrize("stride", [1, 3, 7, 50])
@pytest.mark.parametrize("last", [15, 20, 24])
def test_the_last_pair_of_a_range_is_the_same_in_all_runs(stride: int, last: int) -> None:
    """A range ends with a shorter pair, also in a run that continues after it."""
    expected = [(tick, min(stride, last - tick)) for tick in range(2, last, stride)]
    for ticks in (last, last + 1, last + 9):
        found = rows(record(f"run-{ticks}", ticks=ticks), ranges=((2, last),), stride=stride, agents="left")
        assert [(row["tick"], row["ticks"]) for row in found] == expected
