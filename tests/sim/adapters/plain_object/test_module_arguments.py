"""Calls with objects of a module, such as a card of a deck: a replay passes the module's own, with what they held."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer


class Terrain:
    """A kind of field."""

    def __init__(self, name: str) -> None:
        self.name: Any = name
        self.near: list[Any] = []


@dataclasses.dataclass(frozen=True)
class Card:
    """A card of a deck."""

    rank: int


PLAIN, HILL = Terrain("plain"), Terrain("hill")
PLAIN.near.append(HILL)
HILL.near.append(PLAIN)
KINDS = (Terrain("wood"), Terrain("lake"))
DECK = [Card(rank) for rank in range(5)]
MOVE = [1, 0]
CONTROLS = Terrain("controls")


class Board:
    """Keeps what it is called with, and notes what that is."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.seen: list[Any] = []

    def play(self, *values: Any) -> None:
        """Keep the arguments."""
        self.kept.append(values)
        self.look(*values)

    def look(self, *values: Any) -> None:
        """Note what the arguments are, and keep none of them."""
        own = (PLAIN, HILL, *KINDS, *DECK, MOVE, CONTROLS)
        self.seen += [[one is value for one in own].index(True) for value in values if any(one is value for one in own)]
        self.seen.append([str(vars(value)["name"]) for value in values if isinstance(value, Terrain)])
        self.seen.append([list(value) for value in values if isinstance(value, list)])


def record_board(path: Path, calls: Callable[[Any], object]) -> list[Any]:
    """Record a board and its calls; return what it noted."""
    with recorder.record(Board(), path, step=("play", "look"), quiet=True, trial_ms=0) as board:
        calls(board)
        return list(board.subject.seen)


VALUES: dict[str, Callable[[], Any]] = {
    "a variable": lambda: PLAIN,
    "in a tuple": lambda: KINDS[1],
    "a frozen one in a list": lambda: DECK[3],
    "a list": lambda: MOVE,
}


@pytest.mark.parametrize("name", VALUES)
def test_an_object_of_a_module_is_the_same_one_in_a_replay(name: str, tmp_path: Path) -> None:
    """Alone and inside other values, kept or not; after an assignment, too."""

    def calls(board: Any) -> None:
        value = VALUES[name]()
        board.look(value)
        board.play(value)
        board.play([value], {"for": value})
        board.best = value
        board.play(value, board.best)

    seen = record_board(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Board) as run:
        assert run.verify().ok
        run.seek(4)
        assert run.subject.seen == seen
        assert all(one is VALUES[name]() for one in (*run.subject.kept[0], *run.subject.kept[2], run.subject.best))


def test_what_an_object_of_a_module_held_is_passed_again(tmp_path: Path) -> None:
    """The program writes to it between two calls; a replay in a process where it holds something else gives it that."""

    def calls(board: Any) -> None:
        for name in ("left", "right"):
            CONTROLS.name = name
            MOVE.append(len(MOVE))
            board.look(CONTROLS, MOVE)

    seen = record_board(tmp_path / "run.tape", calls)
    CONTROLS.name = "controls"
    del MOVE[2:]
    with replayer.open(tmp_path / "run.tape", world=Board) as run:
        run.seek(2)
        assert run.subject.seen == seen
        assert run.verify().ok
    CONTROLS.name = "controls"
    del MOVE[2:]


def test_an_object_of_a_module_that_cannot_be_saved_is_refused_by_its_path(tmp_path: Path) -> None:
    """Nothing has happened, and the recording goes on."""
    CONTROLS.name = lambda: 1
    with recorder.record(Board(), tmp_path / "run.tape", step=("play", "look"), quiet=True, trial_ms=0) as board:
        with pytest.raises(TypeError, match=r"argument \[1\]\.name is function"):
            board.look(0, CONTROLS)
        CONTROLS.name = "controls"
        board.look(0, CONTROLS)
        assert board.tape.tick == 1
