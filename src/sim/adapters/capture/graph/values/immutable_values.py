"""Immutable values of the standard library as plain data, exactly and without pickle: dates, paths, fractions, patterns.

Numbers, texts, bytes, tuples and frozensets are not handled here. A value is of exactly one of the classes in this
module; for subclasses, which may have methods and attributes of their own, encode_immutable returns None.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import pathlib
import re
import uuid
import warnings
import zoneinfo
from collections.abc import Callable
from typing import Any

import numpy as np

PATTERN_MAX = 1 << 16
DIGITS_MAX = 1 << 20
_KNOWN_FLAGS = int(re.ASCII | re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE)
_ZONE_KEY = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")
_DTYPE_TEXT = re.compile(r"[<>|][?bBiufcSUmM]\d{1,9}(\[\d{0,9}[A-Za-zμ]{1,7}\])?")
_PATHS: dict[str, type[pathlib.PurePath]] = {
    kind.__name__: kind
    for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
}


def encode_immutable(value: Any) -> list[Any] | None:
    """The value as a list of its kind and plain data; None if it is of no kind that is known here."""
    encode = _ENCODERS.get(type(value))
    return None if encode is None else encode(value)


def is_immutable_kind(kind: type) -> bool:
    """Return True for a class of which some values are known here."""
    return kind in _ENCODERS


def decode_immutable(plain: Any) -> Any:
    """The value that encode_immutable described. Raises ValueError for anything else."""
    match plain:
        case [str(kind), *data] if kind in _DECODERS:
            try:
                return _DECODERS[kind](*data)
            except _ERRORS as error:
                raise ValueError(f"expected the data of a {kind}, got other data ({error})") from None
    raise ValueError(f"expected an immutable value, got {str(plain)[:40]}")


_ERRORS = (
    ValueError, TypeError, ArithmeticError, LookupError, re.error, RecursionError, NotImplementedError, OSError,
)  # fmt: skip


def _integers(*values: Any) -> None:
    if any(type(one) is not int for one in values):
        raise TypeError("not integers")


# --- dates and times


def _encode_zone(zone: dt.tzinfo | None) -> list[Any] | None:
    """None for a time without a zone; [] for a zone of a class that is not known."""
    return None if zone is None else encode_immutable(zone) or []


def _decode_zone(plain: Any) -> dt.tzinfo | None:
    zone = None if plain is None else decode_immutable(plain)
    if zone is not None and type(zone) not in (dt.timezone, zoneinfo.ZoneInfo):
        raise TypeError("not a time zone")
    return zone


def _encode_datetime(value: dt.datetime) -> list[Any] | None:
    zone = _encode_zone(value.tzinfo)
    fields = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
    return None if zone == [] else ["datetime", *fields, value.fold, zone]


def _decode_datetime(*data: Any) -> dt.datetime:
    *fields, fold, zone = data
    _integers(*fields, fold)
    year, month, day, hour, minute, second, microsecond = fields
    return dt.datetime(year, month, day, hour, minute, second, microsecond, _decode_zone(zone), fold=fold)


def _encode_time(value: dt.time) -> list[Any] | None:
    zone = _encode_zone(value.tzinfo)
    fields = [value.hour, value.minute, value.second, value.microsecond]
    return None if zone == [] else ["time", *fields, value.fold, zone]


def _decode_time(*data: Any) -> dt.time:
    *fields, fold, zone = data
    _integers(*fields, fold)
    hour, minute, second, microsecond = fields
    return dt.time(hour, minute, second, microsecond, _decode_zone(zone), fold=fold)


def _decode_date(year: Any, month: Any, day: Any) -> dt.date:
    _integers(year, month, day)
    return dt.date(year, month, day)


def _decode_duration(days: Any, seconds: Any, microseconds: Any) -> dt.timedelta:
    _integers(days, seconds, microseconds)
    made = dt.timedelta(days, seconds, microseconds)
    if (made.days, made.seconds, made.microseconds) != (days, seconds, microseconds):
        raise ValueError("not normalized")
    return made


def _encode_timezone(value: dt.timezone) -> list[Any]:
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]  # A name is there only if it was given.
    return ["timezone", [offset.days, offset.seconds, offset.microseconds], name[0] if name else None]


def _decode_timezone(offset: Any, name: Any) -> dt.timezone:
    return dt.timezone(_decode_duration(*offset)) if name is None else dt.timezone(_decode_duration(*offset), name)


def _encode_zone_info(value: zoneinfo.ZoneInfo) -> list[Any] | None:
    key: str | None = value.key  # Without a key, it was read from a file.
    return None if key is None else ["ZoneInfo", key]


def _decode_zone_info(key: Any) -> zoneinfo.ZoneInfo:
    if type(key) is not str or not _ZONE_KEY.fullmatch(key):
        raise TypeError("not the key of a time zone")
    return zoneinfo.ZoneInfo(key)


# --- numbers


def _encode_decimal(value: decimal.Decimal) -> list[Any]:
    sign, digits, exponent = value.as_tuple()
    return ["Decimal", sign, "".join(map(str, digits)), exponent]


def _decode_decimal(sign: Any, digits: Any, exponent: Any) -> decimal.Decimal:
    if type(exponent) is not int and exponent not in ("F", "n", "N"):
        raise TypeError("not an exponent")
    if type(digits) is not str or len(digits) > DIGITS_MAX or (digits and not (digits.isascii() and digits.isdigit())):
        raise TypeError("not digits")
    _integers(sign)
    return decimal.Decimal((sign, tuple(map(int, digits)), exponent))


def _decode_fraction(numerator: Any, denominator: Any) -> fractions.Fraction:
    _integers(numerator, denominator)
    made = fractions.Fraction(numerator, denominator)
    if made.denominator != denominator:
        raise ValueError("not in lowest terms")
    return made


def _decode_uuid(number: Any, safety: Any) -> uuid.UUID:
    _integers(number)
    return uuid.UUID(int=number, is_safe=uuid.SafeUUID(safety))


# --- others


def _decode_path(name: Any, text: Any) -> pathlib.PurePath:
    if type(text) is not str or name not in _PATHS:
        raise TypeError("not a path")
    return _PATHS[name](text)


def _encode_pattern(value: re.Pattern[Any]) -> list[Any] | None:
    if value.flags & ~_KNOWN_FLAGS or len(value.pattern) > PATTERN_MAX:
        return None
    return ["Pattern", value.pattern, value.flags]


def _decode_pattern(pattern: Any, flags: Any) -> re.Pattern[Any]:
    _integers(flags)
    if type(pattern) not in (str, bytes) or flags & ~_KNOWN_FLAGS or len(pattern) > PATTERN_MAX:
        raise TypeError("not a pattern")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The user has seen them when the pattern was compiled first.
        return re.compile(pattern, flags)


def _decode_range(start: Any, stop: Any, step: Any) -> range:
    _integers(start, stop, step)
    return range(start, stop, step)


def _encode_slice(value: slice) -> list[Any] | None:
    fields = [value.start, value.stop, value.step]
    return ["slice", *fields] if all(one is None or type(one) is int for one in fields) else None


def _decode_slice(start: Any, stop: Any, step: Any) -> slice:
    _integers(*(one for one in (start, stop, step) if one is not None))
    return slice(start, stop, step)


def _encode_dtype(value: np.dtype[Any]) -> list[Any] | None:
    is_plain = np.dtype(value.str) == value and _DTYPE_TEXT.fullmatch(value.str) and not value.metadata
    return ["dtype", value.str] if is_plain else None


def _decode_dtype(text: Any) -> np.dtype[Any]:
    if type(text) is not str or not _DTYPE_TEXT.fullmatch(text):
        raise TypeError("not a dtype")
    return np.dtype(text)


_ENCODERS: dict[type, Callable[[Any], list[Any] | None]] = {
    dt.datetime: _encode_datetime,
    dt.date: lambda value: ["date", value.year, value.month, value.day],
    dt.time: _encode_time,
    dt.timedelta: lambda value: ["timedelta", value.days, value.seconds, value.microseconds],
    dt.timezone: _encode_timezone,
    zoneinfo.ZoneInfo: _encode_zone_info,
    decimal.Decimal: _encode_decimal,
    fractions.Fraction: lambda value: ["Fraction", value.numerator, value.denominator],
    uuid.UUID: lambda value: ["UUID", value.int, value.is_safe.value],
    **dict.fromkeys(_PATHS.values(), lambda value: ["Path", type(value).__name__, str(value)]),
    re.Pattern: _encode_pattern,
    range: lambda value: ["range", value.start, value.stop, value.step],
    slice: _encode_slice,
    type(...): lambda _: ["Ellipsis"],
    type(NotImplemented): lambda _: ["NotImplemented"],
    **dict.fromkeys({type(np.dtype(code)) for code in np.typecodes["All"] + "?SUmM" if code != "O"}, _encode_dtype),
}
_DECODERS: dict[str, Callable[..., Any]] = {
    "datetime": _decode_datetime,
    "date": _decode_date,
    "time": _decode_time,
    "timedelta": _decode_duration,
    "timezone": _decode_timezone,
    "ZoneInfo": _decode_zone_info,
    "Decimal": _decode_decimal,
    "Fraction": _decode_fraction,
    "UUID": _decode_uuid,
    "Path": _decode_path,
    "Pattern": _decode_pattern,
    "range": _decode_range,
    "slice": _decode_slice,
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "dtype": _decode_dtype,
}
