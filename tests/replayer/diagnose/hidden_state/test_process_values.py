"""State in the process rather than in Python values of the user's: memory of C code, settings, functions, registered classes."""

from __future__ import annotations

import abc
import builtins
import ctypes
import queue
import signal
import sqlite3
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from recorder.ambient.c_memory import memory_of, put_memory
from recorder.ambient.process_wide import SETTINGS
from replayer import SyncTest
from sim import Field, Schema, State

TANKS = (ctypes.c_double * 3)()
STOCK = sqlite3.connect(":memory:", check_same_thread=False)
STOCK.execute("create table goods (amount integer)")
STOCK.execute("insert into goods values (0)")
WAITING: queue.Queue[int] = queue.Queue()


class Ranked(abc.ABC):  # noqa: B024 - members are registered
    """Of what rank a member is."""


class Member:
    """A member."""

    def vote(self) -> int:
        """One vote."""
        return 1


def loud(*_: Any) -> None:
    """Handle a signal."""


def doubled(_: Any) -> int:
    """Two votes."""
    return 2


class Counting:
    """Adds to its state what a function of its own keeps elsewhere."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8")))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        """Make a step."""
        self.state["tick"][()] += 1
        self.state["x"][()] += self.kept(int(self.state["tick"]))

    def kept(self, tick: int) -> int:
        """What is kept elsewhere."""
        raise NotImplementedError


class Tanks(Counting):
    """In an array of ctypes."""

    def kept(self, tick: int) -> int:
        TANKS[tick % 3] += 1
        return int(sum(TANKS))


class Stock(Counting):
    """In a database in memory; the cursor of the last query stays open."""

    def kept(self, tick: int) -> int:
        STOCK.execute("update goods set amount = amount + ?", (tick,))
        return int(STOCK.execute("select amount from goods").fetchone()[0])


class Waiting(Counting):
    """In a queue."""

    def kept(self, tick: int) -> int:
        WAITING.put(tick)
        WAITING.put(tick * 2)
        return WAITING.get()


class Marked(Counting):
    """In the module builtins."""

    def kept(self, tick: int) -> int:
        builtins.KEPT_HERE = getattr(builtins, "KEPT_HERE", 0) + tick  # type: ignore[attr-defined]
        return int(builtins.KEPT_HERE)  # type: ignore[attr-defined]


class Strict(Counting):
    """In the filters of warnings."""

    def kept(self, tick: int) -> int:
        if tick == 5:
            warnings.simplefilter("error", BytesWarning)
        try:
            warnings.warn("kept", BytesWarning, stacklevel=1)
        except BytesWarning:
            return 3
        return 1


class Handled(Counting):
    """In the handler of a signal."""

    def kept(self, tick: int) -> int:
        if tick == 5:
            signal.signal(signal.SIGUSR2, loud)
        return 3 if signal.getsignal(signal.SIGUSR2) is loud else 1


class Registered(Counting):
    """In an abstract base class."""

    def kept(self, tick: int) -> int:
        if tick == 5:
            Ranked.register(Member)
        return 3 if isinstance(Member(), Ranked) else 1


class Patched(Counting):
    """In a class, whose method is replaced."""

    def kept(self, tick: int) -> int:
        if tick == 5:
            Member.vote = doubled  # type: ignore[method-assign,assignment]
        return Member().vote()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    warnings.simplefilter("ignore", BytesWarning)
    kept = {name: read() for name, (read, *_) in SETTINGS.items()}
    vote, interval_s = Member.vote, sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval_s)
    for name, value in kept.items():
        SETTINGS[name][1](value)
    Member.vote = vote  # type: ignore[method-assign]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("world", "named"),
    [
        (Tanks, "TANKS"),
        (Stock, "STOCK"),
        (Waiting, "WAITING"),
        (Marked, "builtins"),
        (Strict, "warnings.filters"),
        (Handled, "signal.getsignal()"),
        (Registered, "Ranked.register()"),
        (Patched, "Member.vote"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_it_is_found_and_proved(world: type[Counting], named: str) -> None:
    """A copy that gets it from the live run goes on as that did, and one without it does not."""
    suspects = SyncTest(world, ticks=30).run().suspects

    assert [suspect.name for suspect in suspects if suspect.proved and named in suspect.name] != []
    assert [suspect.name for suspect in suspects if suspect.proved and named not in suspect.name] == []


def test_numbers_of_ctypes_and_databases_are_read_and_put_back() -> None:
    """By their content; pointers, and databases in files, are not read."""
    numbers = (ctypes.c_int * 2)(3, 4)
    content = memory_of(numbers)
    numbers[1] = 9
    assert content is not None
    assert put_memory(numbers, content)
    assert list(numbers) == [3, 4]
    base = sqlite3.connect(":memory:")
    base.execute("create table one (x)")
    base.execute("insert into one values (5)")
    before = memory_of(base)
    base.execute("delete from one")
    assert before is not None
    assert put_memory(base, before)
    assert base.execute("select x from one").fetchall() == [(5,)]


def test_a_database_in_a_file_is_not_read(tmp_path: Any) -> None:
    """The file may be large, and others may write it."""
    with sqlite3.connect(tmp_path / "base.db") as base:
        assert memory_of(base) is None
    base.close()


def test_a_run_that_leaves_something_in_the_process_is_not_said_to_differ_by_being_watched() -> None:
    """Two runs after it agree with each other and not with it, since they find what it left."""
    report = SyncTest(Left, ticks=20).run()

    assert not any("kept for comparison" in note for note in report.notes)
    assert report.findings


class Left(Counting):
    """It keeps it in a setting of the interpreter that nothing puts back."""

    def kept(self, tick: int) -> int:
        if tick == 12:
            sys.setswitchinterval(0.007)
        return 3 if sys.getswitchinterval() > 0.006 else 1
