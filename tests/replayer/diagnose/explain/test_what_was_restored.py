"""What a restore made of the values: A is the instance that none of it touched, and the lines of load() are named."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from recorder import Recorder
from recorder.ambient.outside.outside_read import ENTROPY, OutsideRead
from replayer.diagnose.explain import variant_process
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.explain import explain_tape
from replayer.diagnose.explain.explained_pair import restored_notes
from replayer.diagnose.explain.outside.differing_reads import differing_reads
from replayer.diagnose.explain.variant_choice import choose_pair
from replayer.diagnose.explain.variant_process import _NotReachedError, _prepared
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import make_simulation
from replayer.tape.plain_state import snapshot_to_plain
from replayer.tape.tape import Tape

MODULE = """
import json
import random
import numpy as np


class Scale:
    # Comes back rounded: restored right before tick 13, it gives the recorded state by chance.
    def __init__(self):
        self.load_kg = 0.0

    def step(self, inputs):
        self.load_kg += 0.118

    def save(self):
        return json.dumps(round(self.load_kg, 1)).encode()

    def load(self, saved):
        self.load_kg = json.loads(saved)  # Scale


class Board:
    # The rows have names, and are views of the whole; a turn mixes the whole, and the next lines read the rows.
    def __init__(self):
        self.whole = np.arange(8.0).reshape(2, 4)
        self.low, self.high = self.whole

    def step(self, inputs):
        self.low += self.high.sum()
        self.whole[:, 1:] -= 0.5 * self.whole[:, :-1]

    def save(self):
        return {"low": self.low.copy(), "high": self.high.copy()}

    def load(self, saved):
        self.low, self.high = saved["low"].copy(), saved["high"].copy()
        self.whole = np.stack([self.low, self.high])  # Board


def cart(plan):
    return {"plan": plan, "at": 0}


class Train:
    # All carts share one plan; load() makes one for each, in a helper, and goes through more numbers than lines are watched.
    def __init__(self):
        plan = [1, 2]
        self.carts, self.marks = [cart(plan), cart(plan)], list(range(400))

    def step(self, inputs):
        self.carts[0]["plan"][0] += 1
        for one in self.carts:
            one["at"] += one["plan"][0]

    def save(self):
        return json.dumps([[[one["plan"], one["at"]] for one in self.carts], self.marks]).encode()

    def load(self, saved):
        carts, marks = json.loads(saved)
        self.marks, self.carts = [int(mark) for mark in marks], []
        for plan, at in carts:
            one = cart([int(stop) for stop in plan])  # Train
            one["at"] = at
            self.carts.append(one)


class Dice:
    # Two players draw from one generator; after a load(), each from one of its own, in the same state.
    def __init__(self):
        self.left = self.right = random.Random(1)
        self.points = 0

    def step(self, inputs):
        self.points += self.left.randrange(100) - self.right.randrange(100)

    def save(self):
        return json.dumps([self.points, self.left.getstate()]).encode()

    def load(self, saved):
        def made(state):
            one = random.Random()
            one.setstate((state[0], tuple(state[1]), state[2]))
            return one

        self.points, state = json.loads(saved)
        self.left = made(state)
        self.right = made(state)  # Dice
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "restored_game.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "restored_game", raising=False)
    importlib.invalidate_caches()


def explained(name: str, tick: int | None = None) -> tuple[Explanation, Cause]:
    """Record a program, with a keyframe every ten ticks, and explain one of them."""
    factory = getattr(importlib.import_module("restored_game"), name)
    with Recorder("run.tape", factory(), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(19):
            tape.step()
    explanation = explain_tape("run.tape", tick=tick, sim=f"restored_game:{name}", factory=factory)
    assert explanation.cause is not None
    return explanation, explanation.cause


def line_of(name: str) -> int:
    """The line of the module that ends with this mark."""
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if text.endswith(f"# {name}"))


def test_a_is_the_instance_whose_values_the_recorded_run_had() -> None:
    """One that was restored right before the step has another number, and gives the recorded state by chance."""
    explanation, _ = explained("Scale", 13)

    assert explanation.pair is not None
    assert explanation.pair[0].variant.is_never_restored
    by_chance = [one for one in explanation.variants if one.variant.start is None and explanation.is_recorded(one)]
    assert by_chance
    assert explanation.given is not None
    (proved,) = explanation.given.proved
    assert proved.detail == "1.4159999999999995 in A, 1.436 in B"
    assert [one.line for one in explanation.set_by_load] == [line_of("Scale")]


