"""The values that hash alike in every process."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

from sim.kernel.sets.equal_hashes import hashes_alike


@dataclasses.dataclass(frozen=True)
class Cell:
    x: int
    y: Any


@dataclasses.dataclass(frozen=True)
class Named:
    x: int
    name: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Own:
    x: int

    def __hash__(self) -> int:
        return id(self)


class Tile:
    """Hashes by numbers in attributes, as most classes with a method of their own do."""

    def __init__(self, x: int, y: Any) -> None:
        self.x, self.y = x, y

    def __hash__(self) -> int:
        return hash((self.x, self.y))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.x!r}, {self.y!r})"


class Slotted:
    __slots__ = ("ident",)

    def __init__(self, ident: int) -> None:
        self.ident = ident

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ident})"

    def __hash__(self) -> int:
        return -self.ident * 2654435761 % 2**32 ^ hash(self.ident)


class Inheriting(Slotted):
    pass


class WithText(Tile):
    def __hash__(self) -> int:
        return hash(("tile", self.x))


class WithProperty(Tile):
    @property
    def z(self) -> int:
        return id(self)

    def __hash__(self) -> int:
        return hash(self.z)


class WithCall(Tile):
    def __hash__(self) -> int:
        return id(self) + self.x


class WithNesting(Tile):
    def __hash__(self) -> int:
        return hash(self.y.x)


class WithOwnHash(Tile):
    def __hash__(self) -> int:
        return len(self.y)


class AskingEachTime(Tile):
    def __getattribute__(self, name: str) -> Any:
        return id(self) if name == "x" else object.__getattribute__(self, name)


class Constant(Tile):
    def __hash__(self) -> int:
        return hash(super().__hash__())


@attrs.frozen
class OfAttrs:
    x: int


class Level(enum.IntEnum):
    LOW = 1


class Kind(enum.Enum):
    A = 1


class Point(NamedTuple):
    x: int
    y: int


ALIKE = [
    0, -1, 1 << 70, True, 0.5, -0.0, float("inf"), 1j, (), (1, (2.0, False)), frozenset({1, 2}), fractions.Fraction(1, 3),
    decimal.Decimal("1.50"), np.int8(3), np.float32(0.1), np.float64(0.1), np.bool_(True), np.complex64(1j),
    Point(1, 2), Level.LOW, Cell(1, 2), Cell(1, (2, 3)), Named(1, "a"), Tile(1, (2, 0.5)), Tile(1, Tile(2, 3)), Slotted(7),
    Inheriting(8),
]  # fmt: skip
OTHERS = [
    "a", b"a", (1, "a"), frozenset({"a"}), Kind.A, dt.date(2000, 1, 1), object(), float("nan"), (float("nan"),),
    complex(0, float("nan")), decimal.Decimal("nan"), np.float32("nan"), np.str_("a"), np.datetime64("2000-01-01"), int,
    len, Own(1), OfAttrs(1), Cell(1, "a"), Cell(1, object()), range(3), ..., Tile(1, "a"), Tile(1, object()),
    WithText(1, 2), WithProperty(1, 2), WithCall(1, 2), WithNesting(1, Tile(1, 2)), WithOwnHash(1, [2]),
    AskingEachTime(1, 2), Constant(1, 2),
]  # fmt: skip


@pytest.mark.parametrize("value", ALIKE, ids=repr)
def test_a_value_that_hashes_alike_is_found(value: Any) -> None:
    """Numbers and what consists of them."""
    assert hashes_alike(value)


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_a_value_whose_hash_varies_is_found(value: Any) -> None:
    """Texts hash by the seed, objects by their address, and many methods of users by anything."""
    assert not hashes_alike(value)


def test_none_hashes_alike_since_python_3_12() -> None:
    """Before, its hash was its address."""
    assert hashes_alike(None) == (sys.version_info >= (3, 12))


def test_the_hashes_are_equal_in_processes_with_different_seeds() -> None:
    """All values that are said to hash alike do so."""
    code = "import test_equal_hashes as t; print([hash(one) for one in t.ALIKE])"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }

    assert len(printed) == 1
