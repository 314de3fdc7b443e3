"""Objects in tuples, lists and dicts of a module are the same objects after a restore, and no other game is written to."""

from __future__ import annotations

import random
import sys
import types
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from sim.adapters.capture.graph.names.global_items import addresses_in, named_items
from sim.adapters.capture.graph.names.global_names import names_of_globals
from sim.adapters.find_adapter import adapt
from sim.kernel.simulation import restore


@dataclass(frozen=True)
class Card:
    """As games of cards have them."""

    rank: int
    suit: str


class Suit:
    """An object with attributes that may change."""

    def __init__(self, name: str) -> None:
        self.name, self.drawn = name, 0


DECK = [Card(rank, suit) for rank in range(13) for suit in "cdhs"]
SUITS = (Suit("clubs"), (Suit("hearts"), Suit("spades")))
BY_NAME = {"ace": Card(12, "c"), "two": Card(0, "h")}
UNITS: list[Any] = []


class Pack(tuple[Card, ...], Enum):
    """Packs of cards, as an enumeration of tuples."""

    __slots__ = ()
    SMALL = Card(1, "x"), Card(2, "y")


class Draw:
    """Makes a new pack of the module's cards when the old one is at its end."""

    def __init__(self) -> None:
        self.random, self.pack, self.same = random.Random(1), [*DECK], 0
        self.hand: list[Card] = []

    def step(self, _: Any = None) -> None:
        """Take a card."""
        if len(self.hand) > 8:
            self.pack, self.hand = [*DECK], []
        self.hand.append(self.pack.pop(self.random.randrange(len(self.pack))))
        self.same += self.hand[0] is DECK[5]


class Held:
    """Holds one object of each container, and compares it by identity."""

    def __init__(self) -> None:
        self.held: list[Any] = [SUITS[0], SUITS[1][0], BY_NAME["ace"], Pack.SMALL[1]]
        self.first, self.same = SUITS[0], 0

    def step(self, _: Any = None) -> None:
        """Take the other ones."""
        those = (SUITS[0], SUITS[1][0], BY_NAME["ace"], Pack.SMALL[1])
        self.same += sum(one is other for one, other in zip(self.held, those, strict=True))
        self.same += self.first is SUITS[0]
        self.first = SUITS[1][self.same % 2] if self.same % 3 else SUITS[0]


class Unit:
    """Enters itself into a register of the module."""

    def __init__(self) -> None:
        self.health = 10
        UNITS.append(self)


class Army:
    """A game whose units are in a register that all games share."""

    def __init__(self) -> None:
        self.units = [Unit(), Unit()]

    def step(self, _: Any = None) -> None:
        """Hurt the first unit."""
        self.units[0].health -= 1


@pytest.mark.parametrize("game", [Draw, Held])
def test_a_run_goes_on_from_each_state_with_the_objects_of_the_module(game: Any) -> None:
    """The same bytes at each later tick, in a fresh instance, as in the live run."""
    live = adapt(game())
    states = [live.state.snapshot()]
    for _ in range(24):
        live.step(None)
        states.append(live.state.snapshot())
    for start in range(0, 24, 3):
        fresh = adapt(game())
        restore(fresh, states[start])
        for state in states[start + 1 :]:
            fresh.step(None)
            assert fresh.state.arena.tobytes() == state.arena.tobytes()
    assert (SUITS[0].name, SUITS[1][0].name, SUITS[1][1].name) == ("clubs", "hearts", "spades")


def test_a_tape_of_a_game_with_a_deck_of_the_module_verifies(tmp_path: Path) -> None:
    """No difference is seen by the trial or by verify, and a seek gives the module's own card."""
    game = recorder.record(Draw(), tmp_path / "draw.tape", quiet=True, keyframe_interval_ticks=5)
    with recorder.tape_of(game):
        for _ in range(30):
            game.step()

    run = replayer.open(tmp_path / "draw.tape", world=Draw)
    assert run.verify().ok
    run.seek(13)
    assert all(any(card is one for one in DECK) for card in run.subject.hand)


def test_a_register_of_objects_that_may_change_names_none() -> None:
    """Another instance has entered its units, too: a restore writes to those of neither."""
    UNITS.clear()
    live = adapt(Army())
    live.step(None)
    state = live.state.snapshot()
    live.step(None)
    fresh = adapt(Army())
    restore(fresh, state)

    assert fresh.subject.units[0].health == 9
    assert [unit.health for unit in UNITS] == [8, 10, 10, 10]
    UNITS.clear()


def test_what_a_list_in_a_tuple_holds_is_read_again_when_it_changes() -> None:
    """A tuple holds the same list for ever, and the list other cards."""
    module = types.ModuleType("table_of_cards")
    ace, two = Card(12, "c"), Card(0, "h")
    module.HANDS = ([ace], [])  # type: ignore[attr-defined]
    assert names_of_globals(module, "cards") == {
        id(module.HANDS[0]): "cards:HANDS[0]",
        id(module.HANDS[1]): "cards:HANDS[1]",
        id(ace): "cards:HANDS[0][0]",
    }
    module.HANDS[1].append(two)
    assert names_of_globals(module, "cards")[id(two)] == "cards:HANDS[1][0]"


def test_items_of_large_containers_are_not_compared_at_each_call() -> None:
    """A map of numbers, each row of which is small; and one of objects, which have no names then."""
    numbers = [[x * y % 7 for x in range(500)] for y in range(500)]
    assert (addresses_in(numbers), list(named_items(numbers, "game:MAP"))) == ([], [])
    cards = [[Card(rank, "c")] * 200 for rank in range(100)]
    assert (addresses_in(cards), list(named_items(cards, "game:CARDS"))) == ([], [])
    few = [cards[0][:1], [3, 4]]
    assert addresses_in(few) == [id(few[0]), id(few[1]), id(few[0][0])]
    assert list(named_items(few, "game:FEW")) == [(few[0][0], "game:FEW[0][0]")]


def test_a_frozen_object_of_a_list_that_has_other_values_now_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of another version of the game: its objects keep their values."""
    live = adapt(Draw())
    for _ in range(4):
        live.step(None)
    state, hand = live.state.snapshot(), list(live.subject.hand)
    others = [Card(card.rank + 100, card.suit) for card in DECK]
    monkeypatch.setattr(sys.modules[__name__], "DECK", others)
    fresh = adapt(Draw())
    restore(fresh, state)

    assert fresh.subject.hand == hand
    assert not any(one is card for one in fresh.subject.hand for card in DECK)
    assert min(card.rank for card in DECK) == 100
