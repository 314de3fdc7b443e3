"""What two objects share is changed by the name of one and read by that of the other: no hidden state; and who draws is named."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

BELTS = """
import json
import random

import numpy as np


class Station:
    def __init__(self, inbox, outbox):
        self.inbox, self.outbox, self.done = inbox, outbox, 0

    def work(self):
        while self.inbox:
            self.outbox.append(self.inbox.pop(0) + 1)
            self.done += 1

    def restore(self, saved):
        self.done = saved[2]
        self.inbox = list(saved[0])
        self.outbox = list(saved[1])


class Factory:
    def __init__(self):
        belts = [[1], [], []]
        self.belts = belts
        self.stations = [Station(*belts[:2]), Station(*belts[1:])]

    def step(self, inputs):
        for station in self.stations:
            station.work()
        self.stations[0].inbox.append(inputs)

    def save(self):
        return json.dumps([[one.inbox, one.outbox, one.done] for one in self.stations]).encode()

    def load(self, saved):
        for station, one in zip(self.stations, json.loads(saved)):
            station.restore(one)


class Archer:
    def shoot(self, chance):
        return chance.gauss(0, 9)  # Draws


class Meeting:
    def __init__(self):
        self.random, self.archer, self.score = random.Random(4), Archer(), 0.0

    def step(self, inputs):
        self.score += self.archer.shoot(self.random)

    def save(self):
        return json.dumps([self.score, self.random.getstate()[:2]]).encode()

    def load(self, saved):
        self.score, (version, words) = json.loads(saved)
        self.random.setstate((version, tuple(words), None))


class Darts:
    def __init__(self):
        self.random, self.sum = random.Random(4), 0.0

    def throw(self):
        across = self.random.gauss(0, 9)  # Throws
        up = self.random.uniform(-1, 1)
        return across * across + up * up

    def step(self, inputs):
        self.sum += sum(self.throw() for _ in range(3))

    def save(self):
        version, words, _ = self.random.getstate()
        return json.dumps([self.sum, version, words]).encode()

    def load(self, saved):
        self.sum, version, words = json.loads(saved)
        self.random.setstate((version, tuple(words), None))


def moons(phase=12):
    night = 0
    while True:
        night += 1
        height = night * night % 17
        yield phase + height  # Rises


NIGHTS = moons()


class Beach:
    def __init__(self):
        self.water = 0

    def step(self, inputs):
        phase = next(NIGHTS)  # Reads a moon
        self.water += phase

    def save(self):
        return json.dumps(self.water).encode()

    def load(self, saved):
        self.water = json.loads(saved)


class Ticket:
    printed = 0

    @classmethod
    def stamped(cls):
        cls.printed += 1
        return cls.printed  # Stamps


class Kitchen:
    def __init__(self):
        self.numbers = []

    def step(self, inputs):
        self.numbers.append(Ticket.stamped())

    def save(self):
        return json.dumps(self.numbers).encode()

    def load(self, saved):
        self.numbers = json.loads(saved)


class Reef:
    def __init__(self):
        self.now, self.next = np.arange(6.0), np.zeros(6)

    def step(self, inputs):
        for place in range(1, 6):
            self.next[place] = self.now[place] + self.now[place - 1]
        self.now, self.next = self.next, self.now

    def save(self):
        return {"now": self.now.copy()}

    def load(self, saved):
        self.now = saved["now"].copy()
        self.next = self.now  # Joins
"""


@pytest.fixture
def explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Records a class and explains a tick of it; returns the JSON."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("shared_belts.py").write_text(BELTS)
    monkeypatch.delitem(sys.modules, "shared_belts", raising=False)
    module = importlib.import_module("shared_belts")

    def explain(name: str, tick: int) -> dict[str, Any]:
        with recorder.Recorder("run.tape", getattr(module, name)(), keyframe_interval_ticks=3, trial_ms=0) as tape:
            for number in range(6):
                tape.step(number)
        assert run(replayer.commands.main.main, f"explain run.tape --tick {tick} --json --sim shared_belts:{name}") == 1
        facts: dict[str, Any] = json.loads(capsys.readouterr().out)
        return facts

    return explain


def line_of(comment: str) -> int:
    return next(number for number, text in enumerate(BELTS.splitlines(), 1) if text.endswith(f"# {comment}"))


@pytest.mark.seldom(0.3)
def test_a_list_of_two_objects_is_joined_by_the_name_that_load_set(explained: Any) -> None:
    """The first name of the list is one that no save() has: joined with that, the list would be empty."""
    cause = explained("Factory", 1)["cause"]
    assert cause["kind"] == "split"
    assert cause["function"] == "Factory.load"


@pytest.mark.seldom(0.3)
def test_the_line_that_draws_is_named_not_the_one_that_passes_the_generator(explained: Any) -> None:
    """With what differs of the generator."""
    cause = explained("Meeting", 4)["cause"]
    assert (cause["kind"], cause["line"]) == ("outside", line_of("Draws"))
    assert "second number of a pair from gauss()" in json.dumps(cause["outside"])


@pytest.mark.seldom(0.3)
def test_a_draw_that_does_not_read_what_differs_is_not_the_cause(explained: Any) -> None:
    """The second draw of the method was named: its numbers differ only since the first one took others."""
    cause = explained("Darts", 4)["cause"]
    assert (cause["kind"], cause["line"]) == ("outside", line_of("Throws"))


@pytest.mark.seldom(0.3)
def test_a_value_after_a_line_is_that_of_its_own_frame(explained: Any) -> None:
    """It was that of the argument of the same name in the generator, which only one of the two had read: 12 and absent."""
    cause = explained("Beach", 4)["cause"]
    assert (cause["line"], cause["value"] and cause["value"]["name"]) in [
        (line_of("Reads a moon"), None),
        (line_of("Rises"), "the result of moons"),
    ]
    # The line that resumes the generator has no value of it that was read again.
    value = cause["value"]
    assert value is None or (value["first"], value["second"]) == ("28", "13")
    assert "did not pass" not in json.dumps(cause["outside"]), "a variable of the generator is no argument"


@pytest.mark.seldom(0.3)
def test_a_count_of_a_class_is_read_by_a_method_of_the_class(explained: Any) -> None:
    """By the name cls."""
    cause = explained("Kitchen", 4)["cause"]
    assert cause["kind"] == "outside"
    assert cause["line"] in (line_of("Stamps") - 1, line_of("Stamps"))
    assert cause["outside"][0]["name"].endswith("Ticket.printed")


@pytest.mark.seldom(0.3)
def test_two_buffers_of_which_load_makes_one_are_two_again(explained: Any) -> None:
    """The line of load() is named."""
    cause = explained("Reef", 1)["cause"]
    assert (cause["kind"], cause["line"]) == ("joined", line_of("Joins"))
