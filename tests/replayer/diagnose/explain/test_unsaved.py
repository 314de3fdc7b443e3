"""A value that is lost between save() and load(): the line of save(), or of what it calls, at which both values become alike."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from recorder import Recorder
from recorder.ambient.ambient import INSTANCE
from recorder.ambient.ambient_diff import Candidate
from replayer.diagnose.explain.explain import explain_tape
from replayer.diagnose.explain.given.unsaved import unsaved_values
from replayer.diagnose.explain.values.given_values import BUILDS, HOLDS, OMITS, READS, Unsaved
from replayer.report.before_step import before_step_lines
from sim.kernel.simulation import ArenaOfSaved

MODULE = """
import copyreg
import json
import pickle


class Barrel:
    def __init__(self, wine=1.0, age=0, name="oak"):
        self.wine, self.age, self.name = wine, age, name

    def ripen(self):
        self.age += 1
        self.wine += 0.1 * self.age  # step


class Popped(Barrel):
    def __getstate__(self):
        kept = dict(self.__dict__)
        del kept["age"]  # Popped
        return kept

    def __setstate__(self, kept):
        self.__dict__.update(kept)
        self.age = 0  # set


class Reduced(Barrel):
    def __reduce__(self):
        return Reduced, (self.wine,)  # Reduced


class Registered(Barrel):
    pass


def reducer(barrel):
    wine = barrel.wine
    return Registered, (wine, 0)


copyreg.pickle(Registered, reducer)


class Slotted:
    __slots__ = ("wine",)

    def __init__(self):
        self.wine = 1.0

    def to_plain(self):
        return [getattr(self, name) for name in Slotted.__slots__]  # Aged


class Aged(Slotted):
    __slots__ = ("age",)

    def __init__(self):
        super().__init__()
        self.age = 0

    def ripen(self):
        self.age += 1
        self.wine += 0.1 * self.age  # slotted step


class Cellar:
    kind = Barrel

    def __init__(self):
        self.barrels = [self.kind() for _ in range(2)]
        self.days = 0

    def step(self, inputs):
        self.days += 1
        for barrel in self.barrels:
            barrel.ripen()


class Pickled(Cellar):
    def save(self):
        return pickle.dumps([self.barrels, self.days])

    def load(self, saved):
        self.barrels, self.days = pickle.loads(saved)


class OfPopped(Pickled):
    kind = Popped


class OfReduced(Pickled):
    kind = Reduced


class OfRegistered(Pickled):
    kind = Registered


class OfAged(Cellar):
    kind = Aged

    def save(self):
        return json.dumps([[barrel.to_plain() for barrel in self.barrels], self.days]).encode()

    def load(self, saved):
        kept, self.days = json.loads(saved)
        for barrel, (barrel.wine,) in zip(self.barrels, kept):
            pass


def label(barrel):
    return barrel.name.upper()


class Labelled(Cellar):
    def save(self):
        barrels = [(label(barrel), barrel.wine) for barrel in self.barrels]  # Labelled
        return json.dumps([barrels, self.days]).encode()


class Rounded(Cellar):
    def save(self):
        return self.packed()

    def packed(self):
        ages = [round(barrel.age, -3) for barrel in self.barrels]  # Rounded
        return json.dumps([ages, self.days]).encode()


class Listed(Cellar):
    def save(self):
        barrels = [
            [barrel.name, round(barrel.age, -3), barrel.wine]  # Listed
            for barrel in self.barrels
        ]
        return json.dumps([barrels, self.days]).encode()


class Looped(Cellar):
    def save(self):
        ages = []
        for barrel in self.barrels:
            ages.append(round(barrel.age, -3))  # Looped
        return json.dumps([ages, self.days]).encode()


class Mapped(Cellar):
    def save(self):
        ages = map(
            lambda barrel: round(barrel.age, -3),  # Mapped
            self.barrels,
        )
        return json.dumps([list(ages), self.days]).encode()


class Asked(Cellar):
    def save(self):
        ages = []
        for barrel in self.barrels:
            name = label(barrel)
            ages.append([name, round(barrel.age, -3)])  # Asked
        return json.dumps([ages, self.days]).encode()


class Yearless(Cellar):
    def save(self):
        wines = [  # Yearless
            barrel.wine
            for barrel in self.barrels[:1]
        ]
        return json.dumps([wines, self.days]).encode()


class OfOne(Cellar):
    def __init__(self):
        super().__init__()
        self.first = self.barrels[0]

    def save(self):
        return json.dumps([self.first.wine, self.days]).encode()  # OfOne


class Counted(Cellar):
    def save(self):  # Counted
        number = 0
        for _ in self.barrels:
            number += 1
        return json.dumps([number, self.days]).encode()


