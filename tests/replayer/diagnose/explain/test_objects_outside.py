"""What is outside the state, and leads to an object in it, or stands somewhere: bound methods, weak references, generators."""

from __future__ import annotations

import functools
import gc
import importlib
import json
import random
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder.conformance.contract_checks import simulation_from
from replayer.diagnose.explain.held.instance_objects import InstanceObjects
from replayer.diagnose.explain.texts.value_texts import text_of
from replayer.diagnose.explain.trace_step import trace_step
from replayer.diagnose.explain.value_hash import Digester
from sim.kernel.simulation import as_simulation

from oracle.command_lines import run

MODULE = """
import random
import sys
import weakref


class Tower:
    ears = {}

    @classmethod
    def ring(cls, strength):
        for ear in cls.ears.get("noon", ()):  # EARS
            ear(strength)


class Cat:
    def __init__(self):
        self.fright = 0
        Tower.ears.setdefault("noon", []).append(self.hear)

    def hear(self, strength):
        self.fright += strength


class Square:
    def __init__(self):
        self.cats = [Cat()]

    def step(self, inputs):
        Tower.ring(2)


def prices():
    price = 3
    while True:
        yield price
        price += 2
        yield price - 1


class Stall:
    offers = prices()

    def __init__(self):
        self.coins = 0

    def step(self, inputs):
        self.coins += next(Stall.offers)  # OFFERS


def wares(dice, rows):
    while True:
        dice.shuffle(rows[0])
        yield from rows[0]


class Hawker:
    wares = wares(random.Random(5), [[3, 1, 4, 15, 9, 2, 6]])

    def __init__(self):
        self.coins = next(Hawker.wares)

    def step(self, inputs):
        self.coins += next(Hawker.wares)  # WARES
class Shelter:
    kennels = [Cat(), Cat()]  # They stand in no state before one is taken.
    seen = []

    def __init__(self):
        self.cats = []

    def step(self, inputs):
        self.cats.append(Shelter.kennels[0])


class Noticed(Shelter):
    def step(self, inputs):
        cat = Cat()
        tools = getattr(sys, "monitoring", None)
        if sys.gettrace() is not None or any(tools.get_tool(number) for number in range(6) if tools):
            Shelter.seen.append(weakref.ref(cat))
        self.cats.append(cat)
"""


class _Home:
    def __init__(self, cat: Any) -> None:
        self.cat = cat

    def step(self, _: Any) -> None:
        """Nothing."""

    def save(self) -> bytes:
        return b""

    def load(self, _: bytes) -> None:
        """Nothing."""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("old_town.py").write_text(MODULE)


def _explained(capsys: pytest.CaptureFixture[str], name: str) -> dict[str, Any]:
    made = getattr(importlib.import_module("old_town"), name)()
    recorded = recorder.record(made, "run.tape", step="step", trial_ms=0, keyframe_interval_ticks=3)
    for _ in range(6):
        recorded.step(None)
    recorded.close()
    assert run(replayer.commands.main.main, f"explain run.tape --json --sim old_town:{name}") == 1
    explained: dict[str, Any] = json.loads(capsys.readouterr().out)
    return explained


def _line(mark: str) -> int:
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if f"# {mark}" in text)


def test_a_list_of_bound_methods_leads_to_another_object(capsys: pytest.CaptureFixture[str]) -> None:
    """The line that reads the list is named, with the objects; bound to the one of B, B gives the state of A."""
    explained = _explained(capsys, "Square")
    assert (explained["cause"]["kind"], explained["cause"]["line"]) == ("outside", _line("EARS"))
    assert "the method Cat.hear of a Cat outside the instance" in json.dumps(explained["cause"]["outside"])
    assert [one["kind"] for one in explained["given"]["proved"]] == ["alias"]


def test_the_line_that_resumes_a_generator_reads_hidden_state(capsys: pytest.CaptureFixture[str]) -> None:
    """And not the lines of the generator, whose variables are where it stands."""
    cause = _explained(capsys, "Stall")["cause"]
    assert (cause["kind"], cause["line"], cause["value"]["name"]) == ("outside", _line("OFFERS"), "self.coins")
    assert [one["name"] for one in cause["outside"]] == ["Stall.offers"]


def test_the_variables_of_a_generator_that_stands_at_one_line_in_both_are_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is what the line reads: it yields from a list of its own at the same line, in B from the beginning of the list."""
    explained = _explained(capsys, "Hawker")
    cause = explained["cause"]
    assert (cause["kind"], cause["line"]) == ("outside", _line("WARES"))
    (wares,) = cause["outside"]
    assert wares["name"] == "Hawker.wares"
    assert wares["first"] == wares["second"]
    parts = {part["path"]: (part["first"], part["second"]) for part in wares["parts"]}
    first, second = parts["Hawker.wares: yield from"]
    assert first.startswith("an iterator (list_iterator) that continues with")
    assert first != second
    (proved,) = explained["given"]["proved"]
    assert proved["detail"].endswith(" in both, with other variables; resumed 3 times in B")


def test_what_a_generator_continues_with_counts() -> None:
    """Random generators, containers of plain values and inner iterators; an object of the user's only as far as it did."""

    def dealt(cards: list[Any]) -> Iterator[Any]:
        yield 0
        yield from cards

    def digest(cards: list[Any], count: int) -> int:
        made = dealt(cards)
        for _ in range(count):
            next(made)
        return Digester().digest(made)

    assert digest([1, 2, 3], 2) == digest([1, 2, 3], 2)
    assert len({digest([1, 2, 3], 2), digest([1, 2, 3], 3), digest([1, 2, 4], 2), digest([1, 2, 3], 1)}) == 4
    assert digest([random.Random(1)], 1) != digest([random.Random(2)], 1)
    homes = _Home(1), _Home(2)
    assert len({digest([home], 1) for home in homes}) == 1


@pytest.mark.parametrize(("name", "is_same"), [("Shelter", True), ("Noticed", False)])
def test_a_tracing_that_changes_no_value_gets_no_note(*, name: str, is_same: bool) -> None:
    """An object from outside that the step takes, which the tracer knew; and weak references of a step that notices it."""
    step = trace_step(simulation_from(getattr(importlib.import_module("old_town"), name)()), None)
    assert (step.raised, step.note, step.is_same) == (None, None, is_same)


def test_what_leads_to_an_object_counts_by_the_place_of_the_object() -> None:
    """In bound methods, weak references, partial functions and closures; by its content alone as long as no place is known."""
    module = importlib.import_module("old_town")
    own, other = module.Cat(), module.Cat()
    frozen = gc.get_freeze_count()
    held = InstanceObjects.of(as_simulation(_Home(own)))
    assert (gc.get_freeze_count() > 0) == (frozen > 0)
    for lead in (
        lambda cat: cat.hear,
        weakref.ref,
        lambda cat: weakref.WeakMethod(cat.hear),
        lambda cat: functools.partial(module.Cat.hear, cat),
        lambda cat: lambda: cat.fright,
    ):
        leads = [lead(own), lead(other)]
        assert len({Digester(held=held).digest([one]) for one in leads}) == 2
        assert len({Digester().digest([one]) for one in leads}) == 1
    assert text_of(other.hear, held) == "the method Cat.hear of a Cat outside the instance"
    assert text_of(own.hear, held).endswith(".cat")
    assert text_of(module.Cat().hear, held) == "the method Cat.hear"  # It was made since.
