"""Rows read directly from tapes are those of the live run, each once per epoch, shuffled in a bounded buffer."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import replayer
from recorder.format.blocks.block import BlockKind
from replayer.datasets.extract import extract
from replayer.datasets.request import ExtractionError, ExtractionWarning, Request
from replayer.datasets.stream.shuffle_buffer import ShuffleBuffer, in_batches
from sim import Field, Schema, State

from oracle.live_runs import Live, record_live, splitting_seed
from oracle.repair_runs import all_blocks, destroy
from small_worlds import Herd, Saved, Walkers

pytestmark = pytest.mark.share(0.18)

TICKS = 100


@pytest.fixture(scope="module")
def walkers(tmp_path_factory: Any) -> tuple[Path, Live, list[Any]]:
    path = tmp_path_factory.mktemp("walkers") / "walkers.tape"
    inputs = [[[tick % 20, tick]] for tick in range(TICKS)]
    return path, record_live(path, Walkers(2), inputs, keyframe_interval_ticks=9), inputs


@pytest.fixture(scope="module")
def herd(tmp_path_factory: Any) -> tuple[Path, Live]:
    path = tmp_path_factory.mktemp("herd") / "herd.tape"
    return path, record_live(path, Herd(3), [None] * TICKS, keyframe_interval_ticks=7, full_every=3)


def ticks_of(rows: Any) -> list[int]:
    return [int(row["tick"]) for row in rows]


@pytest.mark.parametrize("stride", [1, 3, 40])
def test_pairs_are_those_of_the_live_run(walkers: tuple[Path, Live, list[Any]], stride: int) -> None:
    path, live, inputs = walkers
    rows = list(replayer.samples(path, world=Walkers, table="pairs", fields=("x", "rng"), stride=stride, seed=4))
    for row in rows:
        began, ended = int(row["tick"]), int(row["tick"]) + int(row["ticks"])
        for name in ("x", "rng"):
            assert row[f"obs.{name}"].tobytes() == live[began][2][name].tobytes()
            assert row[f"next.{name}"].tobytes() == live[ended][2][name].tobytes()
        sent = np.array(inputs[began:ended])
        assert np.array_equal(row["action.inputs"].reshape(-1, 1, 2)[: len(sent)], sent)
        assert bool(row["truncated"]) == (ended == TICKS)
    assert sorted(ticks_of(rows)) == list(range(0, TICKS, stride))
    assert ticks_of(rows) != sorted(ticks_of(rows))


def test_states_with_lists_are_those_of_the_live_run(herd: tuple[Path, Live]) -> None:
    path, live = herd
    batches = list(replayer.samples(path, world=Herd, table="states", buffer_rows=20, batch=8))
    assert [len(batch["tick"]) for batch in batches] == [8] * 12 + [5]
    for batch in batches:
        assert batch["grass"].shape[1:] == (4, 6)
        for place, tick in enumerate(batch["tick"].tolist()):
            for name in ("grass", "animals.age", "animals.place", "rng"):
                assert batch[name][place].tobytes() == live[tick][2][name].tobytes()
                assert batch[name][place].shape == live[tick][2][name].shape
    assert sorted(tick for batch in batches for tick in batch["tick"].tolist()) == list(range(TICKS + 1))


def test_rows_are_those_of_the_files(walkers: tuple[Path, Live, list[Any]], tmp_path: Path) -> None:
    path = walkers[0]
    wanted: dict[str, Any] = {"world": Walkers, "fields": ("x",), "stride": 7}
    extract(path, tmp_path / "out", tables="pairs", **wanted)
    table = pq.read_table(tmp_path / "out" / "pairs")
    rows = list(replayer.samples(path, table="pairs", shuffle=False, **wanted))
    assert table.column_names == list(rows[0])
    for name in table.column_names:
        column = table[name].combine_chunks()
        found = column.to_numpy_ndarray() if hasattr(column, "to_numpy_ndarray") else column.to_pylist()
        assert np.array_equal(np.array(found), np.array([row[name] for row in rows])), name


@pytest.mark.parametrize("shuffle", [True, False])
def test_shards_are_disjoint_and_complete(walkers: tuple[Path, Live, list[Any]], *, shuffle: bool) -> None:
    shards = [
        ticks_of(
            replayer.samples(
                walkers[0], world=Walkers, table="states", shuffle=shuffle, shard=(number, 3), epoch=2, buffer_rows=16
            )
        )
        for number in range(3)
    ]
    assert all(shards)
    assert Counter(tick for shard in shards for tick in shard) == Counter(range(TICKS + 1))


def test_epochs_differ_in_order_and_not_in_content(walkers: tuple[Path, Live, list[Any]]) -> None:
    rows = replayer.samples(walkers[0], world=Walkers, table="states", fields="x", seed=5, buffer_rows=24)
    first = ticks_of(rows)
    assert ticks_of(rows) == first
    rows.set_epoch(1)
    second = ticks_of(rows)
    assert second != first
    assert sorted(second) == sorted(first) == list(range(TICKS + 1))
    again = replayer.samples(
        walkers[0], world=Walkers, table="states", fields="x", seed=5, buffer_rows=24, epoch=1, batch=10
    )
    assert [tick for batch in again for tick in batch["tick"].tolist()] == second
    other = replayer.samples(walkers[0], world=Walkers, table="states", fields="x", seed=6, buffer_rows=24)
    assert ticks_of(other) != first


@pytest.mark.parametrize("batch", [None, 7])
def test_an_iteration_continues_where_it_was(walkers: tuple[Path, Live, list[Any]], batch: int | None) -> None:
    wanted: dict[str, Any] = {"world": Walkers, "table": "states", "fields": "x", "buffer_rows": 12, "batch": batch}
    whole = [np.atleast_1d(row["tick"]).tolist() for row in replayer.samples(walkers[0], **wanted, epoch=3)]
    rows = replayer.samples(walkers[0], **wanted, epoch=3)
    begun = iter(rows)
    before = [np.atleast_1d(next(begun)["tick"]).tolist() for _ in range(5)]
    state = rows.state_dict()
    later = replayer.samples(walkers[0], **wanted)
    later.load_state_dict(state)
    assert later.state_dict() == state
    assert before + [np.atleast_1d(row["tick"]).tolist() for row in later] == whole
    assert len(list(later)) == len(whole)  # The next iteration is complete.
    with pytest.raises(ExtractionError, match="a different request or a different order"):
        replayer.samples(walkers[0], **wanted, seed=1).load_state_dict(state)


def test_a_row_waits_in_the_buffer_no_longer_than_it_has_room(tmp_path: Path) -> None:
    path = tmp_path / "long.tape"
    record_live(path, Walkers(1), [None] * 600, keyframe_interval_ticks=1000)
    order = ticks_of(replayer.samples(path, world=Walkers, table="states", fields="x", buffer_rows=64))
    assert sorted(order) == list(range(601))
    assert max(tick - place for place, tick in enumerate(order)) <= 64 + 16  # Sixteen are collected at a time.
    assert np.mean(np.abs(np.array(order) - np.arange(601))) > 20


class Wide:
    """A state of 32 KiB that changes at each tick."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("wide", "f8", (64, 64)), Field("n", "i8")))

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it lives on its own
        self.state["n"][()] += 1
        self.state["wide"][int(self.state["n"]) % 64] += int(self.state["n"])


