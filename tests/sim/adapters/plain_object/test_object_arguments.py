"""Calls with objects: of an enum, of the user's classes, new ones and those that the recorded object holds itself."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import random
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recorder
import replayer
from replayer import Tape
from sim.adapters import CapturedWarning


class Kind(enum.Enum):
    """What a unit is."""

    FOOT = "foot"
    HORSE = "horse"


class Move(enum.IntEnum):
    """A direction."""

    LEFT = 0
    RIGHT = 1


class Flags(enum.Flag):
    """Two bits."""

    FAST = 1
    LOUD = 2


class Place(NamedTuple):
    """A cell."""

    x: int
    y: int


@dataclasses.dataclass(eq=False)
class Unit:
    """A unit that refers to others."""

    name: str
    kind: Kind = Kind.FOOT
    hp: float = 10.0
    target: Unit | None = None

    def show(self) -> Any:
        """A picture that no step reads."""
        return self.view  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class Order:
    """What a unit is to do."""

    kind: Kind
    units: tuple[Unit, ...] = ()
    place: Place | None = None


class Slotted:
    """An object without a dict."""

    __slots__ = ("inner", "number", "unset")

    def __init__(self, number: int, inner: Any = None) -> None:
        self.number, self.inner = number, inner


class Game:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.units = [Unit(f"u{number}", hp=float(number)) for number in range(6)]
        self.teams = {"red": self.units[:2], ("blue", 1): self.units[2:4]}
        self.camp = Slotted(1, [self.units[5], (self.units[4],)])
        self.grid, self.rng, self.random = np.zeros((3, 4)), np.random.default_rng(3), random.Random(3)
        self.guards = {self.units[0]}
        self.posts = {Unit("k0"): [0], "k": [1], Unit("k1"): [2]}
        self.ranks = collections.OrderedDict.fromkeys(map(Unit, "abc"))
        self.ranks.move_to_end(next(iter(self.ranks)))
        self.leader: Any = self.units[0]
        self.kept: list[Any] = []

    def play(self, *arguments: Any, **keywords: Any) -> int:
        """Keep the arguments."""
        self.kept.append((arguments, keywords))
        return len(self.kept)


VALUES: list[Any] = [
    Kind.HORSE,
    Move.RIGHT,
    Flags.FAST | Flags.LOUD,
    decimal.Decimal("1.50"),
    fractions.Fraction(1, 3),
    dt.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
    dt.timedelta(days=1, microseconds=5),
    pathlib.PurePosixPath("a/b"),
    uuid.UUID(int=7),
    range(2, 9, 3),
    slice(1, 2),
    2**100,
    -(2**63) - 1,
    np.datetime64("2020-01-01"),
    Place(1, 2),
    Unit,
    Unit.__init__,
    len,
    collections.Counter("aab"),
    {Kind.FOOT: Move.LEFT, Place(0, 1): [Kind.HORSE]},
    frozenset({Move.LEFT}),
    Order(Kind.FOOT),
]


def play(path: Path, calls: Callable[[Any], object], world: type[Game] = Game) -> Any:
    """Record a game and its calls; return it."""
    with recorder.record(world(), path, step="play", quiet=True, trial_ms=0, keyframe_interval_ticks=4) as game:
        calls(game)
        return game.subject


@pytest.mark.parametrize("value", VALUES, ids=[f"{type(one).__name__}-{place}" for place, one in enumerate(VALUES)])
def test_immutable_values_arrive_as_they_were(value: Any, tmp_path: Path) -> None:
    """Of the same type; the tape verifies."""
    play(tmp_path / "run.tape", lambda game: [game.play(value), game.play(1, key=value), game.play([value, value])])
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(3)
        (one,), (_, two), (((three, four),), _) = run.subject.kept[0][0], run.subject.kept[1], run.subject.kept[2]
        for found in (one, two["key"], three, four):
            assert (type(found), found) == (type(value), value)
        assert run.verify().ok


PARTS: dict[str, Callable[[Any], Any]] = {
    "an item of a list": lambda game: game.units[3],
    "an item of a list in a dict": lambda game: game.teams["red"],
    "under a key that is a tuple": lambda game: game.teams["blue", 1],
    "in a slot": lambda game: game.camp.inner,
    "an object without a dict": lambda game: game.camp,
    "in a tuple": lambda game: game.camp.inner[1][0],
    "a key": lambda game: list(game.posts)[2],
    "under a key that is an object": lambda game: list(game.posts.values())[2],
    "a key that was moved": lambda game: list(game.ranks)[2],
    "an attribute": lambda game: game.leader,
    "the object itself": lambda game: game.leader and game,
    "an array": lambda game: game.grid,
    "generators": lambda game: game.rng,
    "Python's generator": lambda game: game.random,
}


@pytest.mark.parametrize("name", PARTS)
def test_what_the_object_holds_is_the_same_object_in_a_replay(name: str, tmp_path: Path) -> None:
    """However it is reached, alone and inside other values."""
    part = PARTS[name]

    def calls(game: Any) -> None:
        subject = game.subject
        for _ in range(3):
            game.play(part(subject))
            game.play([part(subject)], order={"for": part(subject)})

    play(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(6)
        game = run.subject
        found = [*(one for (one,), _ in game.kept[::2]), *(one for ((one,),), _ in game.kept[1::2])]
        assert all(one is part(game) for one in [*found, *(named["order"]["for"] for _, named in game.kept[1::2])])
        assert run.verify().ok


GUARD = Unit("guard")
PAIR = (Unit("left"), [1, 2])
ORDERS = {"wait": Order(Kind.FOOT)}


def test_what_a_variable_refers_to_is_that_object_in_a_replay(tmp_path: Path) -> None:
    """Of a module: an object, an item of a tuple, a frozen one in a dict; alone and in others."""

    def calls(game: Any) -> None:
        game.play(GUARD, PAIR[0], ORDERS["wait"])
        game.play([GUARD, PAIR[1]], Unit("new", target=GUARD))
        game.play(PAIR[1])

    play(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(3)
        ((guard, left, wait), _), (([again, pair], new), _), ((alone,), _) = run.subject.kept
        assert guard is again is new.target is GUARD
        assert left is PAIR[0]
        assert pair is alone is PAIR[1]
        assert wait == ORDERS["wait"]
        assert run.verify().ok


def test_new_objects_are_made_again_with_their_parts(tmp_path: Path) -> None:
    """Without their code; one that occurs twice is one; parts of the object in them are its own."""

    def calls(game: Any) -> None:
        new = Unit("new", target=game.units[2])
        new_too = Unit("too", target=new)
        new.target = new_too
        game.play(Order(Kind.HORSE, (new, game.units[1]), Place(3, 4)), new, Slotted(5, [new_too]))
        game.play(game.kept[0][0][1])

    play(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(2)
        (order, new, slotted), _ = run.subject.kept[0]
        assert (type(order), order.kind, order.place, type(order.place)) == (Order, Kind.HORSE, (3, 4), Place)
        assert order.units[0] is new
        assert order.units[1] is run.subject.units[1]
        assert new.target.target is new
        assert slotted.inner[0] is new.target
        assert not hasattr(slotted, "unset")
        assert run.subject.kept[1][0][0] is new
        assert run.verify().ok


class Watched(Game):
    """Knows when an object ends: its capture keeps none alive."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = weakref.ref(self.units[0])


