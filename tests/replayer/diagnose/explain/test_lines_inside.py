"""The line inside of calls that reads what differs; what load() forgets of an object that save() asks; default arguments."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder import Recorder
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.explain import explain_tape
from replayer.timeline.verify import verify_tape

MODULE = """
import itertools
import json
import numpy as np


class Cart:
    def __init__(self, number):
        self.number, self.place, self.mud = number, 0, 0

    def speed(self):
        return 1 if self.mud > 4 else 3

    def roll(self, wind):
        self.mud += self.number
        self.place += self.speed() + wind


class Carts:
    def __init__(self):
        self.carts, self.hours = [Cart(0), Cart(1), Cart(2)], 0

    def step(self, inputs):
        self.hours += 1
        for cart in self.carts:
            cart.roll(self.hours % 2)

    def save(self):
        return json.dumps([self.hours, [cart.place for cart in self.carts]]).encode()

    def load(self, saved):
        self.hours, places = json.loads(saved)
        for cart, place in zip(self.carts, places):
            cart.place = place


class Combo:
    def __init__(self):
        self.length, self.fever = 0, 0

    def factor(self):
        self.fever += 1
        return 3 if self.fever > 5 else 1


class Arcade:
    def __init__(self):
        self.combo, self.points = Combo(), 0

    def step(self, inputs):
        self.points += self.combo.factor()

    def save(self):
        return {"combo": np.array([self.combo.length, self.combo.fever]), "points": np.int64(self.points)}

    def load(self, saved):
        combo = Combo()
        combo.length = int(saved["combo"][0])
        self.combo, self.points = combo, int(saved["points"])


class Route:
    def __init__(self, delay):
        self.delay = delay


class Car:
    def __init__(self, route):
        self.route, self.at = route, 0


class Cars:
    def __init__(self):
        route = Route(1)
        self.cars = [Car(route), Car(route)]

    def step(self, inputs):
        for car in self.cars:
            car.at += car.route.delay
        self.cars[1].route.delay += 1

    def save(self):
        return json.dumps([[car.route.delay, car.at] for car in self.cars]).encode()

    def load(self, saved):
        self.cars = []
        for delay, at in json.loads(saved):
            car = Car(Route(delay))
            car.at = at
            self.cars.append(car)


class Book:
    def __init__(self, owner, entries=[]):
        self.owner, self.entries = owner, entries


class Library:
    def __init__(self):
        self.book, self.day, self.read = Book("first"), 0, 0

    def step(self, inputs):
        self.day += 1
        self.book.entries.append(self.day)
        if self.day == 6:
            self.book = Book("second")
        self.read += len(self.book.entries)

    def save(self):
        return json.dumps([self.day, self.read, self.book.owner, self.book.entries]).encode()

    def load(self, saved):
        self.day, self.read, owner, entries = json.loads(saved)
        self.book = Book(owner, list(entries))


class Oven:
    def __init__(self):
        self.grid = np.full((3, 2), 9.0).T

    def step(self, inputs):
        self.grid += 1
        cells = self.grid.reshape(-1)
        cells[cells > 5] = 5

    def save(self):
        return {"grid": np.array(self.grid, order="C")}

    def load(self, saved):
        self.grid = np.array(saved["grid"], order="C")


class Crew:
    def __init__(self):
        self.tired, self.fires = 0, 0

    def rest(self):
        self.tired = max(0, self.tired - 1)

    def fight(self):
        self.fires += 1
        self.tired += 2


class Watch:
    def __init__(self):
        self.crews = [Crew(), Crew(), Crew()]
        self.order = itertools.cycle(self.crews)

    def called(self):
        return next(self.order)

    def step(self, inputs):
        for crew in self.crews:
            crew.rest()
        crew = self.called()
        crew.fight()

    def save(self):
        return {"crews": np.array([[crew.tired, crew.fires] for crew in self.crews])}

    def load(self, saved):
        for crew, (tired, fires) in zip(self.crews, saved["crews"]):
            crew.tired, crew.fires = int(tired), int(fires)
        self.order = itertools.cycle(self.crews)


class Blade:
    def __init__(self):
        self.edge = 1

    def cut(self, hard):
        return self.edge * hard


def worth(blade, number):
    return blade.cut(2) if number else sum(vars(blade).values())


class Shop:
    def __init__(self):
        self.gold, self.blades = 0, [Blade(), Blade()]

    def step(self, inputs):
        total = 0
        for number, blade in enumerate(self.blades):
            total += worth(blade, number)
        self.gold += total
        for blade in self.blades:
            blade.edge += 1

    def save(self):
        return {"gold": np.array(self.gold)}

    def load(self, saved):
        self.gold = int(saved["gold"])