def test_memory_is_bounded_by_the_bytes_of_the_buffer(tmp_path: Path) -> None:
    path = tmp_path / "wide.tape"
    record_live(path, Wide(), [None] * 400, keyframe_interval_ticks=50)
    rows = replayer.samples(path, world=Wide, table="pairs", fields="wide", actions=(), buffer_bytes=2 << 20)
    for _ in rows:
        break
    tracemalloc.start()
    try:
        taken = sum(row["obs.wide"].nbytes + row["next.wide"].nbytes for row in rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken > 26e6
    assert (2 << 20) < peak < 4e6


def test_lists_count_into_the_bytes_of_the_buffer() -> None:
    buffer = ShuffleBuffer(10**6, 100_000, 1)
    held, most, given = 0, 0, []
    for number in range(300):
        chunk = {"n": np.array([number]), "list": [np.zeros(number * 10)]}
        held += 1
        for out in buffer.add(chunk):
            held -= len(out["n"])
            given += out["n"].tolist()
        most = max(most, held)
    assert held <= 100_000 // (250 * 80) + 1  # The last rows have 20 kB and more.
    assert most >= 50
    assert sorted(given + [n for out in buffer.drain() for n in out["n"].tolist()]) == list(range(300))


def test_batches_have_memory_of_their_own() -> None:
    chunk = {"a": np.arange(10), "b": [np.arange(n) for n in range(10)]}
    batches = list(in_batches([chunk, chunk], 6))
    assert [len(batch["a"]) for batch in batches] == [6, 6, 6, 2]
    batches[0]["a"][:] = 0
    assert chunk["a"].tolist() == list(range(10))
    assert [len(value) for value in batches[1]["b"]] == [6, 7, 8, 9, 0, 1]


def test_missing_samples_are_left_out_and_reported(walkers: tuple[Path, Live, list[Any]], tmp_path: Path) -> None:
    path, live, _ = walkers
    frames = [block for block in all_blocks(path) if block.kind == BlockKind.FRAMES]
    (tmp_path / "hurt.tape").write_bytes(destroy(path.read_bytes(), frames[len(frames) // 2], "payload"))
    rows = replayer.samples(tmp_path / "hurt.tape", world=Walkers, table="states", fields="x", shard=(0, 1))
    with pytest.warns(ExtractionWarning, match=r"missing: .*hurt.tape, ticks .*rows.missing lists all") as warned:
        found = {int(row["tick"]): row["x"] for row in rows}
    assert len(warned) == 1
    missing = [tick for _, one in rows.missing for tick in range(one.first_tick, one.last_tick + 1)]
    assert missing
    assert sorted([*found, *missing]) == list(range(TICKS + 1))
    assert all(np.array_equal(x, live[tick][2]["x"]) for tick, x in found.items())
    assert {name for name, _ in rows.missing} == {str(tmp_path / "hurt.tape")}
    with pytest.warns(ExtractionWarning, match="missing"):
        assert len(list(rows)) == len(found)  # Told of one iteration, not of all.
    assert len([tick for _, one in rows.missing for tick in range(one.first_tick, one.last_tick + 1)]) == len(missing)


class Astray(Walkers):
    """Diverges at tick 50."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if inputs == [[9, 49]]:
            self.state["x"][3] += 1


def test_no_row_is_of_a_state_that_the_run_did_not_have(walkers: tuple[Path, Live, list[Any]]) -> None:
    path, live, _ = walkers
    rows = replayer.samples(path, world=Astray, table="states", fields="x")
    said = "walkers.tape, ticks 50 to 53: desync: the state at tick 50 differs from the recorded one"
    with pytest.warns(ExtractionWarning, match=said):
        found = {int(row["tick"]): row["x"] for row in rows}
    assert all(np.array_equal(x, live[tick][2]["x"]) for tick, x in found.items())
    assert set(range(TICKS + 1)) - set(found) == {50, 51, 52, 53}  # At 54 is a keyframe.
    assert [(one.first_tick, one.last_tick, one.is_desync) for _, one in rows.missing] == [(50, 53, True)]


def test_columns_splits_and_mistakes(walkers: tuple[Path, Live, list[Any]], tmp_path: Path) -> None:
    path = walkers[0]
    wanted: dict[str, Any] = {"world": Walkers, "table": "pairs", "fields": ("x", "y")}
    assert list(next(iter(replayer.samples(path, **wanted, columns=["obs.*", "tick"])))) == ["tick", "obs.x", "obs.y"]
    with pytest.raises(ExtractionError, match="there is no column seen; columns: run, tick"):
        list(replayer.samples(path, **wanted, columns=["seen"]))
    for number in range(4):
        record_live(tmp_path / f"{number}.tape", Walkers(number), [None] * 10)
    shares = (("train", 0.75), ("test", 0.25))
    wanted = {"world": Walkers, "table": "states", "fields": "x", "splits": shares}
    wanted["seed"] = splitting_seed(sorted(tmp_path.glob("*.tape")), shares, 3, 1)
    runs = {
        split: {row["run"] for row in replayer.samples(tmp_path, **wanted, split=split)} for split in ("train", "test")
    }
    assert (len(runs["train"]), len(runs["test"]), len(runs["train"] & runs["test"])) == (3, 1, 0)
    with pytest.raises(ExtractionError, match="no run is in split dev; splits: train, test"):
        replayer.samples(tmp_path, **wanted, split="dev")
    with pytest.raises(ValueError, match="shard: expected an index from 0 to 1 of 2 shards, got 2"):
        replayer.samples(path, world=Walkers, table="states", shard=(2, 2))
    with pytest.raises(ValueError, match="jobs: expected an integer of at least 1, got 0"):
        replayer.samples(path, world=Walkers, table="states", jobs=0)
    with pytest.raises(ExtractionError, match="long is not available here"):
        replayer.samples(path, world=Walkers, table="states", long=True)
    (tmp_path / "saved").mkdir()
    for width in (2, 7):
        world = Saved()
        world.grid = np.zeros((3, width))
        record_live(tmp_path / "saved" / f"{width}.tape", world, [1] * 10)
    with pytest.raises(ExtractionError, match=r"have different columns \(grid\)"):
        list(replayer.samples(tmp_path / "saved", world=Saved, table="states", fields="grid"))


LAZY = """
import sys
import replayer
from recorder.format.blocks.block import BlockKind
assert "samples" in replayer.__all__
loaded = [name for name in sys.modules if name.partition(".")[0] in ("torch", "pyarrow", "xarray")]
assert not loaded and "replayer.datasets.stream.samples" not in sys.modules, loaded
from replayer import samples
assert replayer.samples is samples and samples.__module__ == "replayer.datasets.stream.samples"
assert not [name for name in sys.modules if name.partition(".")[0] in ("torch", "pyarrow", "xarray")]
try:
    replayer.sample
except AttributeError as error:
    assert "sample" in str(error)
else:
    raise AssertionError
"""


def test_importing_replayer_imports_nothing_for_training() -> None:
    subprocess.run([sys.executable, "-c", LAZY], check=True)


@pytest.mark.parametrize(
    ("wanted", "kind", "text"),
    [
        ({"splits": {"train": 0.5, "test": 0.6}}, ExtractionError, "train=0.5, test=0.6: 1.1 in sum"),
        ({"splits": {"train": 0.5, "test": "x"}}, ExtractionError, "splits: expected shares above 0 that are 1 in sum"),
        ({"splits": "train"}, ExtractionError, 'splits: expected shares by name, such as {"train": 0.8, "test": 0.2}'),
        ({"splits": 3}, ExtractionError, "splits: expected shares by name"),
        ({"batch": "8"}, ValueError, "batch: expected an integer of at least 1, got '8'"),
        ({"batch": 0}, ValueError, "batch: expected an integer of at least 1, got 0"),
        ({"buffer_rows": 2.5}, ValueError, "buffer_rows: expected an integer of at least 1, got 2.5"),
        ({"seed": "a"}, ValueError, "seed: expected an integer of at least 0, got 'a'"),
        ({"jobs": "2"}, ValueError, "jobs: expected an integer of at least 1, got '2'"),
        ({"epoch": "2"}, ValueError, "epoch: expected an integer of at least 0, got '2'"),
        ({"shard": 2}, ValueError, "shard: expected an index and the number of shards, such as (0, 4), got 2"),
        ({"stride": "3"}, ExtractionError, "stride: expected an integer of at least 1, got '3'"),
        ({"drop_last": True}, TypeError, "there is no argument drop_last; the arguments are table, world, shuffle"),
        ({"buffer_row": 3}, TypeError, "there is no argument buffer_row; did you mean buffer_rows"),
    ],
)
def test_an_argument_of_a_wrong_kind_is_named(
    wanted: dict[str, Any], kind: type[Exception], text: str, tmp_path: Path
) -> None:
    """In one line, with what is expected; before any tape is read."""
    path = tmp_path / "run.tape"
    record_live(path, Walkers(1), [None] * 5)
    with pytest.raises(kind) as caught:
        replayer.samples(path, world=Walkers, **{"table": "states", **wanted})
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_splits_may_be_a_dict() -> None:
    """As pairs of them would be."""
    assert Request(splits={"train": 0.8, "test": 0.2}) == Request(splits=(("train", 0.8), ("test", 0.2)))


def test_extract_names_an_unknown_argument_too(tmp_path: Path) -> None:
    """Those of extract itself are among the near ones."""
    with pytest.raises(TypeError, match="there is no argument file_formt; did you mean file_format"):
        replayer.extract(tmp_path, tmp_path / "out", file_formt="arrow")
