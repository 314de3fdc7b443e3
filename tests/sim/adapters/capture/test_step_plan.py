"""Attributes after a step: whatever is another object is seen, and written as a new capture would."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.adapters import adapt, fields
from sim.adapters.capture.plan.step_plan import StepPlan
from sim.adapters.capture.survey import Surveyor

ODD_NAMES = ("it's", 'a "b"\n', "ß\u2028", "{0}", "x] is 1 or d[", "class", "")


class Inner:
    """An object with attributes of its own."""

    def __init__(self) -> None:
        self.size = 2
        self.label = "a"


class Other(Inner):
    """Another class of such objects."""


class Game:
    """An object of each kind of attribute."""

    def __init__(self) -> None:
        self.count, self.speed, self.flag, self.target = 1, 0.5, False, None
        self.name, self.pair = "one", (1, 2)
        self.inner = Inner()
        self.places = np.zeros(3)
        self.last = "z"
        for name in ODD_NAMES:
            vars(self)[name] = 1

    def step(self) -> None:
        """The tests make the changes."""


def rename(game: Any) -> None:
    """One attribute goes and another one comes, with the same value, in the same place."""
    game.final = game.last
    del game.last


def replace_dict(game: Any) -> None:
    """The attributes are kept in another dict, equal to the one before."""
    game.inner.__dict__ = dict(vars(game.inner))
    game.inner.size = 3


def set_all(**values: Any) -> Callable[[Any], None]:
    """A change of attributes."""
    return lambda game: vars(game).update(values)


CHANGES: dict[str, Callable[[Any], None]] = {
    "nothing": lambda _: None,
    "a number": set_all(count=2),
    "a truth value for a number": set_all(count=True),
    "a float for an int": set_all(count=1.0),
    "minus zero": set_all(speed=-0.0),
    "nan": set_all(speed=float("nan")),
    "NumPy's truth value": set_all(flag=np.False_),
    "a number of NumPy": set_all(speed=np.float32(0.5)),
    "too large a number": set_all(count=1 << 70),
    "none for a number": set_all(count=None),
    "a number for none": set_all(target=4),
    "another text": set_all(name="two"),
    "an equal text": set_all(name="xone"[1:]),
    "an equal tuple": set_all(pair=tuple([1, 2])),  # noqa: C409 - another object, which a constant is not
    "an equal tuple of other types": set_all(pair=(True, 2.0)),
    "a list for a tuple": set_all(pair=[1, 2]),
    "another array": set_all(places=np.ones(3)),
    "another shape": set_all(places=np.ones(4)),
    "another object": set_all(inner=Inner()),
    "another class of object": lambda game: setattr(game.inner, "__class__", Other),
    "another dict": replace_dict,
    "another name": rename,
    "a new attribute": set_all(new=1),
    "no attribute": lambda game: vars(game).pop("last"),
    "numbers of odd names": set_all(**dict.fromkeys(ODD_NAMES, 7)),
    "texts of odd names": set_all(**dict.fromkeys(ODD_NAMES, "7")),
}


@pytest.mark.parametrize("changes", [(name,) for name in CHANGES] + [tuple(CHANGES), tuple(reversed(CHANGES))])
def test_no_change_is_missed(changes: tuple[str, ...]) -> None:
    """After each step a capture of everything finds what is already there, and a restore gives the present values."""
    simulation = adapt(Game(), fields())
    simulation.step(None)
    for name in changes:
        simulation.subject.last = "z"
        simulation.step(None)
        CHANGES[name](simulation.subject)
        for _ in range(2):
            simulation.step(None)
            assert simulation.recapture() == [], name
        wanted = simulation.value_digest()
        fresh = adapt(Game(), fields())
        fresh.state.restore(simulation.state.snapshot())
        fresh.after_restore()
        assert fresh.value_digest() == wanted, name


def test_numbers_and_values_that_change_cost_no_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also right after a restore, where it is not known yet which attributes change."""
    simulation = adapt(Game(), fields())
    simulation.step(None)
    simulation.state.restore(simulation.state.snapshot())
    simulation.after_restore()
    surveys: list[int] = []
    monkeypatch.setattr(Surveyor, "survey", lambda *_: surveys.append(1))
    for number in range(5):
        vars(simulation.subject).update(count=number, speed=number / 8, name=f"number {number}", pair=(number, 2))
        simulation.step(None)
        assert int(simulation.state["Game.count"]) == number
    assert not surveys


def test_attributes_that_begin_and_cease_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is seen at each step, while it is learned which of them move; few plans are made for it."""
    simulation = adapt(Game(), fields())
    plans: list[int] = []
    init = StepPlan.__init__
    monkeypatch.setattr(StepPlan, "__init__", lambda *given: (plans.append(1), init(*given))[1])
    chance = random.Random(3)
    values: dict[str, Any] = {"count": 0, "speed": 0.0, "flag": True, "it's": 1, "name": "a", "last": "b"}
    for number in range(600):
        for name, often in zip(values, chance.choices((0, 0.02, 0.5, 1), k=len(values)), strict=True):
            if chance.random() < often * (number // 100 % 2):
                values[name] = f"{name} {number}" if type(values[name]) is str else type(values[name])(number)
        vars(simulation.subject).update(values)
        simulation.subject.inner.size = number // 40
        simulation.step(None)
        assert simulation.state["Game.count"] == values["count"]
        assert simulation.state["Game.speed"] == values["speed"]
        assert simulation.state["Game.flag"] == values["flag"]
        assert simulation.state["Game.inner.size"] == number // 40
        if number % 10 == 0:
            assert simulation.recapture() == []
    assert len(plans) < 40, "some plans for what is learned, and one for each look at all"


def test_the_objects_before_are_let_go() -> None:
    """A plan that is used no more keeps no values alive, without a search for garbage."""
    gc.disable()
    try:
        simulation = adapt(Game(), fields())
        first = simulation.subject.places = np.ones(3)
        simulation.step(None)
        for number in range(100):
            simulation.subject.count = number  # Another plan is made.
            simulation.step(None)
        simulation.subject.places = np.zeros(3)
        simulation.step(None)
        gone = weakref.ref(first)
        del first
        assert gone() is None
    finally:
        gc.enable()