# --- any calls and assignments

INDEX = st.integers(0, 5)
ACTIONS = st.one_of(
    st.tuples(st.just("attack"), INDEX, INDEX),
    st.tuples(st.just("spawn"), INDEX, st.sampled_from(Kind)),
    st.tuples(st.just("order"), INDEX, st.sampled_from(Move)),
    st.tuples(st.just("list"), INDEX, INDEX),
    st.tuples(st.just("lead"), INDEX, st.just(0)),
    st.tuples(st.just("crown"), INDEX, st.just(0)),
    st.tuples(st.just("again"), INDEX, st.just(0)),
    st.tuples(st.just("name"), INDEX, st.sampled_from(Kind)),
    st.tuples(st.just("turn"), INDEX, st.just(0)),
)


def act(game: Any, action: tuple[str, int, Any]) -> None:
    """One action, the same for a game that is recorded and one that is not."""
    what, index, more = action
    match what:
        case "attack":
            game.play(game.units[index], by=game.units[more])
        case "spawn":
            game.play(Unit("new", more, float(index), game.units[index]))
        case "order":
            game.play(more, Order(Kind.FOOT, (game.units[index],)))
        case "list":
            game.play([game.units[index], game.teams, game.units[more]], {Kind.FOOT: game.leader})
        case "lead":
            game.leader = game.units[index]
        case "crown":
            game.leader = Unit("king", hp=float(index))
        case "again":
            game.play(game.kept[index % len(game.kept)][0] if game.kept else None)
        case "turn":
            game.units = [*game.units[index:], *game.units[:index]]
            game.teams = {"red": game.units[1:3], "green": game.units}
        case _:
            game.leader = more


