"""The attributes, items and special methods of a recorded object are those of the object."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from recorded_games import Game, Plain, ensure_images, image, recorded

import recorder
import replayer
from sim.adapters import CapturedWarning, NotCapturedError


def test_assignments_reach_the_object_and_the_replay(tmp_path: Path) -> None:
    """They are part of the next step's inputs."""
    plain, live = Game(), []
    live.append(image(plain))
    game = recorded(tmp_path / "run.tape")
    buffer = np.ones(4)
    for number in range(9):
        for one in (game, plain):
            if number % 3 == 0:
                one.speed = number
                one.grid = buffer + number
                one.grid[1] += 7  # Changed in place after the assignment, before the step.
            if number == 4:
                one.log = [*one.log, ("a", "b")]
                del one.log[0]
        assert game.subject.speed == plain.speed
        assert game.advance() == plain.advance()
        live.append(image(plain))
    game.close()
    ensure_images(tmp_path / "run.tape", live)


class Account:
    """A property with a setter, items, an attribute that goes."""

    def __init__(self) -> None:
        self._level = 0
        self.items: dict[str, int] = {}
        self.extra: Any = 1
        self.history: list[Any] = []

    @property
    def level(self) -> int:
        return self._level

    @level.setter
    def level(self, value: Any) -> None:
        self._level = int(np.sum(value)) * 2

    def __setitem__(self, key: str, value: int) -> None:
        self.items[key] = value

    def __delitem__(self, key: str) -> None:
        del self.items[key]

    def step(self) -> None:
        self.history.append((self._level, dict(self.items), hasattr(self, "extra")))


def test_setters_items_and_deletions_are_repeated(tmp_path: Path) -> None:
    def play(account: Any) -> None:
        for number in range(8):
            values = np.array([number, 1])
            account.level = values
            values[:] = 99  # The setter has read it already.
            account[f"k{number % 3}"] = number
            if number == 5:
                del account["k1"]
                del account.extra
            account.step()

    plain = Account()
    play(plain)
    with recorder.record(Account(), tmp_path / "run.tape", quiet=True) as account:
        play(account)
        assert account.history == plain.history
    with replayer.open(tmp_path / "run.tape", world=Account) as run:
        assert run.verify().ok
        run.seek(0)
        run.seek(8)
        assert run.subject.history == plain.history


def test_an_assignment_that_cannot_be_an_input_reaches_the_object_with_a_warning(tmp_path: Path) -> None:
    """Unless its name is in ignore, as the warning advises."""
    subject: Any = Game()
    subject.window = None
    game = recorder.record(subject, tmp_path / "run.tape", step="advance", ignore=["Game.window"], quiet=True)
    game.window = object()
    with pytest.warns(CapturedWarning, match=r"^Game\.speed was assigned from outside, a function, .*Game\.speed"):
        game.speed = lambda: 2.0  # type: ignore[assignment]
    game.speed = 2.0
    game.advance()
    game.close()
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        assert run.verify().ok


# --- as the object


class Deck:
    """Special methods of many kinds, and attributes with names of the recording."""

    def __init__(self, *cards: int) -> None:
        self.cards = list(cards)
        self.closed = 0
        self.entered = 0

    def step(self) -> None:
        self.cards.append(len(self.cards))

    def __len__(self) -> int:
        return len(self.cards)

    def __iter__(self) -> Iterator[int]:
        return iter(self.cards)

    def __reversed__(self) -> Iterator[int]:
        return reversed(self.cards)

    def __contains__(self, card: int) -> bool:
        return card in self.cards

    def __getitem__(self, index: int) -> int:
        return self.cards[index]

    def __setitem__(self, index: int, card: int) -> None:
        self.cards[index] = card

    def __bool__(self) -> bool:
        return bool(self.cards and self.cards[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deck) and other.cards == self.cards

    def __lt__(self, other: Any) -> bool:
        return self.cards < other.cards

    def __hash__(self) -> int:
        return len(self.cards)

    def __repr__(self) -> str:
        return f"Deck({self.cards})"

    def __call__(self, times: int, *, plus: int = 0) -> int:
        return self.cards[0] * times + plus

    def __add__(self, other: Any) -> Deck:
        return Deck(*self.cards, *other.cards) if isinstance(other, Deck) else NotImplemented

    def __radd__(self, other: Any) -> list[Any]:
        return [other, *self.cards]

    def __iadd__(self, other: int) -> Self:
        self.cards[0] += other
        return self

    def __neg__(self) -> Deck:
        return Deck(*map(operator.neg, self.cards))

    def __int__(self) -> int:
        return self.cards[0]

    def __index__(self) -> int:
        return self.cards[0]

    def __format__(self, spec: str) -> str:
        return f"<{spec}>"

    def __enter__(self) -> Self:
        self.entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.entered -= 1

    def close(self) -> int:
        self.closed += 1
        return self.closed


SAME: tuple[Callable[[Any], Any], ...] = (
    len, list, bool, repr, str, hash, int, operator.index, operator.neg, sorted,
    lambda deck: 2 in deck,
    lambda deck: deck[1],
    lambda deck: deck(3, plus=1),
    lambda deck: list(reversed(deck)),
    lambda deck: deck == Deck(1, 2, 3),
    lambda deck: Deck(1, 2, 3) == deck,
    lambda deck: deck != Deck(1, 2, 3),
    lambda deck: deck == deck.__class__(9),
    lambda deck: deck < Deck(4),
    lambda deck: Deck(4) < deck,
    lambda deck: deck + Deck(5),
    lambda deck: Deck(5) + deck,
    lambda deck: 5 + deck,
    lambda deck: f"{deck:abc}",
    lambda deck: isinstance(deck, Deck),
    lambda deck: deck.__class__ is Deck,
    lambda deck: vars(deck).keys() - {"advance"},
    lambda deck: {deck: 1}[deck],
    lambda deck: [10, 20, 30, 40][deck],
    callable,
    lambda deck: getattr(deck, "missing", "default"),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(SAME)))
