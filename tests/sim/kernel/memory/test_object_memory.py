"""Types and numbers read from the memory of objects equal those that Python gives; and so does the slower way."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.kernel.memory import object_memory
from sim.kernel.memory.object_memory import float_bits, identities, integers, kinds_of

WAYS = ("pointers_are_known", "_types_are_known", "_floats_are_known")
EDGES = [0, 1, -1, 256, 257, *(sign * ((1 << bits) + near) for bits in (29, 30, 31, 32, 59, 60, 61, 62, 63, 64, 90)
         for near in (-1, 0, 1) for sign in (1, -1))]  # fmt: skip


@pytest.fixture(params=[True, False], ids=["memory", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways."""
    if not request.param:
        for name in WAYS:
            monkeypatch.setattr(object_memory, name, lambda: False)
        monkeypatch.setattr(object_memory, "_integer_reader", lambda: None)
    return bool(request.param)


def not_asked() -> list[Any]:
    """What memory gives needs no objects."""
    raise AssertionError("objects were read one by one")


def source(values: Any, *, way: bool) -> Callable[[], list[Any]]:
    """The objects, for the slower way only."""
    return not_asked if way else lambda: list(values)


def test_this_python_has_the_layouts_that_are_read() -> None:
    """Otherwise the tests of the other way would test the slower one twice."""
    assert all(getattr(object_memory, name)() for name in WAYS)
    assert object_memory._integer_reader() is not None


def test_types(*, way: bool) -> None:
    class Own:
        pass

    values = (1, 1.0, True, None, "a", b"", (), [], {}, set(), Own(), Own, len, np.float64(1), np.zeros(3), range(2))
    found = kinds_of(identities(values), source(values, way=way))
    assert found.tolist() == [id(type(one)) for one in values]
    assert kinds_of(identities(()), source((), way=way)).tolist() == []


def test_floats_by_their_bits(*, way: bool) -> None:
    chance = random.Random(7)
    bits = [0, 1 << 63, 0x7FF0 << 48, 0x7FF8 << 48 | 77, 1, *(chance.getrandbits(62) for _ in range(500))]
    values = tuple(struct.unpack("<d", struct.pack("<Q", one))[0] for one in bits)
    assert float_bits(identities(values), source(values, way=way)).view(np.uint64).tolist() == bits


def test_integers_of_each_size(*, way: bool) -> None:
    """Those of more than 60 bits are left out."""
    chance = random.Random(7)
    values = (*EDGES, *(chance.randrange(-(1 << bits), 1 << bits) for bits in range(1, 100) for _ in range(30)))
    found, is_read = integers(identities(values), source(values, way=way))
    assert is_read.tolist() == [abs(one) < 1 << 60 for one in values]
    assert found[is_read].tolist() == [one for one in values if abs(one) < 1 << 60]


def test_identities(*, way: bool) -> None:
    del way
    values = (None, 3.5, [], object())
    assert identities(values).tolist() == list(map(id, values))
    assert identities(()).tolist() == []