def form(game: Any) -> Any:
    """The values of a game and which of its objects are one, as plain data; equal tuples may be one or two."""
    numbers: dict[int, int] = {}

    def walk(value: Any) -> Any:
        if isinstance(value, enum.Enum) or value is None or isinstance(value, int | float | str):
            return (type(value).__name__, str(value))
        if isinstance(value, tuple):
            return ("tuple", [walk(one) for one in value])
        if id(value) in numbers:
            return ("seen", numbers[id(value)])
        numbers[id(value)] = len(numbers)
        if isinstance(value, list):
            return ("list", [walk(one) for one in value])
        if isinstance(value, dict):
            return ("dict", [(walk(key), walk(one)) for key, one in value.items()])
        names = getattr(value, "__dict__", None) or {}
        return (type(value).__name__, [(name, walk(names[name])) for name in sorted(names)])

    return walk([game.units, game.teams, game.camp.inner, game.leader, game.kept])


@pytest.mark.parametrize("world", [Game, Watched])
@settings(max_examples=15, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=12), seek=st.lists(st.integers(0, 12), max_size=3))
def test_any_calls_and_assignments_lead_to_the_same_objects(
    world: type[Game], actions: list[tuple[str, int, Any]], seek: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Compared with the same calls of an object that is not recorded, after ticks; none is taken for a desync.

    Where an assignment cannot be an input, and a warning says so, nothing is compared.
    """
    path = tmp_path_factory.mktemp("any") / "run.tape"
    plain, forms = world(), [form(world())]

    def calls(game: Any) -> None:
        for action in actions:
            act(game, action)
            act(plain, action)
            if action[0] not in ("lead", "crown", "name", "turn"):
                forms.append(form(plain))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(path, calls, world)
    if any(one.category is CapturedWarning for one in caught):
        return
    with replayer.open(path, world=world) as run:
        assert run.verify().ok
        for tick in [*(tick for tick in seek if tick < len(forms)), len(forms) - 1]:
            run.seek(tick)
            assert form(run.subject) == forms[tick]


# --- what is refused


class Elsewhere:
    """A class that is made in a function below."""


def refused() -> Iterator[tuple[str, Callable[[Any], Any], str]]:
    """Arguments that cannot be recorded, and what the message says."""

    class Local:
        """Cannot be found by its name."""

    yield "a lambda", lambda _: lambda: 1, r"argument \[0\] is function: .*define it at the top level"
    yield "a local class", lambda _: Local(), r"argument \[0\] is Local: .*define it at the top level"
    yield "an iterator", lambda _: iter([1]), r"argument \[0\] is list_iterator: expected numbers, texts"
    yield "in a set", lambda game: next(iter(game.guards)), "never"
    yield "nested", lambda _: [Unit("x", target=Local())], r"argument \[0\]\[0\]\.target is Local"  # type: ignore[arg-type]
    yield "a file", lambda _: open(__file__), r"argument \[0\] is TextIOWrapper"  # noqa: SIM115, PTH123


@pytest.mark.parametrize(("name", "make", "message"), list(refused()), ids=[one[0] for one in refused()])
def test_what_cannot_be_recorded_is_refused_before_the_call(
    name: str, make: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    """By the place of the argument, with what to do; nothing has happened, and the recording goes on."""
    with recorder.record(Game(), tmp_path / "run.tape", step="play", quiet=True, trial_ms=0) as game:
        game.play(1)
        value = make(game.subject)
        if message == "never":
            game.units.clear()  # Now only the set has it.
            game.teams.clear()
            game.leader = None
            game.play(2)
            message = "no attributes, items and keys of the recorded object lead to it"
        with pytest.raises(TypeError, match=message):
            game.play(value)
        before = len(game.kept)
        game.play(3)
        assert len(game.kept) == before + 1
        if name == "a file":
            value.close()
    with Tape(tmp_path / "run.tape") as tape:
        assert tape.last_tick == before + 1


class Knight(Unit):
    """A kind of unit."""


def test_what_is_left_out_of_a_class_is_left_out_of_its_subclasses(tmp_path: Path) -> None:
    """As in what the object holds: a view cannot be saved, and no step reads it."""
    left_out = {"ignore": ["Unit.view"]}
    with recorder.record(Game(), tmp_path / "run.tape", step="play", quiet=True, trial_ms=0, **left_out) as game:
        knight = Knight("k")
        vars(knight)["view"] = lambda: 1
        game.play(knight)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        assert run.verify().ok
        run.seek(1)
        assert vars(run.subject.kept[0][0][0]).keys() == {"name", "kind", "hp", "target"}


def test_what_record_returned_stands_for_the_object(tmp_path: Path) -> None:
    """As an argument it is the object itself, live and in a replay; inside of others it is refused with what to pass."""

    def calls(game: Any) -> None:
        game.play(game, key=game)
        assert all(one is game.subject for one in (*game.kept[0][0], *game.kept[0][1].values()))
        with pytest.raises(
            TypeError, match=r"argument \[0\]\[0\] is RecordedGame: record\(\) returned it .*its \.subject$"
        ):
            game.play([game])
        game.play([game.subject])

    play(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(2)
        ((one,), named), ((again,), _) = run.subject.kept
        assert one is named["key"] is again[0] is run.subject
        assert run.verify().ok


def test_what_was_assigned_can_be_passed(tmp_path: Path) -> None:
    """A new object, a part of the object, and what such an assignment holds: a replay assigns before it calls."""

    def calls(game: Any) -> None:
        game.leader = Unit("king", target=game.units[4])
        game.play(game.leader, game.leader.target)
        game.camp = [game.units[1], Unit("page", target=game.leader)]
        game.play(game.camp, game.camp[1])
        game.leader = game.units[2]
        game.play([game.leader])
        game.units = [one for one in game.units[::-1] if one is not game.leader]
        game.teams, game.leader = {}, game.units[0]
        game.play(game.units[1], game.leader)

    play(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(4)
        game = run.subject
        assert [unit.name for unit in game.units] == ["u5", "u4", "u3", "u1", "u0"]
        assert game.kept[3][0] == (game.units[1], game.leader)
        assert game.leader is game.units[0]
        run.seek(3)
        game = run.subject
        (king, target), (camp, page), ((leader,),) = (arguments for arguments, _ in game.kept)
        assert (king.name, page.name) == ("king", "page")
        assert target is king.target is game.units[4]
        assert camp is game.camp
        assert page is camp[1]
        assert page.target is king
        assert leader is game.leader is game.units[2]
        assert run.verify().ok


def test_an_object_that_was_moved_from_outside_is_told_of(tmp_path: Path) -> None:
    """Only a set led to it in the state of the step before: a replay could not find it."""

    def calls(game: Any) -> None:
        game.units.pop(0)
        game.teams.clear()
        game.leader = None
        game.play(0)
        game.camp = next(iter(game.guards))
        game.play(1, game.camp)

    with pytest.warns(CapturedWarning, match=r"^Game\.camp was assigned from outside, a Unit"):
        play(tmp_path / "run.tape", calls)
    with Tape(tmp_path / "run.tape") as tape:
        assert [2, "Game.camp"] in tape.outcome["between_steps"]["changes"]
