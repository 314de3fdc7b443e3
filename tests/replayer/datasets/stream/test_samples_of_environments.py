"""Transitions of environments directly from tapes: the rows of an extraction, shuffled, for NumPy and PyTorch."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import needs

import replayer
from replayer.datasets.request import ExtractionError

needs("gymnasium", "pettingzoo", "pyarrow")

from environment_runs import REBUILT, recorded  # noqa: E402

WITHOUT_TEXT = ("obs*", "action*", "reward", "next*", "terminated", "truncated", "tick")


def extracted(path: Path, name: str) -> dict[str, Any]:
    arrays: dict[str, Any] = replayer.extract(path, world=REBUILT.get(name)).table("transitions").numpy()
    return arrays


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["cart", "camera", "autoreset", "next_step", "parallel", "turns"])
@pytest.mark.seldom(0.15)
def test_samples_are_the_rows_of_the_table(name: str, tmp_path: Path) -> None:
    """In order without shuffling; each exactly once with it, in parts that begin within episodes."""
    recorded(name, tmp_path / "run.tape")
    table = extracted(tmp_path / "run.tape", name)
    wanted: dict[str, Any] = {"world": REBUILT.get(name)}
    for shuffle in (False, True):
        rows = list(replayer.samples(tmp_path / "run.tape", shuffle=shuffle, seed=5, **wanted))
        keys = [(row["tick"], row["agent"], row.get("env", 0)) for row in rows]
        envs = table.get("env", np.zeros(len(rows)))
        expected = list(zip(table["tick"], table["agent"], envs, strict=True))
        assert (keys == expected) is not shuffle
        place = {key: index for index, key in enumerate(expected)}
        assert sorted(place[key] for key in keys) == list(range(len(rows)))
        for key, row in zip(keys, rows, strict=True):
            for column, value in row.items():
                assert np.asarray(value).tobytes() == np.asarray(table[column][place[key]]).tobytes(), column


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["cart", "camera", "autoreset", "next_step", "parallel", "turns"])
@pytest.mark.seldom(0.15)
def test_transitions_continue_where_they_were(name: str, tmp_path: Path) -> None:
    """The rest of an interrupted epoch is that of an uninterrupted one; the length of single environments is known."""
    recorded(name, tmp_path / "run.tape")
    wanted: dict[str, Any] = {"world": REBUILT.get(name), "seed": 5, "buffer_rows": 16}

    def as_bytes(row: dict[str, Any]) -> dict[str, Any]:
        return {column: (np.asarray(value).dtype, np.asarray(value).tobytes()) for column, value in row.items()}

    for shuffle in (False, True):
        rows = replayer.samples(tmp_path / "run.tape", shuffle=shuffle, **wanted)
        whole = [as_bytes(row) for row in rows]
        assert rows.length() == (len(whole) if name in ("cart", "camera", "autoreset") else None)
        for count in (len(whole) // 2, len(whole) - 1):
            begun = replayer.samples(tmp_path / "run.tape", shuffle=shuffle, **wanted)
            before = [as_bytes(row) for row in itertools.islice(begun, count)]
            later = replayer.samples(tmp_path / "run.tape", shuffle=shuffle, **wanted)
            later.load_state_dict(json.loads(json.dumps(begun.state_dict())))
            assert before + [as_bytes(row) for row in later] == whole


def test_columns_that_miss_values_are_not_for_arrays(tmp_path: Path) -> None:
    """They are left out by default, and named if they are requested."""
    recorded("autoreset", tmp_path / "run.tape")
    assert "seed" not in next(iter(replayer.samples(tmp_path / "run.tape")))
    with pytest.raises(ExtractionError, match="the column seed misses some values, which an array cannot: choose"):
        list(replayer.samples(tmp_path / "run.tape", columns=("seed", "obs"), shuffle=False))


@pytest.mark.parametrize("workers", [0, 2])
def test_pytorch_gets_each_transition_once(workers: int, tmp_path: Path) -> None:
    """In batches, over several workers, with the dtypes of the environment."""
    torch = pytest.importorskip("torch")
    rows = recorded("camera", tmp_path / "run.tape")
    tapes = replayer.datasets.TapeDataset(
        tmp_path / "run.tape", world=REBUILT["camera"], batch=32, columns=WITHOUT_TEXT, seed=2
    )
    loader = torch.utils.data.DataLoader(tapes, batch_size=None, num_workers=workers)
    batches = list(loader)

    assert batches[0]["obs.image"].dtype == torch.uint8
    assert batches[0]["obs.image"].shape[1:] == (8, 8, 3)
    found = {
        int(tick): image.numpy().tobytes()
        for batch in batches
        for tick, image in zip(batch["tick"], batch["next.image"], strict=True)
    }
    assert sum(len(batch["tick"]) for batch in batches) == len(found) == len(rows)
    assert [found[tick] for tick in sorted(found)] == [row["next"]["image"].tobytes() for row in rows]
