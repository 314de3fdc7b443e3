"""What a step reads from outside the state is put into the instance that lacks it, as the other one has it: a proof, or none."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder import Recorder
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.explain import explain_tape
from replayer.diagnose.explain.given.give import give_from_the_other
from replayer.diagnose.explain.values.given_values import GivenValues
from replayer.report.before_step import before_step_lines
from sim.kernel.simulation import Simulation, as_simulation, restore

from oracle.command_lines import run

MODULE = """
import functools
import hashlib
import io
import json
import random


class Boat:
    def __init__(self):
        self.x, self.wind, self.gusts = 0, 1, 5

    def step(self, inputs):
        self.wind, self.gusts = self.wind % 7 + 1, self.gusts + 1
        self.x += self.wind + 0 * self.gusts

    def save(self):
        return json.dumps([self.x]).encode()

    def load(self, saved):
        (self.x,) = json.loads(saved)


class Veiled(Boat):
    def step(self, inputs):
        names = ["wi" + "nd"]
        force = sum(map(vars(self).get, names))
        self.x += force
        self.blow()

    def blow(self):
        self.wind = self.wind % 7 + 1


class Dicey(Boat):
    def step(self, inputs):
        super().step(inputs)
        self.x += self.wind * random.SystemRandom().randrange(2)


class Log(Boat):
    # The line that writes the state changes a value that cannot be compared, so that the trace begins in save().
    def __init__(self):
        super().__init__()
        self.x = bytearray(2)

    def step(self, inputs):
        self.x[0] = self.gusts
        self.gusts += 1

    def save(self):
        return bytes(self.x)

    def load(self, saved):
        self.x = bytearray(saved)


class Sealed(Boat):
    # What its hash was given cannot be seen, and is not put into another instance.
    def __init__(self):
        super().__init__()
        self.seal = hashlib.md5(b"a")

    def blow(self):
        self.gusts += 1
        self.seal.update(b"x")

    def fits(self):
        return self.seal.digest() == hashlib.md5(b"a" + b"x" * (self.gusts - 5)).digest()


class Leaning(Sealed):
    def step(self, inputs):
        self.blow()
        vars(self)["wi" + "nd"] += 1
        self.x += 0 * self.gusts + 1000 * vars(self)["wi" + "nd"] + self.seal.digest()[0]


class Idle(Sealed):
    def step(self, inputs):
        self.blow()
        self.x += 0 * self.gusts + self.seal.digest()[0]


class Partly(Sealed):
    def step(self, inputs):
        self.blow()
        self.x += 1000 * self.gusts + self.seal.digest()[0]


class Gated(Boat):
    def __init__(self):
        super().__init__()
        self.gate = 1

    def step(self, inputs):
        self.wind, self.gusts, self.gate = self.wind + 1, self.gusts + 1, self.gate + 1
        self.x += self.wind if self.gusts > 8 or self.gate > 4 else 1


class Upset(Sealed):
    def step(self, inputs):
        self.blow()
        self.x += self.gusts + (0 if self.fits() else random.SystemRandom().randrange(10**9))


def counter():
    count = 0

    def counted():
        nonlocal count
        count += 1
        return count

    return counted


COUNTERS = {"one": counter(), "two": counter()}


class Guns:
    def __init__(self):
        self.shots = 0

    def step(self, inputs):
        for counted in COUNTERS.values():
            self.shots += counted() % 3

    def save(self):
        return json.dumps([self.shots]).encode()

    def load(self, saved):
        (self.shots,) = json.loads(saved)


@functools.lru_cache
def odds(book, number):
    return book.total + number


class Book:
    def __init__(self):
        self.total = 1

    def step(self, inputs):
        self.total += odds(self, inputs % 3) % 7

    def save(self):
        return json.dumps([self.total]).encode()

    def load(self, saved):
        (self.total,) = json.loads(saved)


class Page:
    def __init__(self, number):
        self.number = number


@functools.lru_cache
def page(book, number):
    return Page(book.total + number)


class Album(Book):
    def step(self, inputs):
        self.total += page(self, inputs % 3).number % 7


