"""explain names what differed before the step: orders of sets, what load() lost, settings of the process, values by kind."""

from __future__ import annotations

import contextvars
import datetime as dt
import decimal
import importlib
import json
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.processes.fork_call import in_a_copy
from replayer.commands.explain_facts import cause_facts
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.find_cause import find_cause
from replayer.diagnose.explain.texts.value_texts import text_of
from replayer.diagnose.explain.trace_step import TracedStep, trace_step
from replayer.diagnose.explain.value_hash import Digester
from replayer.diagnose.explain.values.process_settings import (
    differing_settings,
    process_settings,
    set_process_settings,
)
from replayer.diagnose.explain.values.reloaded import not_given_back
from replayer.report.cause_text import after_it
from sim.kernel.simulation import Simulation, as_simulation, restore

from oracle.command_lines import run

WORLDS = '''
import collections
import datetime
import decimal
import functools
import hashlib
import random
import sys

import numpy as np


class Saved:
    """Everything is saved, by name."""

    total = 0

    def save(self):
        return {name: np.array(value) for name, value in vars(self).items()}

    def load(self, saved):
        vars(self).update({name: value.item() for name, value in saved.items()})


class Bag(Saved):
    """The order of the set is lost."""

    def __init__(self):
        self.bag, self.total = {128, 1, 2, 64, 96, 352}, 0

    def save(self):
        return {"bag": np.array(sorted(self.bag)), "total": np.int64(self.total)}

    def load(self, saved):
        self.bag, self.total = set(saved["bag"].tolist()[::-1]), int(saved["total"])


class TakesFirst(Bag):
    def step(self, inputs):
        self.total = self.total * 3 + next(iter(self.bag))  # HERE


class Loops(Bag):
    def step(self, inputs):
        for number in self.bag:  # HERE
            self.total = (self.total * 3 + number) % 1009


class Sorts(Bag):
    """Sound: the order does not count."""

    def step(self, inputs):
        self.total = (self.total * 3 + sum(self.bag) + sorted(self.bag)[0]) % 1009


class LosesOne(Bag):
    """Other members are no other order."""

    def load(self, saved):
        self.bag, self.total = set(saved["bag"].tolist()[1:]), int(saved["total"])

    def step(self, inputs):
        self.total = self.total * 3 + next(iter(self.bag))  # HERE


class Lag:
    def __init__(self):
        self.before, self.told = 0, collections.deque([0], maxlen=1)

    def tell(self, number):
        late = self.before  # HERE
        self.before = number
        self.told.append(late)


class Echo(Saved):
    """The object that it holds keeps what is not saved."""

    def __init__(self):
        self.lag = Lag()

    def step(self, inputs):
        self.lag.tell(7)

    def save(self):
        return {"told": np.array(list(self.lag.told))}

    def load(self, saved):
        self.lag.told = collections.deque(saved["told"].tolist(), maxlen=1)


class Tree:
    def __init__(self, age):
        self.age = age

    @functools.cached_property
    def apples(self):
        return 3 + self.age


class Orchard(Saved):
    """The cached values of the trees are stale in the live run."""

    def __init__(self):
        self.trees, self.total = [Tree(4), Tree(7)], 0

    def step(self, inputs):
        for tree in self.trees:
            tree.age += 1
        self.total += sum(tree.apples for tree in self.trees)  # HERE

    def save(self):
        return {"ages": np.array([tree.age for tree in self.trees]), "total": np.int64(self.total)}

    def load(self, saved):
        self.trees, self.total = [Tree(int(age)) for age in saved["ages"]], int(saved["total"])


class Toll(Saved):
    """A cache that a fresh instance has not filled."""

    def __init__(self):
        self.rate, self.total, self.turn = 2, 0, 0

    @functools.lru_cache(maxsize=None)
    def toll(self, gate):
        return self.rate * gate

    def step(self, inputs):
        self.turn += 1
        self.rate += self.turn
        self.total += self.toll(5)  # HERE


class Gate(Saved):
    """What it kept decides about the branch; only the branches write the total."""

    def __init__(self):
        self.total, self.turn, self.kept = 0, 0, False

    def save(self):
        return {name: np.array(value) for name, value in vars(self).items() if name != "kept"}

    def step(self, inputs):
        self.turn += 1
        if self.kept:  # HERE
            self.total += 2
        else:
            self.total += 9
        self.kept = True


class Clock(Saved):
    def __init__(self):
        self.total = 0.0

    def step(self, inputs):
        now = datetime.datetime.now()  # HERE
        self.total = now.microsecond + now.second / 60


class Shuffles(Saved):
    def __init__(self):
        self.cards, self.total = list(range(20)), 0
        random.seed(5)

    def step(self, inputs):
        random.shuffle(self.cards)
        self.total = self.cards[0]

    def save(self):
        return {"cards": np.array(self.cards)}

    def load(self, saved):
        self.cards = saved["cards"].tolist()


class OffByOne(Saved):
    def __init__(self):
        self.cursor, self.total = 4, 0

    def step(self, inputs):
        self.total += self.cursor  # HERE
        self.cursor += 1

    def load(self, saved):
        self.total = int(saved["total"])
        self.cursor = int(saved["cursor"]) - 1


class GivesBack(OffByOne):
    """Sound."""

    def load(self, saved):
        Saved.load(self, saved)


class Unsteady(OffByOne):
    """save() itself changes: nothing is known about load()."""

    def save(self):
        self.cursor += 1
        return Saved.save(self)


class Precise(Saved):
    """The decimal context is the process's."""

    def __init__(self):
        self.turn, self.total = 0, 1.0

    def step(self, inputs):
        self.turn += 1
        if self.turn == 3:
            decimal.getcontext().prec = 4
        third = decimal.Decimal(1) / 3  # HERE
        self.total += float(third)


class CountsArguments(Saved):
    def __init__(self):
        self.total = 0

    def step(self, inputs):
        self.total += len(sys.argv)  # HERE


class Opaque(Saved):
    """The line that writes the difference changes a value that cannot be compared, and so is what it reads."""

    def __init__(self):
        self.data, self.seal = bytearray(2), hashlib.md5()

    def step(self, inputs):
        self.data[0] = self.seal.digest()[0]
        self.seal.update(b"x")

    def save(self):
        return {"data": np.frombuffer(bytes(self.data), np.uint8)}

    def load(self, saved):
        self.data = bytearray(saved["data"].tobytes())


class Deep(Saved):
    """A setting of the process differs, and something else is the cause."""

    count = 0

    def __init__(self):
        self.turn, self.total = 0, 0

    def step(self, inputs):
        self.turn += 1
        sys.setrecursionlimit(2000)
        self.total += Deep.count  # HERE
        Deep.count = self.turn
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the module of the worlds."""
    (tmp_path / "early_worlds.py").write_text(WORLDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    yield
    sys.modules.pop("early_worlds", None)


def world(name: str) -> Any:
    return getattr(importlib.import_module("early_worlds"), name)


def marked(name: str) -> int:
    """The line of a class with the mark."""
    lines = WORLDS.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"class {name}("))
    return next(number for number, line in enumerate(lines, 1) if number > start and line.endswith("# HERE"))


def traced_twice(name: str, ticks: int = 2) -> tuple[TracedStep, TracedStep]:
    """A step of the live instance, and of a fresh one in the state before it."""
    live = as_simulation(world(name)())
    for _ in range(ticks - 1):
        live.step(None)
    before = live.state.snapshot()

    def restored() -> dict[str, Any]:
        fresh = as_simulation(world(name)())
        restore(fresh, before)
        return trace_step(fresh, None).to_plain()

    plain = in_a_copy(restored)
    return trace_step(live, None), TracedStep.from_plain(plain)


def cause_of(name: str) -> Cause:
    lived, restored = traced_twice(name)
    assert lived.state is not None
    assert restored.state is not None
    assert lived.state.hash() != restored.state.hash()
    cause = find_cause(Alignment(lived.trace, restored.trace))
    assert cause is not None
    return cause


@pytest.mark.parametrize("name", ["TakesFirst", "Loops"])
@pytest.mark.seldom(0.15)
def test_the_order_of_a_set_is_shown_in_both(name: str) -> None:
    """As a plain loop gives it."""
    cause = cause_of(name)
    reversed_members = sorted(world(name)().bag, reverse=True)

    assert (cause.kind, cause.place.line, cause.outside) == ("order", marked(name), [])
    [order] = cause.orders
    assert order.name == "self.bag"
    assert order.first == ", ".join(map(str, world(name)().bag))
    assert order.second == ", ".join(map(str, set(reversed_members)))
    assert order.first != order.second


def test_a_set_whose_order_does_not_count_is_sound() -> None:
    """The orders differ, the states do not."""
    lived, restored = traced_twice("Sorts")
    assert lived.state is not None
    assert restored.state is not None
    assert lived.state.hash() == restored.state.hash()


def test_other_members_are_not_called_another_order() -> None:
    """They are hidden state, or what load() lost."""
    cause = cause_of("LosesOne")
    assert (cause.kind, cause.place.line, cause.orders) == ("outside", marked("LosesOne"), [])


@pytest.mark.seldom(0.15)
def test_a_line_of_save_is_not_the_cause_of_what_an_inner_object_kept() -> None:
    """The search goes on into the object that save() reads."""
    cause = cause_of("Echo")
    assert (cause.kind, cause.place.line) == (
        "outside",
        next(n for n, line in enumerate(WORLDS.splitlines(), 1) if "late = self.before" in line),
    )
    assert [(value.name, value.first, value.second) for value in cause.outside] == [("self.before", "7", "0")]


def test_the_variable_of_a_loop_is_not_that_of_a_generator_expression() -> None:
    """The loop before it only reads."""
    cause = cause_of("Orchard")
    assert (cause.kind, cause.place.line) == ("outside", marked("Orchard"))
    [value] = cause.outside
    assert [path for path, *_ in value.parts] == ["self.trees[0].apples", "self.trees[1].apples"]


def test_a_value_is_shown_as_it_is_after_the_whole_statement() -> None:
    """Also where one of the two has to run a function for it."""
    cause = cause_of("Toll")
    assert cause.value is not None
    assert (cause.place.line, cause.value.name) == (marked("Toll"), "self.total")
    assert (cause.value.first, cause.value.second) == (str(15 + 15), str(15 + 25))


def test_a_value_that_only_the_branches_after_a_line_change_is_not_shown_as_one_of_the_line() -> None:
    """The total is equal whenever the line runs."""
    cause = cause_of("Gate")
    assert (cause.kind, cause.place.line, cause.is_of_branches) == ("outside", marked("Gate"), True)
    assert cause_facts(cause)["value"] is None
    assert after_it(cause) == "after this line: "  # A value that the line gives is not one that it reads.
    assert [(value.name, value.first, value.second) for value in cause.outside] == [("self.kept", "True", "False")]


@pytest.mark.seldom(0.15)
def test_a_time_is_compared_by_its_value() -> None:
    """And so its line is the cause, and not the one that reads it."""
    cause = cause_of("Clock")
    assert (cause.kind, cause.place.line) == ("line", marked("Clock"))


def test_a_function_that_changes_a_list_changes_the_list_of_the_step() -> None:
    """A watched function gets the list itself: tracing changes nothing."""
    step = trace_step(as_simulation(world("Shuffles")()), None)
    assert (step.is_same, step.note) == (True, None)


EQUAL: list[Callable[[], Any]] = [
    lambda: dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC).replace(tzinfo=None),
    lambda: dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    lambda: dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    lambda: dt.datetime(2026, 1, 2, tzinfo=dt.UTC, fold=1),
    lambda: dt.date(2026, 1, 2),
    lambda: dt.time(3, 4),
    lambda: dt.timedelta(seconds=3),
    lambda: uuid.UUID(int=7),
    lambda: uuid.UUID(int=8),
    lambda: decimal.Decimal("1.0"),
    lambda: decimal.Decimal("1.00"),
    lambda: Fraction(1, 3),
    lambda: Fraction(2, 3),
    lambda: Path("a/b"),
    lambda: PurePosixPath("a/c"),
]


def test_values_of_c_types_are_digested_by_value() -> None:
    """Equal ones alike, all others different, and shown by their text; two names for one are as two equal ones."""
    digests = [Digester().digest(make()) for make in EQUAL]
    assert digests == [Digester().digest(make()) for make in EQUAL]
    assert len({text_of(make()) for make in EQUAL}) == len(set(digests)) == len(EQUAL)
    one = decimal.Decimal(7)
    assert Digester().digest([one, one]) == Digester().digest([one, decimal.Decimal(3) + 4])


def test_a_context_variable_is_digested_by_its_value() -> None:
    """Its default, a value, and none at all."""
    plain, other = contextvars.ContextVar[int]("plain"), contextvars.ContextVar[int]("other", default=3)
    digests = [Digester().digest(plain), Digester().digest(other)]
    plain.set(3)
    assert Digester().digest(plain) == digests[1] != digests[0]
    assert (text_of(plain), text_of(contextvars.ContextVar("empty"))) == ("a ContextVar that is 3", "a ContextVar")


def test_data_of_a_thread_is_digested_by_value_and_a_thread_by_its_class() -> None:
    """What a step keeps in a threading.local is hidden state as any other; a thread changes by itself."""
    one, other = threading.local(), threading.local()
    one.count, other.count = 1, 2
    assert Digester().digest(one) != Digester().digest(other)
    other.count = 1
    assert Digester().digest(one) == Digester().digest(other)
    assert Digester().digest(threading.Thread()) == Digester().digest(threading.Thread(name="other"))


def test_what_load_does_not_give_back_is_named_with_both_values() -> None:
    """And with the lines of load() that name it; nothing of a sound one, or of one whose save() changes."""

    def after_load(name: str) -> list[Any]:
        live: Simulation = as_simulation(world(name)())
        live.step(None)
        before = live.state.snapshot()
        restore(live, before)
        return not_given_back(live, before)

    [lost] = after_load("OffByOne")
    assert (lost.name, lost.saved, lost.reloaded) == ("cursor", "5", "4")
    assert [line.text for line in lost.lines] == ['self.cursor = int(saved["cursor"]) - 1']
    assert WORLDS.splitlines()[lost.lines[0].line - 1].strip() == lost.lines[0].text
    assert after_load("GivesBack") == after_load("Unsteady") == []


def test_each_setting_of_the_process_is_seen_and_set_again() -> None:
    """In a copy of this process."""
    before = process_settings()

    def changed() -> dict[str, Any]:
        np.seterr(divide="raise")
        np.set_printoptions(precision=3)
        decimal.getcontext().prec = 9
        decimal.getcontext().traps[decimal.Inexact] = True
        sys.setrecursionlimit(4321)
        now = process_settings()
        set_process_settings(before)
        return {"now": now, "again": process_settings()}

    found = in_a_copy(changed)
    assert found["again"] == before
    names = ["np.seterr() (floating-point errors)", "np.get_printoptions()", "decimal.getcontext()"]
    names.append("sys.getrecursionlimit()")
    assert [one.name for one in differing_settings(before, found["now"])] == names
    assert differing_settings(before, before) == []
    with pytest.raises(ValueError, match="cannot be set"):
        set_process_settings({"os.getcwd()": "no/such/folder"})


def explained(name: str, tick: int, capsys: Any) -> tuple[dict[str, Any], str]:
    with Recorder(f"{name}.tape", world(name)(), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(tick):
            tape.step(None)
    line = f"explain {name}.tape --sim early_worlds:{name} --tick {tick}"
    assert run(replayer.commands.main.main, f"{line} --json") == 1
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert run(replayer.commands.main.main, line) == 1
    return facts, capsys.readouterr().out


@pytest.mark.seldom(1 / 4)
def test_a_setting_that_makes_the_difference_is_proved(capsys: Any) -> None:
    """By a run of B with the value of A."""
    context = decimal.getcontext().copy()
    facts, printed = explained("Precise", 5, capsys)
    decimal.setcontext(context)

    assert [(one["name"], one["proved"]) for one in facts["settings"]] == [("decimal.getcontext()", True)]
    assert facts["cause"]["line"] == marked("Precise")
    assert "cause: decimal.getcontext() differs before the step, a setting of the whole process" in printed
    assert "A prec 4, B prec 28\n    tested: with that of A, B gives the state of A\n" in printed


@pytest.mark.seldom(1 / 4)
def test_a_setting_that_makes_no_difference_is_refuted(capsys: Any) -> None:
    """The cause stays what it is."""
    limit = sys.getrecursionlimit()
    facts, printed = explained("Deep", 5, capsys)
    sys.setrecursionlimit(limit)

    assert [(one["name"], one["proved"]) for one in facts["settings"]] == [("sys.getrecursionlimit()", False)]
    assert (facts["cause"]["kind"], facts["cause"]["line"]) == ("outside", marked("Deep"))
    assert "cause: this line reads hidden state\n" in printed
    assert "tested: with that of A, B does not give the state of A\n" in printed


@pytest.mark.seldom(1 / 4)
def test_arguments_of_this_process_are_tried_where_it_alone_differs(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded by a program without arguments, replayed by one that has some."""
    monkeypatch.setattr(sys, "argv", ["game.py"])
    with Recorder("counted.tape", world("CountsArguments")(), trial_ms=0) as tape:
        tape.step(None)
    monkeypatch.setattr(sys, "argv", ["replay", "explain"])

    line = "explain counted.tape --sim early_worlds:CountsArguments"
    assert run(replayer.commands.main.main, f"{line} --json") == 1
    facts = json.loads(capsys.readouterr().out)
    settings = [one for one in facts["settings"] if one["name"] != "warnings.filters"]  # pytest has some of its own.
    assert [(one["name"], one["second"], one["proved"]) for one in settings] == [
        ("sys.argv", ["replay", "explain"], True)
    ]
    assert (facts["tick"], facts["cause"]["line"]) == (1, marked("CountsArguments"))


@pytest.mark.seldom(1 / 4)
def test_a_load_that_gives_back_something_else_is_the_cause(capsys: Any) -> None:
    """And not hidden state: save() has the field."""
    facts, printed = explained("OffByOne", 1, capsys)

    of_load = WORLDS.splitlines().index('        self.cursor = int(saved["cursor"]) - 1') + 1
    assert (facts["cause"]["kind"], facts["cause"]["line"]) == ("load", of_load)
    assert [(one["name"], one["first"], one["second"]) for one in facts["cause"]["outside"]] == [
        ("self.cursor", "4", "3")
    ]
    assert [(one["name"], one["saved"], one["reloaded"]) for one in facts["not_given_back"]] == [("cursor", "4", "3")]
    assert "cause: load() does not give back what save() saved\n" in printed
    assert f"  the step reads it first in\n  early_worlds.py:{marked('OffByOne')} in OffByOne.step\n" in printed
    assert "    cursor: 4 was loaded, save() then returns 3\n" in printed
    assert "hidden state" not in printed


@pytest.mark.seldom(1 / 4)
def test_a_line_of_save_is_not_said_to_be_the_cause(capsys: Any) -> None:
    """It only shows a difference that the step made."""
    _, printed = explained("Opaque", 3, capsys)
    assert "cause: not known: this line of save() gives different values, and no line of the step" in printed
