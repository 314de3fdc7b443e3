"""Games whose step takes objects: new ones, members of an enumeration, of a module, and objects that the game holds."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Act(enum.Enum):
    """What a squad does."""

    MARCH = "march"
    HEAL = "heal"
    REST = "rest"


@dataclasses.dataclass
class Squad:
    """A squad on the field."""

    name: str
    health: int = 10
    place: tuple[int, int] = (0, 0)


@dataclasses.dataclass
class Command:
    """An order for a squad."""

    act: Act
    squad: Squad | None = None
    to: tuple[int, int] | None = None
    note: str | None = None
    about: Any = None


class Battle:
    """Three squads, of which one is also found by its name."""

    def __init__(self) -> None:
        self.squads = [Squad("red"), Squad("blue"), Squad("squads[0]")]
        self.by_name = {"red": self.squads[0], 7: self.squads[1]}
        self.notes: list[str] = []

    def turn(self, commands: list[Command], by: str = "no one") -> None:
        """Obey."""
        for one in commands:
            if one.note is not None:
                self.notes.append(f"{by}: {one.note}")
            if one.act is Act.HEAL and one.squad is not None:
                one.squad.health += 5
            elif one.act is Act.MARCH and one.squad is not None and one.to is not None:
                one.squad.place = (one.to[0] + one.squad.place[0], one.to[1] + one.squad.place[1])
                assert isinstance(one.to, tuple)
            elif one.act is Act.REST:
                self.notes.append("rest")


def orders(battle: Battle, tick: int) -> list[Command]:
    """The orders of a tick, which refer to what the game holds."""
    squads = battle.squads
    return [
        Command(Act.HEAL, squads[tick % 3], about=squads[0] if tick % 2 else "squads[0]"),
        Command(Act.MARCH, squads[0], (tick, 1), note=f"squads[{tick}]"),
    ]


@dataclasses.dataclass(eq=False)
class Card:
    """A card of this module."""

    power: int


ACE, KING, TEN = Card(11), Card(4), Card(10)


class Table:
    """Cards of the module are played on it."""

    def __init__(self) -> None:
        self.points = 0
        self.said: list[str] = []

    def play(self, card: Any, beside: Any, among: Any) -> None:
        """Count the cards; what is no card is said."""
        for one in (card, beside, *among):
            if isinstance(one, Card):
                self.points = 3 * self.points + one.power
            else:
                self.said.append(str(one))


def hand(tick: int) -> tuple[Any, Any, Any]:
    """What is played at a tick: a card, a card or a text, and a set with one card."""
    card = (ACE, KING)[tick % 2]
    return card, card if tick % 3 else "pass", ({card}, frozenset((card,)))[tick // 4 % 2]
