"""Immutable values of the standard library as plain data and back, exactly."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import io
import math
import pathlib
import random
import re
import uuid
import zoneinfo
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.adapters.capture.graph.values.found_by_identity import found_by_identity, may_be_found_by_identity
from sim.adapters.capture.graph.values.immutable_values import decode_immutable, encode_immutable

ZONE_FILE = b"TZif" + bytes(16) + bytes([*bytes(19), 1, *bytes(3), 4]) + bytes(6) + b"UTC\0"
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
EAST = dt.timezone(dt.timedelta(hours=5, microseconds=3))
NAIVE = dt.datetime(2020, 1, 2, 3, 4, 5, 6)  # noqa: DTZ001 - a time without a zone is a case, too
VALUES = [
    NAIVE, dt.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), NAIVE.replace(fold=1),
    dt.datetime(2020, 1, 1, tzinfo=EAST), dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.date(2020, 2, 29), dt.time(23, 59, fold=1),
    dt.time(1, tzinfo=dt.UTC), dt.timedelta(days=-3, microseconds=7), dt.timedelta.min, dt.UTC, EAST,
    dt.timezone(dt.timedelta(0), "UTC"), dt.timezone(-dt.timedelta(hours=3), "West"), BERLIN, zoneinfo.ZoneInfo("UTC"),
    decimal.Decimal("-0"), decimal.Decimal("1.500"), decimal.Decimal("1E+20"), decimal.Decimal("-Infinity"),
    decimal.Decimal("NaN123"), decimal.Decimal("-sNaN"), decimal.Decimal("1" * 60), decimal.Decimal("0E-400"),
    fractions.Fraction(-7, 3), fractions.Fraction(1 << 90, 3), uuid.UUID(int=5),
    uuid.UUID(int=(1 << 128) - 1, is_safe=uuid.SafeUUID.safe), pathlib.PurePosixPath("//a/../b"), pathlib.Path(),
    pathlib.PureWindowsPath("C:\\x\\"), pathlib.Path("a b/c"), pathlib.PurePosixPath("/"), re.compile("a+b"),
    re.compile(rb"\x00", re.DOTALL), re.compile("(?i)ä", re.VERBOSE), re.compile("x", re.ASCII),
    range(5), range(10, -1, -3), range(1 << 70), slice(None), slice(1, None, -1), ..., NotImplemented,
    np.dtype("f4"), np.dtype(">i2"), np.dtype("U5"), np.dtype("S"), np.dtype("M8[ns]"), np.dtype(bool), np.dtype("m8"),
]  # fmt: skip
UNKNOWN = [
    1, "a", (1,), [], None, object(), type("D", (dt.date,), {})(2020, 1, 1), slice("a"), slice([]), slice(True),
    dt.datetime(2020, 1, 1, tzinfo=type("Z", (dt.tzinfo,), {})()), dt.time(1, tzinfo=type("Z", (dt.tzinfo,), {})()),
    np.dtype([("a", "i4")]), np.dtype(object), np.dtype(("i4", 3)), type("F", (fractions.Fraction,), {})(1, 2),
    np.dtype("i4", metadata={"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_restored_exactly(value: Any) -> None:
    """Its class, its value and all that equality does not compare; the data goes through MessagePack."""
    plain = encode_immutable(value)
    assert plain is not None
    if type(value) not in (range, fractions.Fraction, uuid.UUID):  # Their integers may be of any size.
        plain = msgpack.unpackb(msgpack.packb(plain))
    made = decode_immutable(plain)

    assert type(made) is type(value)
    assert repr(made) == repr(value)
    assert encode_immutable(made) == encode_immutable(value)
    if isinstance(value, dt.datetime | dt.time):
        assert (made.fold, made.tzinfo, made.utcoffset()) == (value.fold, value.tzinfo, value.utcoffset())
    if isinstance(value, re.Pattern):
        assert made == value
    if isinstance(value, uuid.UUID):
        assert made.is_safe is value.is_safe


def test_singletons_stay_singletons() -> None:
    """UTC, and zones that are known by their keys."""
    assert decode_immutable(encode_immutable(dt.UTC)) is dt.UTC
    assert decode_immutable(encode_immutable(BERLIN)) is BERLIN


@pytest.mark.parametrize("value", UNKNOWN, ids=lambda value: type(value).__name__)
def test_other_values_are_not_encoded(value: Any) -> None:
    """Subclasses, zones and slices of the user's own are not taken for what they resemble."""
    assert encode_immutable(value) is None


