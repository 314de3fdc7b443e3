"""What is kept beside objects: in dictionaries with weak keys, in NumPy's generator, and as the maximum length of a deque.

It is put into the other instance.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder import Recorder
from recorder.ambient.ambient_diff import find_candidates
from recorder.ambient.object_walk import take_instance
from recorder.ambient.transplant import give_values
from recorder.processes.seeds.process_generators import generator_states, set_generator_states
from replayer.diagnose.explain.explain import explain_tape
from sim.kernel.simulation import as_simulation

from oracle.command_lines import run

MODULE = """
import json
import weakref
from collections import deque

TIRED = weakref.WeakKeyDictionary()


class Dog:
    def __init__(self, name):
        self.name, self.caught = name, 0


class Kennel:
    def __init__(self):
        self.dogs, self.day = [Dog("Rex"), Dog("Bo")], 0

    def step(self, inputs):
        self.day += 1
        for dog in self.dogs:
            days = TIRED.setdefault(dog, [])
            days.append(self.day)
            dog.caught += 9 - len(days)


class Pack:
    def __init__(self):
        self.dogs, self.far = [Dog("Rex"), Dog("Bo")], weakref.WeakKeyDictionary()
        self.far[self.dogs[0]] = 3

    def step(self, inputs):
        for dog in self.dogs:
            dog.caught += self.far.get(dog, 1)

    def save(self):
        return json.dumps([dog.caught for dog in self.dogs]).encode()

    def load(self, saved):
        self.far.clear()
        for dog, caught in zip(self.dogs, json.loads(bytes(saved)), strict=True):
            dog.caught = caught


class Trail:
    def __init__(self):
        self.marks = {"north": deque([5, 6, 7], maxlen=3)}

    def step(self, inputs):
        self.marks["north"].append(sum(self.marks["north"]) % 11)

    def save(self):
        return json.dumps(list(self.marks["north"])).encode()

    def load(self, saved):
        self.marks = {"north": deque(json.loads(bytes(saved)))}
"""

PROVED = {
    "Kennel": "module dog_kennel: TIRED (module global): ",
    "Pack": "Pack.far (attribute): [Pack.dogs[0]] 3 in A, absent in B",
    "Trail": "Trail.marks['north'].maxlen (attribute): 3 in A, None in B",
}


@pytest.mark.parametrize("name", PROVED)
def test_it_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Outside of the instances, where its keys are the objects of one of them, in one of them, and in a dict."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("dog_kennel.py").write_text(MODULE)
    made: Any = getattr(importlib.import_module("dog_kennel"), name)()
    options: dict[str, Any] = {"trial_ms": 0, "keyframe_interval_ticks": 3}
    if name == "Kennel":
        recorded = recorder.record(made, "run.tape", step="step", **options)
        for _ in range(5):
            recorded.step(None)
        recorded.close()
    else:
        with Recorder("run.tape", made, **options) as tape:
            for _ in range(5):
                tape.step()

    assert run(replayer.commands.main.main, f"explain run.tape --sim dog_kennel:{name}") == 1
    printed = capsys.readouterr().out
    assert "proved: put into B as A has it, B gives the state of A" in printed
    assert PROVED[name] in printed


SHARED = """
import mmap
from multiprocessing import Array
from multiprocessing.shared_memory import SharedMemory

MAPPED = mmap.mmap(-1, 16)
COUNTED = Array("B", 16)
BLOCK = SharedMemory(create=True, size=16)


class Meter:
    def __init__(self):
        self.sum, self.cells[0] = 0, 0

    def step(self, inputs):
        self.cells[0] += 3
        self.sum += self.cells[0]


class Mapped(Meter):
    cells = MAPPED


class Counted(Meter):
    cells = COUNTED


class Block(Meter):
    cells = BLOCK.buf
"""


@pytest.mark.parametrize("name", ["Mapped", "Counted", "Block"])
def test_memory_that_forked_copies_would_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Every run in a copy begins with what this process has there: the first tick after a restore differs, in all runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("shared_meters.py").write_text(SHARED)
    module: Any = importlib.import_module("shared_meters")
    try:
        options: dict[str, Any] = {"trial_ms": 0, "keyframe_interval_ticks": 3}
        with recorder.record(getattr(module, name)(), "run.tape", step="step", **options) as recorded:
            for _ in range(9):
                recorded.step(None)
        assert run(replayer.commands.main.main, f"verify run.tape --sim shared_meters:{name}") == 1
        verified = capsys.readouterr().out
        assert run(replayer.commands.main.main, f"explain run.tape --sim shared_meters:{name}") == 1
        explained = capsys.readouterr().out
    finally:
        del sys.modules["shared_meters"]
        for one in (module.Block, module.Meter):
            one.cells = None
        module.BLOCK.close()
        module.BLOCK.unlink()
    assert "DESYNC at tick 4; all ticks before it match" in verified
    assert "gave different hashes" not in verified
    assert (
        "cause: this line reads hidden state\n  shared_meters.py:17 in Meter.step\n      self.sum += self.cells[0]"
        in explained
    )
    assert "proved: put into B as A has it, B gives the state of A" in explained
    assert f"{name.upper()} (module global)" in explained or "cells (class attribute)" in explained
    assert "non-deterministic" not in explained


RAIN = """
import json