class Boat:
    def __init__(self, place):
        self.place = place

    def drift(self, current):
        gap = current - self.place
        slow = gap / 7
        self.place = self.place + slow
        return gap < 1


class Harbour:
    def __init__(self):
        self.boats, self.near = [Boat(0.5), Boat(2.25)], 0

    def step(self, inputs):
        for boat in self.boats:
            if boat.drift(9.0):
                self.near += 1

    def save(self):
        return json.dumps([self.near, [int(boat.place) for boat in self.boats]]).encode()

    def load(self, saved):
        self.near, places = json.loads(saved)
        self.boats = [Boat(place) for place in places]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the module, which this process and others import."""
    (tmp_path / "inner_lines.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("inner_lines", None)


def explained(name: str, tick: int) -> tuple[Explanation, Cause]:
    """Record 12 ticks with a keyframe every five, and explain one of them."""
    factory = getattr(importlib.import_module("inner_lines"), name)
    with Recorder("run.tape", factory(), keyframe_interval_ticks=5, trial_ms=0) as tape:
        for _ in range(12):
            tape.step()
    importlib.reload(sys.modules["inner_lines"])  # As in a process that has not run it.
    factory = getattr(sys.modules["inner_lines"], name)
    explanation = explain_tape("run.tape", tick=tick, sim=f"inner_lines:{name}", factory=factory)
    assert explanation.cause is not None
    return explanation, explanation.cause


def test_the_line_of_a_method_that_reads_what_differs_is_named_and_not_the_loop_that_calls_it() -> None:
    """At tick 6 only the mud of the last cart makes a difference; that of the other one differs, without an effect."""
    _, cause = explained("Carts", 6)
    assert (cause.kind, cause.place.text) == ("outside", "return 1 if self.mud > 4 else 3")
    assert [one.name for one in cause.outside] == ["self.mud"]


def test_what_save_asks_of_another_object_and_load_forgets_is_no_hidden_state() -> None:
    """save() returns the fever, as was tried: it is in the keyframe, and verify says so, too."""
    explanation, cause = explained("Arcade", 6)
    assert (cause.kind, cause.place.text) == ("load", "combo = Combo()")
    assert cause.read_at is not None
    assert [one.held_in for one in explanation.not_given_back] == [["Arcade.combo.fever"]]
    (finding,) = verify_tape("run.tape", sys.modules["inner_lines"].Arcade).findings
    tested = {one.cause: one.found for one in finding.tested if one.suspicious}
    assert list(tested) == ["a restore that does not bring back all"]
    assert "load() does not give back combo" in tested["a restore that does not bring back all"]


def test_the_line_of_load_that_makes_a_second_object_is_named_and_not_the_one_that_appends_it() -> None:
    """The object is first in a variable of load()."""
    _, cause = explained("Cars", 1)
    assert (cause.kind, cause.place.text) == ("split", "car = Car(Route(delay))")


def test_a_default_argument_that_a_constructor_got_is_hidden_state() -> None:
    """The list belongs to the function; a call by the name of the class passes none."""
    _, cause = explained("Library", 6)
    assert (cause.kind, cause.place.text) == ("outside", "self.owner, self.entries = owner, entries")
    assert [one.name for one in cause.outside] == ["entries, which the caller did not pass"]


def test_the_order_in_memory_of_an_array_is_named_if_it_alone_makes_the_difference() -> None:
    """reshape() copies an array that lies by columns, and what load() made lies by rows."""
    explanation, _ = explained("Oven", 1)
    (setting,) = explanation.settings
    assert setting.proved
    assert str(setting) == "the order in memory of arrays: A Oven.grid by columns, B Oven.grid by rows"
    assert setting.sentence == "the order in memory of arrays differs before the step, which the state does not hold"


def test_the_line_that_chooses_another_object_is_named_and_not_the_method_of_that() -> None:
    """Both crews ran a method in each of the two runs before; the iterator stands elsewhere."""
    _, cause = explained("Watch", 6)
    assert (cause.kind, cause.place.text) == ("outside", "return next(self.order)")
    assert [one.name for one in cause.outside] == ["self.order"]


def test_a_line_that_a_later_turn_of_the_loop_calls_is_not_where_the_two_begin_to_differ() -> None:
    """In the first turn a built-in function reads what differs; the method that names it runs in the second one."""
    _, cause = explained("Shop", 6)
    assert (cause.kind, cause.place.text) == ("outside", "total += worth(blade, number)")


def test_the_first_lines_of_the_path_tell_what_they_change_and_not_what_they_read() -> None:
    """A line that only reads what differs gives something else another value; the one that writes it stands after it."""
    _, cause = explained("Harbour", 6)
    assert [(changed, place.text) for place, changed in cause.way][:2] == [
        ("gap", "gap = current - self.place"),
        ("self.place", "self.place = self.place + slow"),
    ]