def test_a_note_says_that_a_was_restored_as_well() -> None:
    """Where none that was never restored gives the recorded state."""
    explanation, _ = explained("Scale", 13)
    ran = {one.variant.start: one for one in explanation.variants}
    pair = choose_pair([ran[None], ran[10]], explanation.recorded_hash)

    assert pair is not None
    assert pair[0] is ran[None]
    [note] = restored_notes(pair, explanation.recorded_hash)
    assert note.startswith("A was restored, too: ")
    assert restored_notes((ran[-1], ran[10]), explanation.recorded_hash) == []


def test_a_note_does_not_call_an_instance_restored_that_was_not() -> None:
    """B ran from tick 0 as it was made, and A alone was put into the state."""
    fresh, other = stepped(Variant("now"), 7), stepped(Variant("never restored", start=-1), 8)

    [note] = restored_notes((fresh, other), 7)
    assert note.startswith("A was restored: ")


def stepped(variant: Variant, state_hash: int) -> VariantOutcome:
    """The outcome of a step with this hash."""
    step: Any = SimpleNamespace(result=(state_hash, None))
    return VariantOutcome(variant, step)


def test_the_line_of_load_that_parts_two_arrays_is_named_and_none_that_reads_equal_values() -> None:
    """Only together do the two views bring back the state."""
    explanation, cause = explained("Board", 1)

    assert (cause.kind, cause.place.line, cause.is_of_load) == ("shared", line_of("Board"), True)
    assert explanation.given is not None
    assert {one.kind for one in explanation.given.proved} == {"alias"}


@pytest.mark.parametrize("name", ["Train", "Dice"])
def test_the_line_of_load_that_splits_an_object_is_named(name: str) -> None:
    """Also one that a helper makes of a comprehension, and a generator, which has no parts."""
    _, cause = explained(name, 1)

    assert (cause.kind, cause.place.line, cause.is_of_load) == ("split", line_of(name), True)


def test_what_only_one_of_two_reads_does_not_make_the_difference() -> None:
    """A generator that a restore lost is made again with a seed from the system; the other instance has its own."""
    place = SourceLocation("game.py", 3, "Game.step", "self.x += self.rng.random()")
    cause = Cause("outside", place, None, None, (), None, [], [])
    step = explained("Dice", 1)[0].variants[0].step
    seed = OutsideRead(ENTROPY, "a seed from the system", "game.py", 3, None)
    without, reading = (VariantOutcome(Variant("one"), attrs.evolve(step, reads=reads)) for reads in ([], [seed]))

    def run(*_: Any) -> list[VariantOutcome]:
        return [reading]  # By chance, or since there are few values.

    present = attrs.evolve(step, reads=[seed])
    assert differing_reads(cause, (reading, reading), present, run) is not None
    assert differing_reads(cause, (without, reading), present, run) is None


@pytest.mark.parametrize(("starts", "is_reached"), [([None, -1], True), ([-1], True), ([None, -1, 4], False)])
def test_an_instance_that_none_can_follow_has_the_longer_time(
    monkeypatch: pytest.MonkeyPatch, starts: list[int | None], *, is_reached: bool
) -> None:
    """Those of a keyframe can follow, and take less; a fresh one is no run up to the tick."""
    monkeypatch.setattr(variant_process, "NEVER_RESTORED_S_MAX", -1.0)
    factory = importlib.import_module("restored_game").Scale
    with Recorder("run.tape", factory(), trial_ms=0) as recording:
        for _ in range(6):
            recording.step()
    with Tape("run.tape") as tape:
        cursor = Cursor(tape, make_simulation(tape, factory))
        cursor.seek(4)
        job = {"before": snapshot_to_plain(cursor.state.snapshot()), "tick": 5, "starts": starts}
        job |= {"taken": [], "settings": {}, "joined": [], "separated": []}
        with nullcontext() if is_reached else pytest.raises(_NotReachedError, match="takes longer than -1 s"):
            assert _prepared(tape, lambda: factory, job, -1).tick == 4