import numpy as np

np.random.seed(77)


class Rain:
    def __init__(self):
        self.drops, self.hour = 0, 0

    def step(self, inputs):
        self.hour += 1
        if self.hour % 3 == 1:
            self.drops += int(np.random.poisson(500))  # HERE

    def save(self):
        return json.dumps([self.drops, self.hour]).encode()

    def load(self, saved):
        self.drops, self.hour = json.loads(saved)
"""


def test_the_generator_of_numpy_that_an_import_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The instance that was never restored goes on drawing; a restored one draws the first numbers again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("seeded_rain_fall.py").write_text(RAIN)
    states = generator_states()
    try:
        made: Any = importlib.import_module("seeded_rain_fall").Rain()
        with Recorder("run.tape", made, trial_ms=0, keyframe_interval_ticks=4) as tape:
            for _ in range(8):
                tape.step()

        assert run(replayer.commands.main.main, "explain run.tape --tick 7 --sim seeded_rain_fall:Rain") == 1
    finally:
        set_generator_states(states)
    printed = capsys.readouterr().out
    assert "cause: np.random.poisson gives different results from the same inputs" in printed
    assert "np.random (random generator): its state differs" in printed
    assert "never restored: hash" in printed
    assert ", as recorded\n  B  now" in printed


STAMPS = """
PRICES = {}  # Of each stamp, by its identity, as it was when it was first asked for.


class Stamp:
    def __init__(self, year):
        self.year = year


class Album:
    def __init__(self):
        self.stamps, self.day, self.worth = [Stamp(1900 + year) for year in range(8)], 0, 0

    def price(self, stamp):
        if id(stamp) not in PRICES:
            PRICES[id(stamp)] = stamp.year + self.day
        return PRICES[id(stamp)]

    def step(self, inputs):
        self.day += 1
        self.worth += self.price(self.stamps[self.day % 8])
"""


@pytest.fixture(name="stamps")
def _stamps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tape of an album, and its module as a new process has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("stamp_prices.py").write_text(STAMPS)
    module = importlib.import_module("stamp_prices")
    module.PRICES.clear()
    with recorder.record(module.Album(), "run.tape", step="step", keyframe_interval_ticks=7, trial_ms=0) as recorded:
        for _ in range(13):
            recorded.step(None)
    module.PRICES.clear()
    return module


def test_what_a_step_of_ours_keeps_is_no_change_of_the_code(stamps: Any) -> None:
    """The module is compared as its import leaves it: the steps that lead up to the tick fill its dict."""
    explanation = explain_tape("run.tape", tick=9, sim="stamp_prices:Album", factory=stamps.Album)

    assert explanation.code is not None
    assert explanation.code.found.startswith("compared and equal: 4 functions and 1 value of")
    assert stamps.PRICES


def test_stand_ins_for_the_keys_of_what_is_kept_prove_nothing(stamps: Any) -> None:
    """With other numbers in place of addresses neither of the two finds what it keeps: that they are alike then proves nothing."""
    explanation = explain_tape("run.tape", tick=9, sim="stamp_prices:Album", factory=stamps.Album)

    assert explanation.cause is not None
    assert (explanation.cause.kind, explanation.cause.place.line) == ("outside", 17)
    assert explanation.differs_by is None


class _Owner:
    def __init__(self, *keys: str) -> None:
        self.parts = [_Part() for _ in range(2)]
        self.kept = weakref.WeakKeyDictionary({self.parts[int(key)]: [key] for key in keys})
        self.last: deque[int] = deque([1, 2], len(keys) or None)

    def step(self, inputs: Any) -> None:
        pass

    def save(self) -> bytes:
        return b""

    def load(self, saved: Any) -> None:
        pass


class _Part:
    pass


def test_the_values_come_under_the_keys_of_the_other_one() -> None:
    """With values that are objects themselves, and a deque that another one replaces."""
    live, copy = _Owner("0", "1"), _Owner()
    simulation = as_simulation(copy)
    ours, theirs = take_instance(as_simulation(live)), take_instance(simulation)
    candidates = find_candidates(ours, theirs)
    assert {one.name for one in candidates} == {"_Owner.kept", "_Owner.last.maxlen"}
    give_values(ours, theirs, simulation.state, candidates)
    assert [copy.kept[part] for part in copy.parts] == [["0"], ["1"]]
    assert copy.kept[copy.parts[0]] is not live.kept[live.parts[0]]
    assert (copy.last.maxlen, list(copy.last)) == (2, [1, 2])
    assert not find_candidates(ours, take_instance(simulation))