def test_a_zone_that_was_read_from_a_file_is_not_encoded() -> None:
    """It has no key to find it by."""
    zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(ZONE_FILE))

    assert encode_immutable(zone) is None
    assert encode_immutable(dt.datetime(2020, 1, 1, tzinfo=zone)) is None


@given(st.decimals() | st.fractions() | st.datetimes() | st.timedeltas() | st.uuids() | st.times() | st.dates())
def test_any_value_is_restored_exactly(value: Any) -> None:
    """Drawn values of the kinds that hypothesis knows."""
    made = decode_immutable(encode_immutable(value))

    assert type(made) is type(value)
    assert repr(made) == repr(value)


LIES: list[Any] = [
    None, [], 5, ["x"], [["date"]], ["date"], ["date", 2020, 13, 1], ["date", 2020.0, 1, 1], ["date", True, 1, 1],
    ["date", 1 << 90, 1, 1], ["datetime", 1, 1, 1, 0, 0, 0, 0, 2, None], ["datetime", 1, 1, 1, 0, 0, 0, 0, 0, ["range", 1, 2, 3]],
    ["time", 25, 0, 0, 0, 0, None], ["timedelta", 1, 90000, 0], ["timedelta", 1 << 80, 0, 0], ["timezone", [2, 0, 0], None],
    ["timezone", 5, None], ["timezone", [0, 0, 0], 5], ["ZoneInfo", "../../etc/passwd"], ["ZoneInfo", "/etc/localtime"],
    ["ZoneInfo", "No/Where"], ["ZoneInfo", 5], ["ZoneInfo", "Europe"], ["Decimal", 0, "x", 1], ["Decimal", 2, "1", 1],
    ["Decimal", 0, "1", "os"], ["Decimal", 0, "1", 1 << 90], ["Decimal", 0, 5, 1], ["Decimal", 0, "²", 1],
    ["Fraction", 1, 0], ["Fraction", 2, 4], ["Fraction", 1, -2], ["Fraction", "1", 2], ["UUID", -1, 0], ["UUID", 1 << 128, 0],
    ["UUID", 5, 7], ["Path", "PosixPath", 5], ["Path", "os", "x"], ["Pattern", "(", 0], ["Pattern", "a", 1 << 7],
    ["Pattern", "a", 1 << 60], ["Pattern", "a" * (1 << 17), 0], ["Pattern", ["a"], 0], ["Pattern", "(" * 5000, 0],
    ["Pattern", b"a", 32], ["range", 1, 2, 0], ["range", 1.0, 2, 1], ["slice", 1, 2], ["slice", "a", 1, 1], ["Ellipsis", 1],
    ["dtype", "O"], ["dtype", "|O"], ["dtype", "i4,i4"], ["dtype", "<i99"], ["dtype", 5], ["dtype", "|V8"],
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: str(lie)[:40])
def test_a_lie_is_refused(lie: Any) -> None:
    """A tape is not trusted: nothing but ValueError."""
    with pytest.raises(ValueError, match=r"^expected "):
        decode_immutable(lie)


def test_data_that_was_mixed_up_gives_a_value_or_value_error() -> None:
    """The kind of one value with the data of another."""
    draws = random.Random(3)
    plain: list[Any] = [encode_immutable(value) for value in VALUES]
    pool = [field for one in plain for field in one] + [None, -1, 1 << 70, "", b"", []]
    for _ in range(5000):
        broken = list(draws.choice(plain))
        for _ in range(draws.randrange(1, 4)):
            broken[draws.randrange(len(broken))] = draws.choice(pool)
        if any(type(one) is int and abs(one) > 1 << 40 for one in broken) and "Decimal" in broken:
            continue
        try:
            decode_immutable(broken)
        except ValueError:
            continue


class _Weight(float):
    """A float with a name."""


class _Apart(str):
    """Texts that are never equal."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (math.nan, "nan"), (1.5, None), (_Weight("nan"), "nan"), (complex(0, math.nan), "nan"), (np.float32("nan"), "nan"),
        (np.datetime64("NaT"), "nan"), (decimal.Decimal("NaN"), "nan"), ((1, (math.nan,)), "nan"), ((1, 2), None),
        (frozenset([math.nan]), "nan"), (_Apart("a"), "_Apart"), ((_Apart("a"),), "_Apart"), ("a", None), (None, None),
        (object(), None), (7, None),
    ],
)  # fmt: skip
def test_values_that_are_found_by_identity_alone(value: Any, name: str | None) -> None:
    """A class that is not looked into has none."""
    assert found_by_identity(value) == name
    assert may_be_found_by_identity(type(value)) or name is None
