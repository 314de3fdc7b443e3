"""An iteration over samples that was interrupted continues byte for byte, and seeks to where it was."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer
from replayer.datasets.request import ExtractionError
from replayer.datasets.stream.shuffle_buffer import ShuffleBuffer

from oracle.live_runs import record_live
from small_worlds import CountedWalkers, Herd, Walkers

pytestmark = pytest.mark.share(0.18)

TICKS = 100
LONG_TICKS = 1500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    folder: Path = tmp_path_factory.mktemp("resume")
    inputs = [[[tick % 20, tick]] for tick in range(LONG_TICKS)]
    record_live(folder / "walkers.tape", Walkers(2), inputs[:TICKS], keyframe_interval_ticks=9)
    record_live(folder / "herd.tape", Herd(3), [None] * TICKS, keyframe_interval_ticks=9, full_every=3)
    record_live(folder / "long.tape", Walkers(4), inputs, keyframe_interval_ticks=10)
    return folder


WALKERS: dict[str, Any] = {"world": Walkers, "table": "pairs", "fields": ("x", "rng")}
HERD: dict[str, Any] = {"world": Herd, "table": "states"}


def as_bytes(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row or a batch with their dtypes and shapes."""
    return {
        name: [
            (one.dtype, one.shape, one.tobytes())
            for one in map(np.asarray, value if isinstance(value, list) else [value])
        ]
        for name, value in row.items()
    }


def interrupted(path: Path, wanted: Mapping[str, Any], count: int) -> tuple[list[Any], Any]:
    """The first items, and the state after them as JSON gives it back."""
    rows = replayer.samples(path, **wanted)
    begun = iter(rows)
    before = [as_bytes(row) for row in itertools.islice(begun, count)]
    return before, json.loads(json.dumps(rows.state_dict()))


