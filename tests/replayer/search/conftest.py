"""The runs that questions are asked of: a tape of each, and what a plain loop without a recorder had."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from asked_worlds import INTERVAL, TICKS, battle_run, garden_run


@pytest.fixture(scope="module")
def seed() -> int:
    """The seed of a module's runs."""
    seed = random.randrange(1 << 20)
    print("seed", seed)
    return seed


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory, seed: int) -> tuple[Path, list[Any]]:
    """A tape of a garden, and the plain run's states."""
    path = tmp_path_factory.mktemp("garden") / "garden.tape"
    return path, garden_run(path, seed, TICKS, INTERVAL)


@pytest.fixture(scope="module")
def battle(tmp_path_factory: pytest.TempPathFactory, seed: int) -> tuple[Path, list[Any]]:
    """A tape of a game of objects, and the plain run's values."""
    path = tmp_path_factory.mktemp("battle") / "battle.tape"
    return path, battle_run(path, seed, TICKS, INTERVAL)
