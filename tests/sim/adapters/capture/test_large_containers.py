"""Large containers of plain values, which are kept apart until they change: every tick is the truth, however it is reached."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer

SIZE = 300


class Board:
    """A game whose state is a large container, changed in place in some steps."""

    def __init__(self, kind: str, seed: int = 1) -> None:
        self.turn, self.random = 0, random.Random(seed)
        self.cells: Any = MAKES[kind]()
        self.table = {number: [number] for number in range(SIZE)}  # Changes late, or never.

    def step(self) -> int:
        self.turn += 1
        if self.turn % 3 == 1:
            change(self.cells, self.random.randrange(SIZE), self.turn)
        if self.turn == 17:
            self.table[3] += ["changed"]
        if self.turn == 23:
            self.table[5] = self.table[4]  # Equal values, and one object now in two places.
            self.table[5][0] = 5
        return self.turn


MAKES: dict[str, Any] = {
    "list": lambda: list(range(SIZE)),
    "grid": lambda: [[0] * 20 for _ in range(SIZE // 20)],
    "dict": lambda: {number: str(number) for number in range(SIZE)},
    "set": lambda: {(number, number + 1) for number in range(SIZE)},
    "tuple": lambda: (list(range(SIZE)), {}),
}


def change(cells: Any, place: int, turn: int) -> None:
    """Change a container in place."""
    if isinstance(cells, tuple):
        cells[1][turn] = cells[0][place]
    elif isinstance(cells, set):
        cells.discard((place, place + 1))
        cells.add((turn, -turn))
    elif isinstance(cells, list) and isinstance(cells[0], list):
        cells[place // 20][place % 20] += 1
    else:
        cells[place] = turn


def values(board: Board) -> Any:
    """All values; of a set in its order."""
    cells = list(board.cells) if isinstance(board.cells, set) else board.cells
    return copy.deepcopy((board.turn, cells, board.table, board.table[5] is board.table[4]))


@pytest.mark.parametrize("mode", ["events", "changes"])
@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.seldom(0.15)
def test_every_tick_is_the_truth(kind: str, mode: str, tmp_path: Path) -> None:
    game = recorder.record(Board(kind), tmp_path / "board.tape", step="step", mode=mode, keyframe_interval_ticks=12,
                           quiet=True, trial_ms=0)  # fmt: skip
    truth = [values(game.subject)]
    for _ in range(30):
        game.step()
        truth.append(values(game.subject))
    game.close()
    with replayer.open(tmp_path / "board.tape", world=lambda: Board(kind)) as run:
        for tick in [5, 1, *random.Random(kind).sample(range(31), 12), 30, 2]:
            run.seek(tick)
            assert values(run.subject) == truth[tick], f"tick {tick}"
        fork = run.fork()
        run.seek(25)
        assert values(run.subject) == truth[25]
        assert fork.tick == 2
        assert run.verify().ok


class Recent:
    """Remembers the last names, all with the same value: only a key changes, at the same place or at the end."""

    def __init__(self, size: int, place: int) -> None:
        self.seen = {f"first {number}": True for number in range(size)}
        self.place, self.turn = place, 0

    def step(self) -> int:
        self.turn += 1
        if self.turn > 8 and self.turn % 2:
            del self.seen[list(self.seen)[self.place]]
            self.seen[f"turn {self.turn}"] = True
        return self.turn


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("size", [150, SIZE])
def test_a_key_that_is_replaced_by_another_with_the_same_value(size: int, place: int, tmp_path: Path) -> None:
    """The garbage collector does not tell the keys of a dict that has texts only."""
    path = tmp_path / "run.tape"
    game = recorder.record(Recent(size, place), path, keyframe_interval_ticks=10, quiet=True, trial_ms=0)
    truth = [list(game.subject.seen.items())]
    for _ in range(60):
        game.step()
        truth.append(list(game.subject.seen.items()))
    game.close()
    with replayer.open(path, world=lambda: Recent(size, place)) as run:
        for tick in (0, 9, 10, 25, 60, 31, 30, 12):
            run.seek(tick)
            assert list(run.subject.seen.items()) == truth[tick], tick
        assert run.verify().ok
