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

from sim.adapters.capture.graph.sets.equal_hashes import hashes_alike


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
    Point(1, 2), Level.LOW, Cell(1, 2), Cell(1, (2, 3)), Named(1, "a"),
]  # fmt: skip
OTHERS = [
    "a", b"a", (1, "a"), frozenset({"a"}), Kind.A, dt.date(2000, 1, 1), object(), float("nan"), (float("nan"),),
    complex(0, float("nan")), decimal.Decimal("nan"), np.float32("nan"), np.str_("a"), np.datetime64("2000-01-01"), int,
    len, Own(1), OfAttrs(1), Cell(1, "a"), Cell(1, object()), range(3), ...,
]  # fmt: skip


@pytest.mark.parametrize("value", ALIKE, ids=repr)
def test_a_value_that_hashes_alike_is_found(value: Any) -> None:
    """Numbers and what consists of them."""
    assert hashes_alike(value)


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_a_value_whose_hash_varies_is_found(value: Any) -> None:
    """Texts hash by the seed, objects by their address, and methods of users by anything."""
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
