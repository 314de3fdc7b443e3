"""The recorded object behaves as the object: a plain run of the same calls stands next to each recorded one."""

from __future__ import annotations

import contextlib
import copy
import inspect
import operator
import os
import pickle  # noqa: TID251 - a copy of the user, which never comes from a tape
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial, partialmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import recorder
import replayer
from recorder.errors import RecordingWarning
from sim.adapters import CapturedWarning, NotCapturedError, adapt, fields

PROGRAMS = Path(__file__).parents[4] / "src"


class Base:
    def __init__(self) -> None:
        self.x, self.ticks = 0.0, 0
        self.speed = 1.0
        self.random = random.Random(5)
        self.log: list[Any] = []
        self.grid = np.zeros(4)

    def advance(self, push: Any = 0, *, dt: float = 1.0, times: int = 1) -> float:
        self.ticks += 1
        self.x += (self.speed * dt * times) + self.random.random() + float(np.sum(push))
        self.log.append((type(push).__name__, repr(push)))
        return self.x


class Game(Base):
    """A step with a default, called from outside, by its own methods and by callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0

    def advance(self, push: Any = 0, *, dt: float = 1.0, times: int = 1) -> float:
        result = super().advance(push, dt=dt, times=times)
        if times > 1:
            self.advance(dt=dt, times=times - 1)
        return result

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.advance()

    def explicit(self) -> None:
        Game.advance(self, 2)

    def itself(self) -> Game:
        return self


def image(game: Any) -> Any:
    """All attributes as plain data."""
    return game.x, game.ticks, game.speed, game.random.getstate(), list(game.log), game.grid.tolist()


def check(path: Path, live: list[Any], make: Callable[[], Any] = Game) -> None:
    """Every tick restores the image that a plain run had there."""
    with replayer.open(path, world=make) as run:
        assert run.verify().ok
        assert run.last_tick == len(live) - 1
        for tick in (*reversed(range(len(live))), 0, len(live) - 1):
            run.seek(tick)
            assert image(run.subject) == live[tick], tick


def recorded(path: Path, game: Any = None, **choices: Any) -> Any:
    return recorder.record(
        Game() if game is None else game, path, step="advance", quiet=True, keyframe_interval_ticks=4, **choices
    )


def test_all_kinds_of_calls_are_repeated_exactly(tmp_path: Path) -> None:
    """Any number of arguments, by position and by name, with their types."""
    shared = [1.0]
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((3,), {}),
        ((), {"push": 3}),
        ((2, ), {"dt": 0.5}),
        (((1, 2),), {}),
        (([1, 2],), {}),
        ((np.arange(3.0),), {"dt": np.float32(0.25)}),
        ((np.arange(6.0)[::2],), {}),
        ((np.int64(3),), {}),
        ((True,), {}),
        ((-0.0,), {}),
        (([1 << 60],), {}),
        (([shared, shared],), {"times": 1}),
    ]  # fmt: skip
    plain, live = Game(), []
    live.append(image(plain))
    game = recorded(tmp_path / "run.tape")
    for arguments, keywords in calls:
        assert game.advance(*arguments, **keywords) == plain.advance(*arguments, **keywords)
        live.append(image(plain))
    game.close()

    check(tmp_path / "run.tape", live)
    with replayer.open(tmp_path / "run.tape") as run:
        assert [run.tape.frame(tick).inputs for tick in range(1, 5)] == [
            {"advance()": [[], {}]},
            3,
            {"advance()": [[], {"push": 3}]},
            {"advance()": [[2], {"dt": 0.5}]},
        ]


class Dispatch:
    """A step that takes any argument and keeps its type."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def step(self, *arguments: Any, **keywords: Any) -> None:
        self.seen.append(repr((arguments, keywords)))


LOOKALIKES = (
    {"step()": [[1], {}]},
    {"raised": "ValueError", "message": "", "inputs": 3},
    {"bet": {"call": 20}},
    {1: "a", "b": (1, 2)},
    {"set": b""},
    None,
    b"\x80",
    {3, 1},
)


