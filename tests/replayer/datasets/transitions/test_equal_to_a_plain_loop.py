"""Every transition that is extracted equals the one that a plain loop collected while it was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

import replayer

needs("gymnasium", "pettingzoo", "pyarrow")

from collected_environments import Oddities  # noqa: E402
from environment_runs import CASES, REBUILT, recorded  # noqa: E402

from oracle.columns_of_values import ensure_row  # noqa: E402

SETTINGS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in CASES]
SETTINGS += [
    ("cart", {"level": "inputs_only"}),
    ("parallel", {"level": "inputs_only"}),
    ("camera", {"mode": "changes"}),
    ("lake", {"blame": "fields"}),
]


@pytest.mark.share(0.18)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
@pytest.mark.seldom(0.15)
def test_every_transition_equals_the_one_of_the_loop(
    name: str, settings: Any, jobs: int, tmp_path: Path, monkeypatch: Any
) -> None:
    """In order, values, dtypes, shapes and bytes, over many parts, in one process and in two."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    rows = recorded(name, tmp_path / "run.tape", **settings)
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=REBUILT.get(name), jobs=jobs)

    assert made.code == 0
    assert made.tables == ("transitions",)
    parts = len(made.manifest["tables"]["transitions"]["files"])
    assert (
        parts >= 1
        if settings
        else parts == 1
        if "env" in made.manifest["tables"]["transitions"]["columns"]
        else parts > 1
    )
    table = made.table("transitions").to_arrow()
    found = table.to_pylist()
    assert len(found) == len(rows)
    for row, expected in zip(found, rows, strict=True):
        ensure_row(row, expected, table.schema, Oddities.observation_space if name == "oddities" else None)
        if expected["options"] is not None:
            assert json.loads(row["options"]) == expected["options"]
