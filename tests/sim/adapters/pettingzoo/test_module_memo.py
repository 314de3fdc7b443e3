"""PettingZoo's chess keeps a table of actions in a module, which each observation fills: a seek fills it as well."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pettingzoo")
pytest.importorskip("pygame")
pytest.importorskip("chess")

import numpy as np
from pettingzoo.classic.chess import chess, chess_utils

import recorder
import replayer

TICKS = 24
TABLES = (chess_utils.actions_to_moves, chess_utils.moves_to_actions)


def as_in_a_new_process() -> None:
    """Empty the tables of the module."""
    for table in TABLES:
        table.clear()


def test_a_seek_in_a_new_process_plays_on(tmp_path: Path) -> None:
    """Boards and observations are those that a plain loop kept; without the tables the next action was a KeyError."""
    seen: list[tuple[str, Any]] = []
    env = recorder.record(chess.env(), tmp_path / "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=8)
    env.reset(seed=1)
    for _ in range(TICKS):
        observation, *_ = env.last()
        seen.append((env.unwrapped.board.fen(), observation["observation"].copy()))
        env.step(random.choice(np.flatnonzero(observation["action_mask"]).tolist()))
    env.close()
    as_in_a_new_process()
    run = replayer.open(tmp_path / "run.tape")
    for tick in random.sample(range(1, TICKS + 1), 6):
        as_in_a_new_process()
        run.seek(tick)
        for board, observed in seen[tick - 1 : tick + 2]:
            assert run.subject.unwrapped.board.fen() == board
            assert np.array_equal(run.simulation.last.observations["observation"], observed)
            run.step()
    as_in_a_new_process()
    assert run.verify().ok