@pytest.mark.parametrize("argument", LOOKALIKES, ids=repr)
def test_an_argument_that_looks_like_our_maps_stays_the_argument(argument: Any, tmp_path: Path) -> None:
    plain = Dispatch()
    with recorder.record(Dispatch(), tmp_path / "run.tape", quiet=True) as subject:
        for one in (subject, plain):
            one.step(argument)
            one.step(argument, 1)
            one.step(name=argument)
            one.step()
        assert subject.seen == plain.seen
    with replayer.open(tmp_path / "run.tape", world=Dispatch) as run:
        assert run.verify().ok
        run.seek(0)
        run.seek(4)
        assert run.subject.seen == plain.seen


def test_a_step_is_recorded_however_it_is_called(tmp_path: Path) -> None:
    """By the proxy, by methods of the object, by a method taken before, by the class, on the object itself: once each."""
    subject, plain = Game(), Game()
    before, in_partial = subject.advance, partial(subject.advance, 4)
    game = recorded(tmp_path / "run.tape", subject)
    after = game.advance
    live = [image(plain)]

    def both(ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
        ours()
        theirs()
        live.append(image(plain))

    both(game.advance, plain.advance)
    both(before, plain.advance)
    both(after, plain.advance)
    both(in_partial, partial(plain.advance, 4))
    both(subject.advance, plain.advance)
    both(game.explicit, plain.explicit)
    both(lambda: Game.advance(subject, 1), lambda: plain.advance(1))
    both(lambda: Game.advance(game, 7), lambda: plain.advance(7))
    both(partial(game.advance, times=3), partial(plain.advance, times=3))  # Calls itself and its base class.
    game.run(3)
    for _ in range(3):
        plain.advance()
        live.append(image(plain))
    assert game.tape.tick == len(live) - 1
    game.close()
    check(tmp_path / "run.tape", live)


def test_other_objects_and_copies_are_not_recorded(tmp_path: Path) -> None:
    """A search that plays on copies leaves no trace on the tape, nor in the copies."""
    plain, live = Game(), []
    live.append(image(plain))
    other = Game()
    game = recorded(tmp_path / "run.tape")
    for _ in range(6):
        for copied in (
            copy.deepcopy(game),
            copy.copy(game),
            pickle.loads(pickle.dumps(game)),
            copy.deepcopy(game.subject),
        ):
            assert type(copied) is Game
            if copied.random is not game.random:  # A shallow copy shares it.
                copied.run(3)
        other.run(2)
        game.advance()
        plain.advance()
        live.append(image(plain))
    assert (game.tape.tick, other.ticks) == (6, 12)
    game.close()
    assert vars(game.subject).keys() == vars(other).keys()
    check(tmp_path / "run.tape", live)


def test_the_method_is_itself_again_after_the_recording(tmp_path: Path) -> None:
    """After the last recording is closed, or dropped, of any object of the class."""
    function, code = Game.advance, Game.advance.__code__
    signature = str(inspect.signature(function))
    one, two = recorded(tmp_path / "one.tape"), recorded(tmp_path / "two.tape")
    one.advance()
    two.advance()
    one.close()
    one.subject.advance()
    assert function.__code__ is not code
    assert str(inspect.signature(function)) == signature
    two.tape.close()
    two.subject.advance()
    assert (Game.advance, function.__code__, vars(function)) == (function, code, {})
    kept = [recorded(tmp_path / "three.tape")]
    assert function.__code__ is not code
    with pytest.warns(ResourceWarning, match="never closed"):
        kept.clear()
    assert function.__code__ is code


def test_the_method_shows_itself_as_the_objects(tmp_path: Path) -> None:
    """Its name, its parameters and its text, of the proxy and of the object."""
    with recorded(tmp_path / "run.tape") as game:
        plain = Game()
        for one in (game, game.subject):
            assert one.advance.__name__ == plain.advance.__name__ == "advance"
            assert inspect.signature(one.advance) == inspect.signature(plain.advance)
            assert one.advance.__doc__ == plain.advance.__doc__
            assert one.advance.__qualname__ == plain.advance.__qualname__
        game.advance()


def test_a_forked_child_plays_on_alone(tmp_path: Path) -> None:
    game = recorded(tmp_path / "run.tape")
    game.advance()
    child = os.fork()
    if not child:
        game.subject.advance()
        os._exit(game.subject.ticks)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    game.advance()
    assert game.tape.tick == 2
    game.close()


class Wrapped:
    """Its step is a callable object, not a function; another object has a bound method of itself under the name."""

    def __init__(self) -> None:
        self.t = 0

    def fast(self) -> None:
        self.t += 2

    @staticmethod
    def step() -> None:
        """Changes nothing."""

    tick = partialmethod(fast)


def test_a_step_that_is_no_function_is_recorded_where_it_is_called_by_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first line says so."""
    for step in ("tick", "step"):
        with recorder.record(Wrapped(), tmp_path / f"{step}.tape", step=step) as wrapped:
            getattr(wrapped, step)()
            getattr(wrapped, step)()
            assert wrapped.tape.tick == 2
        assert f"; {step} is no Python function: only calls through the result count" in capsys.readouterr().err
        with replayer.open(tmp_path / f"{step}.tape", world=Wrapped) as run:
            assert run.verify().ok


class Chosen:
    """Chooses how it steps when it is made."""

    def __init__(self) -> None:
        self.t = 0
        self.step = self.fast

    def fast(self) -> None:
        self.t += 2

    def run(self) -> None:
        self.step()
        self.fast()


def test_a_step_that_the_object_chose_is_recorded(tmp_path: Path) -> None:
    """An attribute that holds one of the object's own methods."""
    chosen = recorder.record(Chosen(), tmp_path / "run.tape", quiet=True, ignore=["Chosen.step"])
    chosen.run()
    chosen.step()
    chosen.close()
    with replayer.open(tmp_path / "run.tape", world=Chosen) as run:
        assert run.verify().ok
        assert run.last_tick == 3
        assert run[3]["Chosen.t"] == 6


class Episodes(Base):
    """As environments are: a step, a reset that a step may call, too, and a method that changes something between."""

    def reset(self, seed: int | None = None) -> float:
        if seed is not None:
            self.random.seed(seed)
        self.x, self.ticks = self.random.random(), 0
        return self.x

    def advance(self, push: Any = 0, *, dt: float = 1.0, times: int = 1) -> float:
        result = super().advance(push, dt=dt, times=times)
        return self.reset() if self.ticks > 4 else result

    def place(self, where: float, *, name: str) -> str:
        self.x = where
        self.log.append(name)
        return name


@pytest.mark.parametrize("step", ["advance", ("advance", "reset", "place")])
def test_resets_and_other_methods_are_ticks(step: Any, tmp_path: Path) -> None:
    """A reset without being named, between two steps only; every other method if it is named."""
    plain = Episodes()
    live = [image(plain)]
    episodes = recorder.record(Episodes(), tmp_path / "run.tape", step=step, quiet=True, keyframe_interval_ticks=5)
    for number in range(60):
        for one in (episodes, plain):
            if number % 7 == 0:
                result = one.reset(number if number % 2 else None)
            elif number % 5 == 0 and step != "advance":
                one.speed = number
                result = one.place(number / 2, name="here")
            else:
                result = one.advance(number)
            if one is episodes:
                expected = result
        assert result == expected
        live.append(image(plain))
    bound = episodes.subject.reset
    bound(5)
    plain.reset(5)
    live.append(image(plain))
    episodes.close()
    check(tmp_path / "run.tape", live, Episodes)
    with replayer.open(tmp_path / "run.tape") as run:
        assert run.tape.frame(1).inputs == {"reset()": [[None], {}]}


def test_a_further_method_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^Episodes has no method fly\(\): .*methods advance, place, reset$"):
        recorder.record(Episodes(), tmp_path / "run.tape", step=("advance", "fly"))
    for wrong in ((), ("advance", 3), [None]):
        with pytest.raises(TypeError, match=r"^step=.*: expected the name of a method, or several$"):
            recorder.record(Episodes(), tmp_path / "run.tape", step=wrong)
    assert not list(tmp_path.iterdir())


# --- assignments


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
    check(tmp_path / "run.tape", live)


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


class Plain:
    """None of them."""

    def __init__(self) -> None:
        self.t = 0

    def step(self) -> Plain:
        self.t += 1
        return self


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


# --- names


def test_the_object_has_one_name_live_and_in_a_replay(tmp_path: Path) -> None:
    game = Game()
    live = recorded(tmp_path / "run.tape", game)
    with recorder.tape_of(live) as tape:
        assert live.subject is game
        assert tape.subject is game
        tape.subject.advance()
    assert tape.is_closed
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        with pytest.raises(ValueError, match="seek first"):
            _ = run.subject
        run.seek(1)
        assert type(run.subject) is Game
        assert run.subject is run.simulation.subject
    with pytest.raises(TypeError, match=r"^expected an object that recorder\.record\(\) returned, got Game$"):
        recorder.tape_of(game)


class OnlyAdvance:
    def __init__(self) -> None:
        self.t = 0

    def advance(self, inputs: Any) -> None:
        self.t += inputs or 1


def test_a_name_for_the_step_is_all_that_is_needed(tmp_path: Path) -> None:
    """The name step leads to it, too, if the object has none; a simulation takes None for a step that needs inputs."""
    subject = recorder.record(OnlyAdvance(), tmp_path / "run.tape", step="advance", quiet=True)
    subject.advance(5)
    subject.step(4)
    subject.step(None)
    subject.close()
    with replayer.open(tmp_path / "run.tape", world=OnlyAdvance) as run:
        assert run.verify().ok
        assert run[3]["OnlyAdvance.t"] == 10
    simulation = adapt(OnlyAdvance(), step="advance")
    simulation.step(None)
    assert simulation.subject.t == 1


@pytest.mark.parametrize(
    ("subject", "choices", "message"),
    [
        (OnlyAdvance, {}, r"^OnlyAdvance has no method step\(\): name the one .* it has the methods advance$"),
        (OnlyAdvance, {"step": "t"}, r"^OnlyAdvance has no method t\(\): .*methods advance$"),
        (OnlyAdvance, {"what": fields(step="go")}, r"^OnlyAdvance has no method go\(\)"),
        (Game, {"step": "run it"}, r"^Game has no method run it\(\): .*methods advance, explicit, itself, run$"),
        (Plain, {"step": ""}, r"^Plain has no method \(\)"),
    ],
)
def test_a_wrong_name_of_the_step_is_refused_with_the_right_ones(
    subject: Any, choices: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match=message):
        recorder.record(subject(), tmp_path / "run.tape", **choices)
    assert not list(tmp_path.iterdir())


class Later:
    async def step(self) -> None:
        """Runs when it is awaited."""

    def parts(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("step", ["step", "parts"])
def test_a_step_that_runs_later_is_refused(step: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=rf"^Later\.{step}: expected a method that makes a step when it is called"):
        recorder.record(Later(), tmp_path / "run.tape", step=step)


def test_a_name_for_the_step_of_an_adapted_object_is_refused(tmp_path: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(TypeError, match=r"^step='advance': expected no name for OrderEnforcing, .*adapter gymnasium"):
        recorder.record(gymnasium.make("CartPole-v1", disable_env_checker=True).env, tmp_path / "x", step="advance")


# --- mistakes


def test_a_recording_without_a_step_says_so(tmp_path: Path) -> None:
    """Once, when it is closed, and the tape is sealed nevertheless."""
    game = recorded(tmp_path / "run.tape")
    with pytest.warns(RecordingWarning, match=r"run\.tape saw no step: use the object that record\(\) returned"):
        game.close()
    game.close()
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        assert run.last_tick == 0
    with contextlib.suppress(KeyError), recorded(tmp_path / "two.tape"):  # Its end has a reason of its own.
        raise KeyError


class Caterpillar(Base):
    def step(self) -> None:
        self.ticks += 1
        if self.ticks == 3:
            self.__class__ = Game


def test_an_object_that_changes_its_class_ends_the_recording_with_the_ticks_before(tmp_path: Path) -> None:
    subject = recorder.record(Caterpillar(), tmp_path / "run.tape", quiet=True)
    subject.step()
    subject.step()
    with pytest.raises(NotCapturedError, match="class was Caterpillar when its recording began, and is now Game"):
        subject.step()
    subject.close()
    with replayer.open(tmp_path / "run.tape", world=Caterpillar) as run:
        assert run.verify().ok
        assert run.last_tick == 2


class Hand(list):  # type: ignore[type-arg]
    def step(self) -> None:
        self.append(1)


class Luck(random.Random):
    def step(self) -> None:
        self.random()


@pytest.mark.parametrize(("kind", "base"), [(Hand, "list"), (Luck, "Random")])
def test_content_that_is_not_in_attributes_is_refused(kind: Any, base: str, tmp_path: Path) -> None:
    """It was left out silently."""
    with pytest.raises(
        NotCapturedError, match=rf"^{kind.__name__} is a {base}, whose content is not in its attributes"
    ):
        recorder.record(kind(), tmp_path / "run.tape")
    assert not list(tmp_path.iterdir())


class Prickly:
    """Reading most of it raises."""

    def __init__(self) -> None:
        self.t = 0

    @property
    def area(self) -> int:
        raise ZeroDivisionError("no area yet")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def step(self) -> None:
        self.t += 1


def test_attributes_that_raise_when_they_are_read_are_not_read(tmp_path: Path) -> None:
    subject = recorder.record(Prickly(), tmp_path / "run.tape", quiet=True)
    subject.step()
    with pytest.raises(ZeroDivisionError, match="no area yet"):
        _ = subject.area
    with pytest.raises(RuntimeError, match="no such"):
        _ = subject.such
    subject.step()
    subject.tape.close()
    with replayer.open(tmp_path / "run.tape", world=Prickly) as run:
        assert run.verify().ok
        run.seek(1)
        assert run.subject.t == 1


# --- scripts

SCRIPT = """
import enum
import recorder

class Mood(enum.Enum):
    CALM, WILD = 1, 2

class Unit:
    def __init__(self):
        self.hp = 10

class Game:
    def __init__(self):
        self.units, self.leader, self.mood, self.t = [Unit(), Unit()], Unit(), Mood.CALM, 0
    def step(self):
        self.t += 1
        self.units[self.t % 2].hp -= 1
        self.leader.hp -= 1
        self.mood = Mood.WILD if self.t % 2 else Mood.CALM

def make():
    return Game()

if __name__ == "__main__":
    with recorder.record(make(), "run.tape") as game:
        for _ in range(12):
            game.step()
"""


def program(folder: Path, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROGRAMS)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


REPLAY = ("-c", "import sys; from simulation_flight_recorder import replay; sys.argv[0] = 'replay'; replay()")


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("way", [("game.py",), ("-m", "game")], ids=["script", "module"])
def test_a_tape_of_a_script_is_replayed_by_the_class_of_its_module(way: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "game.py").write_text(SCRIPT)
    made = program(tmp_path, *way)
    assert (made.returncode, made.stderr.count("\n")) == (0, 2), made.stderr  # Tried, and recorded.
    without = program(tmp_path, *REPLAY, "verify", "run.tape")
    assert "--sim game:Game" in without.stderr + without.stdout
    for factory in ("game:Game", "game:make"):
        verified = program(tmp_path, *REPLAY, "verify", "run.tape", "--sim", factory)
        assert "all 13 ticks match the recording" in verified.stdout, verified.stderr


@pytest.mark.seldom(0.15)
def test_a_class_that_no_replay_can_import_is_told_at_the_start(tmp_path: Path) -> None:
    told = program(tmp_path, text=SCRIPT.replace('"run.tape"', '"session.tape"'))
    assert (
        "session.tape: the class Game was defined in this session: a later replay cannot import it; put it"
        in told.stderr
    )

    code = "def main():\n class Local:\n  t = 0\n  def step(self): self.t = 1\n return Local()\n"
    (tmp_path / "nested.py").write_text(
        code + "import recorder\nif __name__ == '__main__': recorder.record(main(), 'x.tape').step()\n"
    )
    told = program(tmp_path, "nested.py")
    assert "x.tape: the class Local exists only inside main(): a later replay cannot import it; define" in told.stderr