def test_special_methods_are_the_objects(number: int, tmp_path: Path) -> None:
    look = SAME[number]
    with recorder.record(Deck(1, 2, 3), tmp_path / "run.tape", quiet=True) as deck:
        assert look(deck) == look(Deck(1, 2, 3))
        deck.step()


def test_changes_by_special_methods_reach_the_object(tmp_path: Path) -> None:
    deck = recorder.record(Deck(1, 2, 3), tmp_path / "run.tape", quiet=True)
    before = deck
    with deck as entered:
        assert entered is before
        assert deck.entered == 1
        deck[2] = 8
        deck.step()
        deck += 4
        assert deck is before
        assert deck.subject.cards == [5, 2, 8, 3]
    assert (deck.subject.entered, deck.subject.closed) == (0, 0)
    deck.close()
    assert deck.subject.closed == 1
    assert {"tape", "subject", "close", "cards", "step"} <= set(dir(deck))
    for name in ("tape", "subject", "close"):
        with pytest.raises(AttributeError, match=rf"^{name} is a name of the recording itself: .*\.subject\.{name}"):
            setattr(deck, name, 1)


def test_what_the_class_does_not_have_the_recorded_object_does_not_have(tmp_path: Path) -> None:
    with recorder.record(Plain(), tmp_path / "run.tape", quiet=True) as plain:
        assert bool(plain)
        assert plain == plain.subject
        assert plain.subject == plain
        assert plain != Plain()
        assert not callable(plain)
        for refused in (len, iter, int, operator.neg, lambda one: one[0], lambda one: 1 in one, lambda one: one + 1):
            with pytest.raises(TypeError):
                refused(plain)
        assert plain.step().step().t == 2
        assert plain.step() is plain  # A chain of calls keeps the recording.
        assert plain.tape.tick == 3
        with pytest.raises(TypeError, match="this Plain is recorded already"):
            recorder.record(plain, tmp_path / "two.tape")
        with pytest.raises(NotCapturedError, match="Plain is being recorded already"):
            recorder.record(plain.subject, tmp_path / "two.tape")
    with recorder.record(plain.subject, tmp_path / "two.tape", quiet=True) as again:
        again.step()


class Dial:
    """Steps when its property is set, and when an item is."""

    def __init__(self) -> None:
        self.turns, self._level = 0, 0

    def turn(self, by: int = 1) -> int:
        self.turns += by
        return self.turns

    @property
    def level(self) -> int:
        """Its setter makes a step after it has changed something."""
        return self._level

    @level.setter
    def level(self, value: int) -> None:
        if value < 0:
            raise ValueError("a level below 0")
        self._level = value
        self.turn(10)

    def __setitem__(self, index: int, value: int) -> None:
        self.turn(index)
        self._level = value


def test_a_step_that_an_assignment_calls_is_a_part_of_it(tmp_path: Path) -> None:
    """A replay repeats the assignment with all that it does; a step after one that raised is a tick again."""
    tape = tmp_path / "dial.tape"
    dial = recorder.record(Dial(), tape, step="turn", quiet=True, trial_ms=0)
    truth = []
    with pytest.warns(UserWarning, match=r"Dial\.level was assigned from outside, and that called turn\(\)"):
        dial.level = 3
    with pytest.warns(UserWarning, match=r"Dial\[5\] was assigned from outside, and that called turn\(\)"):
        dial[5] = 4
    dial.level = 5
    truth.append((dial.turn(), dial.level))
    with pytest.raises(ValueError, match="below 0"):
        dial.level = -1
    truth.append((dial.turn(), dial.level))
    dial.close()

    assert truth == [(26, 5), (27, 5)]
    with replayer.open(tape, world=Dial) as run:
        for tick, (turns, level) in enumerate(truth, 1):
            run.seek(tick)
            assert (run.subject.turns, run.subject.level) == (turns, level)
        assert run.verify().ok