@functools.lru_cache
def tide(number):
    return number * 2


class Logbook(Book):
    def __init__(self):
        super().__init__()
        self.pages, self.ink = 0, io.BytesIO()

    def step(self, inputs):
        self.total += tide(self.total % 3)
        self.total += self.pages * 0 + len(self.ink.getvalue())
        self.ink.write(b"a")
        self.pages += 1


class Chest:
    def __init__(self, things=[]):
        self.things = things


class Cellar:
    def __init__(self):
        self.chests, self.day = [Chest(), Chest()], 0

    def step(self):
        self.day += 1
        self.chests[0].things.append(self.day)
        if self.day % 7 == 0:
            self.chests.append(Chest())
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sailed.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sailed", raising=False)
    importlib.invalidate_caches()


def record(name: str) -> Any:
    """Record 12 ticks with a keyframe each 4. Return the class."""
    make = getattr(importlib.import_module("sailed"), name)
    with Recorder("run.tape", make(), keyframe_interval_ticks=4, trial_ms=0) as tape:
        for tick in range(12):
            tape.step(tick)
    return make


def explain(name: str) -> Explanation:
    """Record a run, and explain its first bad tick."""
    return explain_tape("run.tape", sim=f"sailed:{name}", factory=record(name))


def explained_text(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Record a run, and return what ``replay explain`` prints of it."""
    record(name)
    assert run(replayer.commands.main.main, f"explain run.tape --sim sailed:{name}") == 1
    return capsys.readouterr().out


def test_the_value_that_decides_is_proved_and_one_without_an_effect_is_not() -> None:
    """Both are read by the line, and neither is saved: with the wind of A, B gives the state of A."""
    explanation = explain("Boat")

    assert explanation.given is not None
    assert [(one.name, one.kind) for one in explanation.given.proved] == [("Boat.wind", "attribute")]
    assert explanation.given.is_read
    assert explanation.given.is_alone
    assert [one.name for one in explanation.given.not_needed] == ["Boat.gusts"]
    assert "  these differed, too, and were not needed at this tick: Boat.gusts (attribute)" in before_step_lines(
        explanation
    )


def test_a_value_that_no_traced_line_names_is_proved_as_well() -> None:
    """The line reads it by a name that it makes: what differs before the step is put in, whatever the trace shows."""
    explanation = explain("Veiled")

    assert explanation.given is not None
    assert [one.name for one in explanation.given.proved] == ["Veiled.wind"]
    assert explanation.cause is not None
    assert explanation.cause.kind == "outside"


def test_a_variable_of_a_function_in_a_dict_leads_to_the_line_that_reads_it() -> None:
    """The loop over the dict reads it, too, but what differs is not seen there."""
    explanation = explain("Guns")

    assert explanation.given is not None
    assert [one.kind for one in explanation.given.proved] == ["closure"]
    assert explanation.cause is not None
    assert explanation.cause.place.text == "count += 1"


def test_the_first_line_that_reads_a_proved_value_is_named_if_the_trace_begins_in_save() -> None:
    """The last one counts it up, for the next step; no way is claimed to lead through either."""
    cause = explain("Log").cause

    assert cause is not None
    assert cause.kind == "outside"
    assert cause.place.text == "self.x[0] = self.gusts"
    assert cause.place not in [place for place, _ in cause.way]


def test_a_cache_whose_keys_are_objects_is_put_in_with_those_of_the_other_instance() -> None:
    """The live run's key would never be found by the other one, whatever the cache keeps."""
    explanation = explain("Book")

    assert explanation.given is not None
    assert [(one.name, one.detail) for one in explanation.given.proved] == [
        ("module sailed: odds", "3 results kept in A, 0 in B")
    ]
    assert not explanation.given.is_emptied


def test_a_cache_whose_results_are_objects_is_proved_by_an_empty_one() -> None:
    """It cannot be put into another instance, which has other objects: empty in A, A gives the state of B."""
    explanation = explain("Album")

    assert explanation.given is not None
    assert [(one.name, one.kind) for one in explanation.given.proved] == [
        ("module sailed: page", "functools.lru_cache")
    ]
    assert explanation.given.is_emptied


def test_a_cache_that_can_be_put_in_keeps_no_other_value_from_being_tested() -> None:
    """It is put in without an effect; what decides is in an object of C code."""
    explanation = explain("Logbook")

    assert explanation.given is not None
    assert explanation.given.why_not is None
    assert [one.name for one in explanation.given.without_effect] == ["Logbook.pages"]


def test_a_default_argument_that_objects_share_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    """All that led to the default leads to it again: the objects are equal then, although their saved form is another one."""
    cellar = importlib.import_module("sailed").Cellar()
    with recorder.record(cellar, "cellar.tape", keyframe_interval_ticks=4, quiet=True, trial_ms=0) as game:
        for _ in range(9):
            game.step()
    assert run(replayer.commands.main.main, "explain cellar.tape --sim sailed:Cellar") == 1
    text = capsys.readouterr().out
    proved = text.partition("  proved: put into B as A has it, B gives the state of A:\n")[2]
    assert proved.startswith(
        "    Chest.__init__: things and Cellar.chests[0].things (alias): one object in A, two in B\n"
    )


def test_nothing_is_proved_of_a_step_that_chance_decides() -> None:
    """It gives the state of the other instance now and then, whatever it was given."""
    explanation = explain("Dicey")

    assert explanation.given is None or explanation.given.proved == ()


def test_values_that_are_proved_together_are_enough() -> None:
    """The wind is needed, and one of the two that let it in; with the wind alone B stays as it is."""
    given = explain("Gated").given

    assert given is not None
    assert not given.is_alone
    names = {one.name for one in given.proved}
    assert names in ({"Gated.wind", "Gated.gusts"}, {"Gated.wind", "Gated.gate"})


@pytest.mark.parametrize(("seconds", "count"), [(-1.0, 3), (1e9, 2)])
def test_where_the_step_takes_long_all_values_that_were_put_in_together_are_named(
    monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    """No smaller set is searched once the time is over; what is named was tested."""
    monkeypatch.setattr("replayer.diagnose.explain.given.give.NARROW_S", seconds)
    make = importlib.import_module("sailed").Gated
    before = as_simulation(make()).state.snapshot()

    def prepare(start: int | None) -> Simulation:
        simulation = as_simulation(make())
        for _ in range(start or 0):
            simulation.step(None)
        restore(simulation, before)
        return simulation

    def given() -> dict[str, Any]:
        return give_from_the_other(make, prepare, [5, None], None, ["wind", "gusts", "gate"]).to_plain()

    found = GivenValues.from_plain(in_a_copy(given))
    assert (len(found.proved), found.is_alone, found.why_not) == (count, False, None)


def test_no_effect_is_claimed_of_what_was_not_put_in_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """The line reads gusts, which have no effect, by a made name the wind, which has one, and a hash that cannot be seen."""
    text = explained_text("Leaning", capsys)

    assert "  tested: put into B as A has it, this has no effect: Leaning.gusts\n" in text
    assert "the cause is not known: what could be put into B of that has no effect\n" in text


def test_all_that_was_seen_to_differ_is_said_to_have_no_effect_after_a_test(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained_text("Idle", capsys)

    assert "this has no effect, and nor has all else that was seen to differ: Idle.gusts\n" in text


def test_a_value_that_is_a_part_of_the_difference_is_not_said_to_make_none(capsys: pytest.CaptureFixture[str]) -> None:
    """With the gusts of A, B gives a third state: what its hash was given makes the rest."""
    text = explained_text("Partly", capsys)

    assert "  tested: put into B as A has it, B ends neither as it did nor as A\n" in text
    assert "the cause is not known: what could be put into B of that is not all that makes the difference\n" in text
    assert "no effect" not in text


def test_nothing_is_said_of_the_end_of_a_step_that_chance_decides_once_it_is_given_values() -> None:
    """Without them, B ends the step in one way: what its hash was given agrees with the gusts that it has."""
    given = explain("Upset").given

    assert given is not None
    assert given.why_not == "put into B as A has it, the step is non-deterministic"
