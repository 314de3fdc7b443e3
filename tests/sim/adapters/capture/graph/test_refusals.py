"""Kinds that cannot be saved are refused in one line that says what to do; all others are not."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextvars
import datetime as dt
import io
import itertools
import operator
import queue
import random
import re
import socket
import subprocess
import sys
import threading
import time
import types
import weakref
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from sim.adapters import NotCapturedError, adapt
from sim.adapters.capture.graph.kinds.refusals import refusal
from sim.adapters.capture.graph.kinds.special_kinds import KINDS


class Thing:
    def __call__(self) -> None:
        pass


async def numbers() -> AsyncIterator[int]:
    yield 1


THING = Thing()
PLAIN_THING = frozenset({1})
LOOSE = [
    (x for x in ()), numbers(), zip((), strict=True), map(int, ()), filter(None, ()), iter({1}), iter(frozenset({1})),
    iter(collections.deque([1])), reversed(collections.deque([1])), iter(collections.OrderedDict(a=1)),
    iter(memoryview(b"a")), itertools.islice((), 1), itertools.product((1,)), itertools.tee(())[0], itertools.groupby(()),
    itertools.accumulate(()), itertools.zip_longest(()), itertools.permutations(()), itertools.pairwise(()),
    re.match("", ""), weakref.proxy(THING), weakref.proxy(type("C", (), {})), random.SystemRandom(), io.StringIO(),
    io.BytesIO(), sys.__stdout__, threading.Lock(), threading.RLock(), threading.Condition(), threading.Semaphore(),
    threading.Event(), threading.Thread(), threading.local(), queue.Queue(), queue.SimpleQueue(),
    concurrent.futures.ThreadPoolExecutor(), concurrent.futures.Future(), contextvars.ContextVar("x"), sys._getframe(),
    (lambda: 1).__code__, types.CellType(1), lambda: 1,
]  # fmt: skip


@pytest.mark.parametrize("value", LOOSE, ids=lambda value: type(value).__name__)
def test_what_cannot_be_saved_is_refused_in_one_line(value: Any) -> None:
    """The line names the kind, and says what to do."""
    text = refusal(value)

    assert text is not None
    assert "\n" not in text
    assert re.search(": (keep|make|define|use|iterate) ", text)
    assert type(value) not in KINDS


def test_sockets_processes_loops_and_coroutines_are_refused() -> None:
    """Objects that must be closed again."""

    async def wait() -> None:
        pass

    coroutine = wait()
    loop = asyncio.new_event_loop()
    process = subprocess.Popen([sys.executable, "-c", ""])
    with socket.socket() as wire:
        values = [wire, coroutine, loop, loop.create_future(), process]
        assert all(map(refusal, values))
    coroutine.close()
    loop.close()
    process.wait()


def test_a_function_in_a_function_is_refused_and_others_are_not() -> None:
    """It cannot be found by its name."""

    def inner() -> None:
        pass

    assert "defined in another function" in str(refusal(inner))
    assert refusal(numbers) is None
    assert refusal(Thing.__call__) is None


@pytest.mark.parametrize(
    "value", [1, "a", [], {}, {1}, THING, Thing, PLAIN_THING, iter([]), len, random.Random(1), None]
)
def test_what_can_be_saved_is_not_refused(value: Any) -> None:
    """Neither values nor objects, classes or functions."""
    assert refusal(value) is None
    assert not any(map(refusal, (iter("a"), itertools.count(), enumerate([]), bytearray(), memoryview(b""))))


class Bag(set[int]):
    pass


class Dice(random.Random):
    pass


class Moment(dt.datetime):
    pass


class Kept:
    def __init__(self, value: Any) -> None:
        self.value = value

    def step(self) -> None:
        pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Bag(), "Bag): its class is derived from the C type set (keep a plain set in an attribute of an object"),
        (Dice(), "Dice): its class is derived from the C type Random (keep a plain Random"),
        (Moment(2000, 1, 1), "Moment): its class is derived from the C type datetime (keep a plain datetime"),
        (np.rec.array([1]), "recarray): its class is derived from the C type ndarray (keep a plain ndarray"),
        (operator.itemgetter(1), "operator.itemgetter): it is an object of a C type that is not known (pass trust"),
        (print, "builtin_function_or_method): a function of C code that is not among the known ones (call it"),
        (time.gmtime(0), "time.struct_time): a tuple with names of C code (keep tuple(...) of it in its place)"),
        (iter(np.arange(3)), "iterator): an iterator over a ndarray (keep the sequence and an index instead)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refusal_names_path_and_class_and_is_true(value: Any, text: str) -> None:
    """A class of Python code is not called a C type, nor a function a method."""
    with pytest.raises(NotCapturedError, match=re.escape("Kept.value (")) as caught:
        adapt(Kept(value))
    assert text in str(caught.value)
