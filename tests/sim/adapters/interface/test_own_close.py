"""Closing a recording closes the object, too, whatever its attributes raise when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recorder
from replayer.tape.tape import Tape


class Game:
    def __init__(self) -> None:
        self.ticks = 0

    def step(self, _: Any = None) -> int:
        self.ticks += 1
        return self.ticks


class Refusing(Game):
    """It raises another error than Python expects for an attribute that is not there."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Delegating(Game):
    """Its ``close`` is made when it is asked for."""

    closed = 0

    def __getattr__(self, name: str) -> Any:
        if name == "close":
            return self.note
        raise AttributeError(name)

    def note(self) -> None:
        type(self).closed += 1


class Broken(Game):
    """It has a ``close``, which cannot be read."""

    @property
    def close(self) -> Any:
        raise RuntimeError("the connection is gone")


class Auction(Game):
    """Its ``close`` ends an auction of the game, not the game."""

    def __init__(self) -> None:
        super().__init__()
        self.sold: list[int] = []

    def step(self, lot: Any = None) -> int:
        if lot is not None:
            self.close(lot)
        return super().step()

    def close(self, lot: int) -> None:
        self.sold.append(lot)


class Orders(Game):
    """It may close one order, or all of them."""

    def close(self, *orders: int) -> None:
        self.closed = orders


class Bidding(Game):
    """As Auction, by a method without self."""

    @staticmethod
    def close(lot: int) -> None:
        raise AssertionError(lot)


class Unsigned(Game):
    """Its ``close`` cannot tell what it takes."""

    closed = 0

    def close(self) -> None:
        type(self).closed += 1

    close.__signature__ = "not known"  # type: ignore[attr-defined]


def record_and_close(game: Game, path: Path) -> None:
    recorded = recorder.record(game, path, quiet=True, trial_ms=0)
    for _ in range(3):
        recorded.step(None)
    recorded.close()


def is_sealed(path: Path) -> bool:
    with Tape(path) as tape:
        tape.check_blocks()
        return tape.status == "intact" and tape.last_tick == 3


def test_an_object_that_refuses_unknown_names_has_no_close(tmp_path: Path) -> None:
    record_and_close(Refusing(), tmp_path / "run.tape")
    assert is_sealed(tmp_path / "run.tape")


def test_a_close_that_is_made_when_it_is_asked_for_is_called(tmp_path: Path) -> None:
    before = Delegating.closed
    record_and_close(Delegating(), tmp_path / "run.tape")
    assert Delegating.closed == before + 1
    assert is_sealed(tmp_path / "run.tape")


def test_an_own_close_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """The tape is sealed nevertheless."""
    with pytest.raises(RuntimeError, match="the connection is gone"):
        record_and_close(Broken(), tmp_path / "run.tape")
    assert is_sealed(tmp_path / "run.tape")


def test_a_close_that_takes_arguments_is_the_games_and_is_not_called(tmp_path: Path) -> None:
    """Before, it was called without any after the tape was sealed: TypeError. With an argument it ended the recording."""
    game = recorder.record(Auction(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    game.step(4)
    with pytest.raises(TypeError, match=r"\.subject\.close.*\.tape\.close\(outcome\)"):
        game.close(7)
    for lot in (5, None):
        game.step(lot)
    game.close()
    assert is_sealed(tmp_path / "run.tape")
    assert game.subject.sold == [4, 5]


def test_an_outcome_is_given_to_a_game_whose_close_takes_none(tmp_path: Path) -> None:
    game = recorder.record(Delegating(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    for _ in range(3):
        game.step(None)
    game.close({"reason": "won"})
    with Tape(tmp_path / "run.tape") as tape:
        assert tape.outcome == {"reason": "won"}


@pytest.mark.parametrize("kind", [Orders, Bidding])
def test_an_outcome_that_the_games_close_could_take_is_refused(kind: type[Game], tmp_path: Path) -> None:
    """The recording goes on; a dict can only be meant for the tape where the game's close takes none."""
    game = recorder.record(kind(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    with pytest.raises(TypeError, match=r"\.subject\.close"):
        game.close(7)
    for _ in range(3):
        game.step(None)
    game.close()
    assert is_sealed(tmp_path / "run.tape")


def test_a_close_whose_signature_is_not_known_is_called(tmp_path: Path) -> None:
    before = Unsigned.closed
    record_and_close(Unsigned(), tmp_path / "run.tape")
    assert Unsigned.closed == before + 1
