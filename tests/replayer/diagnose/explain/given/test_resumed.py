"""A generator outside the state is resumed in B until it stands where that of A does: a proof that it makes the difference, or none."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.given.resumed import give_by_resuming
from replayer.diagnose.explain.values.given_values import GivenValues
from sim.adapters import adapt
from sim.kernel.simulation import Simulation, restore

from oracle.command_lines import run

pytestmark = pytest.mark.share(0.3)

MODULE = """
def weather():
    round = 0
    while True:
        for rain in (2, 2, 7):  # Which of the first two it is, no variable shows.
            yield rain + round
        round = (round + 1) % 5


SKY = weather()


class Field:
    def __init__(self):
        self.day, self.water = 0, 0

    def step(self, inputs):
        self.day += 1
        if self.day % 2:
            self.water = self.water // 2 + next(SKY)


def drained():
    wet = [0]
    while True:
        wet[0] += (yield wet[0]) or 0


DRAIN = drained()
next(DRAIN)


class Sent(Field):
    def step(self, inputs):
        self.day += 1
        self.water = DRAIN.send(self.day)


def leaking():
    count = 0
    while True:
        count += 1
        HERE[-1].water += 1
        yield count


HERE, LEAK = [], leaking()


class Leaky(Field):
    def __init__(self):
        super().__init__()
        HERE.append(self)

    def step(self, inputs):
        self.day += 1
        self.water = next(LEAK)


def spinning():
    yield from range(20)
    while True:
        pass


SPIN = spinning()


class Spinning(Field):
    def step(self, inputs):
        self.day += 1
        self.water = next(SPIN)
"""
NEXT = next(number for number, text in enumerate(MODULE.splitlines(), 1) if "+ next(SKY)" in text)


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wet_field.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("wet_field", None)


def test_a_generator_that_is_under_way_is_proved_to_decide(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it looks as that of A does at an earlier place, too, the step ends otherwise from there."""
    made = importlib.import_module("wet_field").Field()
    recorded = recorder.record(made, "run.tape", step="step", trial_ms=0, keyframe_interval_ticks=10)
    for _ in range(30):
        recorded.step(None)
    recorded.close()
    assert run(replayer.commands.main.main, "explain run.tape --json --sim wet_field:Field") == 1
    explained = json.loads(capsys.readouterr().out)
    (proved,) = explained["given"]["proved"]
    assert (explained["tick"], explained["cause"]["line"], explained["given"]["is_resumed"]) == (11, NEXT, True)
    assert proved["name"] == "module wet_field: SKY"
    assert proved["detail"] == "stands at line 6 in A, has not begun in B; resumed 5 times in B"


@pytest.mark.parametrize("name", ["Sent", "Leaky", "Spinning"])
def test_a_generator_that_gives_something_else_when_it_is_resumed_proves_nothing(name: str) -> None:
    """It was sent values, which no line of it shows; resuming it changes the state; or it computes for ever in the end."""

    def given() -> dict[str, Any]:
        make = getattr(importlib.import_module("wet_field"), name)

        def prepare(start: int | None) -> Simulation:
            simulation = adapt(make())
            before = simulation.state.snapshot()
            for _ in range(start or 0):
                simulation.step(None)
            restore(simulation, before)
            return simulation

        return give_by_resuming(make, prepare, [5, None], None, ["DRAIN", "LEAK", "SPIN"]).to_plain()

    assert GivenValues.from_plain(in_a_copy(given)) == GivenValues()