class Whole(Cellar):
    def save(self):
        return json.dumps([[vars(barrel) for barrel in self.barrels], self.days]).encode()


class Sorted(Cellar):
    def __init__(self):
        self.days, self.queue = 0, {"ann": 3, "bob": 4}

    def save(self):
        return json.dumps(self.__dict__, sort_keys=True).encode()  # Sorted


class Dayless(Cellar):
    def save(self):  # Dayless
        return json.dumps([barrel.wine for barrel in self.barrels]).encode()
"""
BARREL = ((INSTANCE, "Cellar"), ("attribute", "barrels"), ("item", 0))


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "cellar.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cellar", raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("cellar")


def line_of(mark: str) -> int:
    """The line of the module that ends with this mark."""
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if text.endswith(f"# {mark}"))


def unsaved(simulation: Any, path: tuple[tuple[str, Any], ...], holder: Any) -> tuple[Unsaved, ...]:
    """What is told of an attribute that one instance has with another value."""
    name = path[-1][1]
    candidate = Candidate(name, "attribute", "", (path,))
    objects = {path[:-1]: holder}
    return unsaved_values(ArenaOfSaved(simulation), [candidate], objects, lambda _: setattr(holder, name, 7))


@pytest.mark.parametrize(
    ("name", "way", "mark"),
    [
        ("OfPopped", READS, "Popped"),
        ("OfReduced", BUILDS, "Reduced"),
        ("OfRegistered", BUILDS, None),
        ("OfAged", HOLDS, "Aged"),
        ("Labelled", HOLDS, "Labelled"),
        ("Rounded", READS, "Rounded"),
        ("Listed", READS, "Listed"),
        ("Looped", READS, "Looped"),
        ("Mapped", READS, "Mapped"),
        ("Asked", READS, "Asked"),
        ("Yearless", BUILDS, "Yearless"),
        ("OfOne", BUILDS, "OfOne"),
        ("Counted", OMITS, "Counted"),
    ],
)
def test_the_line_of_save_at_which_both_become_alike_is_found(module: Any, name: str, way: str, mark: str) -> None:
    simulation = getattr(module, name)()

    (one,) = unsaved(simulation, (*BARREL, ("attribute", "age")), simulation.barrels[0])

    assert one.way == way
    assert one.place is not None
    assert one.place.line == (line_of(mark) if mark else 1 + MODULE.splitlines().index("    wine = barrel.wine"))


def test_of_an_attribute_that_no_line_of_save_reads_the_head_is_told(module: Any) -> None:
    simulation = module.Dayless()

    (one,) = unsaved(simulation, ((INSTANCE, "Dayless"), ("attribute", "days")), simulation)

    assert one.way == OMITS
    assert one.place is not None
    assert one.place.line == line_of("Dayless")


def test_a_line_that_saves_the_whole_dict_of_an_object_reads_the_order_in_it(module: Any) -> None:
    """And sorts it away."""
    simulation = module.Sorted()
    path = ((INSTANCE, "Sorted"), ("attribute", "queue"))

    def turn(_: Candidate) -> None:
        simulation.queue = dict(reversed(simulation.queue.items()))

    candidate = Candidate("Sorted.queue", "order of a dict", "", (path,))
    (one,) = unsaved_values(ArenaOfSaved(simulation), [candidate], {path[:-1]: simulation}, turn)

    assert one.way == READS
    assert one.place is not None
    assert one.place.line == line_of("Sorted")


def test_nothing_is_told_of_a_value_that_save_returns(module: Any) -> None:
    simulation = module.Whole()

    assert unsaved(simulation, (*BARREL, ("attribute", "age")), simulation.barrels[0]) == ()


@pytest.mark.parametrize(
    ("name", "step", "saving", "loading"),
    [("OfPopped", "step", "Popped", "set"), ("OfAged", "slotted step", "Aged", None)],
)
def test_explain_names_the_lines_that_read_lose_and_set_it(
    module: Any, name: str, step: str, saving: str, loading: str | None
) -> None:
    factory = getattr(module, name)
    with Recorder("run.tape", factory(), keyframe_interval_ticks=5, trial_ms=0) as tape:
        for _ in range(9):
            tape.step()

    explanation = explain_tape("run.tape", sim=f"cellar:{name}", factory=factory)

    cause = explanation.cause
    assert explanation.tick == 6
    assert cause is not None
    assert cause.place.line == line_of(step)
    assert (cause.loaded_at and cause.loaded_at.line) == (loading and line_of(loading))
    lines = before_step_lines(explanation)
    (told,) = [number for number, text in enumerate(lines) if "save() returns the same" in text]
    assert lines[told + 1].split()[0] == f"cellar.py:{line_of(saving)}"
