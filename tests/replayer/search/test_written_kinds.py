"""The line that changed a value of any kind: decimal numbers, enumerations, tuples, attributes of environments, properties."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from replayer.search.search_errors import ExpressionError
from replayer.search.written_line import UNREAD


class Mood(enum.Enum):
    """An enumeration."""

    CALM = "calm"
    ANGRY = "angry"


class Rights(enum.Flag):
    """Members that are combined."""

    READ = 1
    WRITE = 2


class Name(str):
    """A text of a class of its own."""

    __slots__ = ()


class Hero:
    """Its points are read by properties."""

    def __init__(self) -> None:
        self._hp = 10

    @property
    def hp(self) -> int:
        """The points."""
        return self._hp

    @property
    def half(self) -> int:
        """Half of them."""
        return self._hp // 2


def odd() -> None:
    """A function that is a value."""


def even() -> None:
    """A function that is a value."""


class Game:
    """Each line changes one kind of value."""

    def __init__(self) -> None:
        self.turn, self.hero = 0, Hero()
        self.money, self.share, self.day = Decimal(100), Fraction(1, 2), dt.date(2024, 3, 1)
        self.mood, self.rights, self.pair, self.name = Mood.CALM, Rights.READ, (1, 2), Name("a")
        self.chosen, self.span, self.found = odd, range(3), None

    def step(self) -> None:
        """One turn."""
        self.turn += 1
        self.money += 1
        self.share += Fraction(1, 3)
        self.day += dt.timedelta(1)
        self.mood = Mood.ANGRY if self.turn % 2 else Mood.CALM
        self.rights = Rights.READ | Rights.WRITE if self.turn % 2 else Rights.WRITE
        self.pair = (self.turn, 2)
        self.name = Name(f"turn {self.turn}")
        self.chosen = odd if self.turn % 2 else even
        self.span = range(self.turn)
        self.found = None if self.turn % 2 else Decimal(3)
        self.hero._hp -= 1


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An opened tape of a game."""
    path = tmp_path_factory.mktemp("game") / "game.tape"
    with recorder.record(Game(), path, step="step", quiet=True, trial_ms=0) as game:
        for _ in range(6):
            game.step()
    return replayer.open(path, world=Game)


@pytest.mark.parametrize(
    ("name", "line", "before", "after"),
    [
        ("money", "self.money += 1", "105", "106"),
        ("share", "self.share += Fraction(1, 3)", "13/6", "5/2"),
        ("day", "self.day += dt.timedelta(1)", "2024-03-06", "2024-03-07"),
        ("mood", "self.mood = ", "Mood.ANGRY", "Mood.CALM"),
        ("rights", "self.rights = ", "Rights(3)", "Rights.WRITE"),
        ("pair", "self.pair = ", "[5 2]", "[6 2]"),
        ("name", "self.name = ", "turn 5", "turn 6"),
        ("chosen", "self.chosen = ", "odd", "even"),
        ("span", "self.span = ", "range(0, 5)", "range(0, 6)"),
        ("found", "self.found = ", "None", "3"),
        ("turn", "self.turn += 1", "5", "6"),
        ("Game.turn", "self.turn += 1", "5", "6"),
        ("hero._hp", "self.hero._hp -= 1", "5", "4"),
    ],
)
def test_the_line_of_each_kind(run: Any, name: str, line: str, before: str, after: str) -> None:
    """The values are what the step leaves, and their texts have no quotes."""
    write = run.last_write(name)
    assert (write.line_note, write.tick, str(write.before), str(write.after)) == (None, 6, before, after)
    assert write.line.text.startswith(line)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("hero.hp", "hero.hp is a property of Hero, and only attributes are recorded: it returns hero._hp"),
        ("hero.half", "hero.half is a property of Hero, and only attributes are recorded"),
    ],
)
def test_a_property_is_told(run: Any, name: str, told: str) -> None:
    """With the attribute behind it, if it returns one as it is."""
    with pytest.raises(ExpressionError) as refused:
        run.last_write(name)
    assert str(refused.value) == told
    with pytest.raises(ExpressionError, match=told):
        run.find(f"{name} > 3")


def test_attributes_of_environments_have_lines(tmp_path: Path) -> None:
    """Of the environment and of a wrapper, in installed packages too; of a result, no line is named."""
    gymnasium = pytest.importorskip("gymnasium")
    path = tmp_path / "cart.tape"
    env = recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, trial_ms=0)
    env.reset(seed=0)
    for action in (0, 1, 0, 1):
        env.step(action)
    env.close()
    with replayer.open(path) as run:
        state, steps = run.last_write("CartPoleEnv.state"), run.last_write("TimeLimit._elapsed_steps")
        result = run.last_write("result.observation")

    assert state.line is not None
    assert (state.line.function, state.line.text[:13]) == ("CartPoleEnv.step", "self.state = ")
    assert steps.line is not None
    assert (steps.line.function, steps.line.text) == ("TimeLimit.step", "self._elapsed_steps += 1")
    assert (result.line, result.line_note) == (None, UNREAD)