@pytest.mark.sample(2)
@pytest.mark.parametrize("batch", [None, 7])
@pytest.mark.parametrize(
    "order",
    [{"shuffle": False}, {"buffer_rows": 12}, {"buffer_bytes": 4000}, {}],
    ids=["tapes", "rows", "bytes", "all"],
)
@pytest.mark.parametrize(("name", "wanted"), [("walkers", WALKERS), ("herd", HERD)], ids=["walkers", "herd"])
@pytest.mark.seldom(0.15)
def test_the_rest_equals_that_of_an_iteration_without_interruption(
    folder: Path, name: str, wanted: Mapping[str, Any], order: Mapping[str, Any], batch: int | None
) -> None:
    """Interrupted at its beginning, after one item, in the middle, at the last item and after the end."""
    path, wanted = folder / f"{name}.tape", {**wanted, **order, "seed": 3, "epoch": 2, "batch": batch}
    whole = [as_bytes(row) for row in replayer.samples(path, **wanted)]
    for count in (0, 1, len(whole) // 2, len(whole) * 3 // 4, len(whole) - 1, len(whole)):
        before, state = interrupted(path, wanted, count)
        later = replayer.samples(path, **{**wanted, "epoch": 0})
        later.load_state_dict(state)
        assert later.state_dict() == state
        assert before + [as_bytes(row) for row in later] == whole, count
        assert len(list(later)) == len(whole)  # The next iteration is complete.


def test_a_buffer_that_is_filled_again_gives_the_same_rows() -> None:
    """With chunks of any size: those larger than the first one enter in several steps."""
    sizes = [1, 9, 3, 12, 5, 2, 7]
    chunks = [
        {"n": np.arange(size) + 100 * part, "list": [np.zeros(row + part) for row in range(size)]}
        for part, size in enumerate(sizes)
    ]

    def given(buffer: ShuffleBuffer, first: int, end: int) -> list[int]:
        return [n for part in range(first, end) for out in buffer.add(chunks[part], part) for n in out["n"].tolist()]

    for limits in ((6, 10**6), (10**6, 300)):
        for cut in range(1, len(chunks)):
            whole = ShuffleBuffer(*limits, 1)
            given(whole, 0, cut)
            later = ShuffleBuffer(*limits, 1)
            held = whole.held()
            later.restore(held, [(part, 0, chunks[part]) for part in reversed(range(cut))])
            assert later.held() == held
            assert len(later) == len(whole)
            rest, same = given(whole, cut, len(chunks)), given(later, cut, len(chunks))
            assert rest == same
            drained, again = ([n for out in one.drain() for n in out["n"].tolist()] for one in (whole, later))
            assert drained == again


@pytest.mark.long
def test_a_resumed_iteration_can_be_interrupted_again(folder: Path) -> None:
    wanted = {**WALKERS, "buffer_rows": 20, "shard": (1, 2)}
    path = folder / "long.tape"
    whole = [as_bytes(row) for row in replayer.samples(path, **wanted)]
    found: list[Any] = []
    state = None
    while len(found) < len(whole):
        rows = replayer.samples(path, **wanted)
        if state is not None:
            rows.load_state_dict(state)
        found += [as_bytes(row) for row in itertools.islice(rows, 61)]
        state = rows.state_dict()
    assert found == whole


@pytest.mark.parametrize(
    ("order", "most"), [({"shuffle": False}, 30), ({"buffer_rows": 16}, 250)], ids=["tapes", "buffer"]
)
def test_resuming_seeks_and_does_not_simulate_the_epoch_again(
    folder: Path, order: Mapping[str, Any], most: int
) -> None:
    """Only the last piece is simulated again, and the pieces whose rows wait in the buffer."""
    wanted = {**WALKERS, "world": CountedWalkers, **order}
    _, state = interrupted(folder / "long.tape", wanted, LONG_TICKS - 200)
    later = replayer.samples(folder / "long.tape", **wanted)
    later.load_state_dict(state)
    CountedWalkers.steps = 0
    rest = iter(later)
    next(rest)
    assert 0 < CountedWalkers.steps < most
    assert 1 + len(list(rest)) == 200


def test_an_error_between_two_batches_loses_no_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that wait for the rest of their batch when a piece fails were not yielded, and come after resuming."""
    wanted = {**WALKERS, "shuffle": False, "batch": 7}
    whole = [as_bytes(row) for row in replayer.samples(folder / "walkers.tape", **wanted)]
    rows = replayer.samples(folder / "walkers.tape", **wanted)
    made = type(rows)._blocks

    def failing(self: Any, part: Any, kept: Any) -> Any:
        if part.number == 2:
            raise KeyboardInterrupt
        return made(self, part, kept)

    monkeypatch.setattr(type(rows), "_blocks", failing)
    found = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(as_bytes(row) for row in rows)
    monkeypatch.undo()
    later = replayer.samples(folder / "walkers.tape", **wanted)
    later.load_state_dict(rows.state_dict())
    rest = [as_bytes(row) for row in later]
    assert whole[len(whole) - len(rest) :] == rest
    assert len(rest) == len(whole) - 2  # Two pieces of nine rows have two full batches.


def test_a_state_without_a_position_is_read_from_the_beginning(folder: Path) -> None:
    """States of earlier versions have only the number of rows."""
    path = folder / "walkers.tape"
    whole = [as_bytes(row) for row in replayer.samples(path, **WALKERS)]
    _, state = interrupted(path, WALKERS, 60)
    later = replayer.samples(path, **WALKERS)
    later.load_state_dict({name: state[name] for name in ("plan", "epoch", "rows")})
    assert [as_bytes(row) for row in later] == whole[60:]


def test_a_state_of_something_else_is_refused(folder: Path) -> None:
    _, state = interrupted(folder / "walkers.tape", WALKERS, 30)
    for path, wanted in [
        ("long.tape", WALKERS),
        ("walkers.tape", WALKERS | {"fields": ("x",)}),
        ("walkers.tape", WALKERS | {"seed": 1}),
        ("walkers.tape", WALKERS | {"shuffle": False}),
        ("walkers.tape", WALKERS | {"buffer_rows": 12}),
    ]:
        with pytest.raises(
            ExtractionError, match="different tapes, a different request or a different order"
        ) as caught:
            replayer.samples(folder / path, **wanted).load_state_dict(state)
        assert "\n" not in str(caught.value)
    with pytest.raises(ExtractionError, match="this state is of shard 0 of 1, and these are the rows of shard 1 of 3"):
        replayer.samples(folder / "walkers.tape", **WALKERS, shard=(1, 3)).load_state_dict(state)
    for broken in ({}, {**state, "from": {"part": 1, "rows": 0, "other": 2}}, {**state, "from": 7}):
        with pytest.raises(ExtractionError, match="expected a state as state_dict"):
            replayer.samples(folder / "walkers.tape", **WALKERS).load_state_dict(broken)


class Faulty(Walkers):
    """Diverges at each tick."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        self.state["x"][3] += 1


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_rows_that_can_no_longer_be_made_are_an_error(folder: Path) -> None:
    """A simulation that has changed since then must not lead to a different rest."""
    path = folder / "walkers.tape"
    wanted = {**WALKERS, "buffer_rows": 20}
    _, state = interrupted(path, wanted, 50)
    later = replayer.samples(path, **{**wanted, "world": Faulty})
    later.load_state_dict(state)
    with pytest.raises(ExtractionError, match="rows that were read before could not be read again"):
        list(later)


@pytest.mark.parametrize("stride", [1, 7])
@pytest.mark.parametrize("batch", [None, 8])
def test_the_length_is_the_number_of_items(folder: Path, batch: int | None, stride: int) -> None:
    for wanted in (WALKERS, WALKERS | {"table": "states"}, WALKERS | {"ranges": ((3, 40), (60, 99))}):
        for shard in ((0, 1), (2, 3)):
            rows = replayer.samples(folder / "walkers.tape", **wanted, stride=stride, batch=batch, shard=shard, epoch=1)
            assert rows.length() == len(list(rows))
