"""A captured state is taken from its objects again: it finds exactly what was changed, and repairs it."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.adapters import adapt, fields
from sim.adapters.capture.recapture import ProvedSimulation
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.exactness import Level


class Weather(enum.Enum):
    SUN = 1
    RAIN = 2


class Foe:
    def __init__(self) -> None:
        self.hp = 3


class Game:
    def __init__(self) -> None:
        self.hp = 10
        self.speed = 1.5
        self.goal: Any = None
        self.grid = np.zeros((2, 3))
        self.names = np.array(["a", "b"])
        self.numbers = np.random.default_rng(1)
        self.random = random.Random(1)
        self.path: list[Any] = [1, [2]]
        self.weather = Weather.SUN
        self.foe = Foe()

    def step(self, inputs: Any) -> None:
        self.hp += inputs or 0


def rewrite_grid(game: Game) -> None:
    game.grid[1, 2] = -0.0


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a number": (lambda game: setattr(game, "hp", 11), "Game.hp"),
    "a number's type": (lambda game: setattr(game, "hp", True), "Game.hp"),
    "the sign of zero": (lambda game: setattr(game, "speed", -0.0), "Game.speed"),
    "none becomes a number": (lambda game: setattr(game, "goal", 4), "Game.goal"),
    "none becomes a text": (lambda game: setattr(game, "goal", "x"), "Game.goal"),
    "an element of an array": (rewrite_grid, "Game.grid"),
    "the shape of an array": (lambda game: setattr(game, "grid", np.zeros(5)), "Game.grid"),
    "a text in an array": (lambda game: game.names.__setitem__(0, "z"), "Game.names"),
    "draws of a generator": (lambda game: game.numbers.random(), "Game.numbers"),
    "draws of the other generator": (lambda game: game.random.random(), "Game.random"),
    "inside a list": (lambda game: game.path[1].append(3), "Game.path[1]"),
    "the dict itself": (lambda game: setattr(game, "__dict__", {**vars(game), "path": [9]}), "Game.path"),
    "a member": (lambda game: setattr(game, "weather", Weather.RAIN), "Game.weather"),
    "inside an object": (lambda game: setattr(game.foe, "hp", 2), "Game.foe.hp"),
    "another object": (lambda game: setattr(game, "foe", Foe()), "Game.foe"),
    "a new attribute": (lambda game: setattr(game, "extra", 1), "Game.extra"),
    "an attribute less": (lambda game: delattr(game, "speed"), "Game.speed"),
}


def restored(simulation: Any) -> Any:
    """A fresh object with the state of simulation."""
    fresh = adapt(Game(), fields())
    fresh.state.restore(simulation.state.snapshot())
    fresh.after_restore()
    return fresh


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_no_step_made_is_found_by_its_path_and_repaired(name: str) -> None:
    """The object is changed behind the state's back. Afterwards the state restores exactly that object."""
    change, path = CHANGES[name]
    simulation = adapt(Game(), fields())
    for _ in range(3):
        simulation.step(1)
    assert simulation.recapture() == []
    change(simulation.subject)

    assert simulation.recapture() == [path]
    assert simulation.recapture() == []
    fresh = restored(simulation)
    assert fresh.value_digest() == simulation.value_digest()
    assert fresh.value_difference(simulation) is None
    simulation.step(1)
    fresh.step(1)
    assert fresh.state.arena.tobytes() == simulation.state.arena.tobytes(), "the run goes the same way"


def test_what_has_not_changed_is_not_written() -> None:
    simulation = adapt(Game(), fields())
    simulation.step(1)
    state, before = simulation.state, simulation.state.arena.tobytes()

    assert simulation.recapture() == []
    assert simulation.state is state
    assert state.arena.tobytes() == before


def test_a_view_that_someone_else_takes_of_an_array_is_no_fault() -> None:
    """Its memory is then shared with something outside; the array fits into its field as before."""
    game = Game()
    game.grid = np.arange(6.0).reshape(2, 3)
    simulation = adapt(game, fields())
    simulation.step(1)
    held = simulation.subject.grid.base

    assert held is not None
    assert simulation.recapture() == []


def test_a_value_that_cannot_be_saved_is_refused_by_its_path() -> None:
    simulation = adapt(Game(), fields())
    simulation.subject.path.append(lambda: None)
    with pytest.raises(NotCapturedError, match=r"Game\.path"):
        simulation.recapture()


def test_a_simulation_of_inputs_alone_is_not_captured_again() -> None:
    """Its state does not hold the values; it has a digest of them all the same."""

    class Repeating(ProvedSimulation):
        level = Level.INPUTS_ONLY

    simulation = Repeating()
    assert (simulation.recapture, simulation.keyframe_deferred) == (None, None)
    assert callable(simulation.value_digest)
