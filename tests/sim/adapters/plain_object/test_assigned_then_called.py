"""Calls after assignments from outside: with what the assignment replaced, and without a search through the whole object."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from replayer import Tape
from sim.adapters import adapt, fields
from sim.adapters.capture.arguments import places
from sim.adapters.plain_object.adapter import PlainObjectSimulation


class Unit:
    """A unit with a list of its own."""

    def __init__(self, name: str) -> None:
        self.name, self.items = name, [name]


class Game:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.units = [Unit(f"u{number}") for number in range(300)]
        self.bags: Any = {"a": [1, 2], "b": [3]}
        self.table = [[number, number] for number in range(300)]
        self.pace: Any = [1.0]
        self.leader: Any = None
        self.kept: list[Any] = []

    def play(self, *values: Any) -> None:
        """Keep the arguments."""
        self.kept.append(values)


def play(path: Path, calls: Callable[[Any], object]) -> None:
    with recorder.record(Game(), path, step="play", quiet=True, trial_ms=0) as game:
        calls(game)


def test_what_an_assignment_replaced_can_be_passed(tmp_path: Path) -> None:
    """A list that was an attribute, what it held, and a part of a dict: none of them is in the object any more."""

    def calls(game: Any) -> None:
        unit, items = game.units[3], game.units[4].items
        game.units = game.units[:2]
        game.play(unit, items, game.units[1])
        bag, game.bags = game.bags["b"], {}
        game.play(bag, unit)
        game.leader, game.kept = unit, []
        game.play(game.leader, bag)

    play(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        assert run.verify().ok
        run.seek(2)
        (unit, items, second), (bag, again) = run.subject.kept
        assert (unit.name, items, second is run.subject.units[1], bag) == ("u3", ["u4"], True, [3])
        assert again is unit
        run.seek(3)
        assert run.subject.kept[0][0] is run.subject.leader
        assert (run.subject.leader.name, run.subject.kept[0][1]) == ("u3", [3])


def test_a_call_is_read_as_after_the_assignments_before_it(tmp_path: Path) -> None:
    """By an extraction of actions, which makes no assignment: the argument is not what the attribute was before."""

    def calls(game: Any) -> None:
        old, game.leader = game.units[0], Unit("new")
        game.units = [game.units[1]]
        game.play(game.leader, old, game.units[0])

    play(tmp_path / "run.tape", calls)
    with Tape(tmp_path / "run.tape") as tape:
        inputs = tape.frame(1).inputs
    simulation = adapt(Game(), fields(step="play"))
    assert isinstance(simulation, PlainObjectSimulation)
    method, call = simulation.decoded(inputs)
    assert (method.name, [one.name for one in call.arguments]) == ("play", ["new", "u0", "u1"])
    assert simulation.subject.leader is None


@pytest.mark.parametrize(
    "value",
    [lambda _: 1, lambda _: [1], lambda _: Unit("new"), lambda game: game.table[-1]],
    ids=["int", "list", "new", "table"],
)
def test_no_call_after_an_assignment_searches_the_whole_object(
    value: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the object held before is known: nothing new is in it. Counted are the objects whose parts are looked at."""
    looked: list[int] = []
    parts = places._parts
    monkeypatch.setattr(places, "_parts", lambda owner: looked.append(1) or parts(owner))
    watched = types.SimpleNamespace(
        get_referents=lambda *many: looked.extend([1] * len(many)) or gc.get_referents(*many)
    )
    monkeypatch.setattr(places, "gc", watched)

    def calls(game: Any) -> None:
        game.play(0)
        for number in range(3):
            looked.clear()
            game.pace = [float(number)]
            game.play(value(game.subject))
            assert len(looked) < 50

    play(tmp_path / "run.tape", calls)
    monkeypatch.undo()
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        assert run.verify().ok
