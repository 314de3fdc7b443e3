"""Values of recording options: the words that they can be, their limits, and texts such as "500MB" read as numbers.

The options themselves are in recording_options.py.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

import attrs

Durability = Literal["tick", "block", "none"]
DURABILITIES = ("tick", "block", "none")
Blame = Literal["auto", "fields", "phases", "none"]
BLAMES = ("auto", "fields", "phases", "none")
OnError = Literal["continue", "raise"]
ON_ERRORS = ("continue", "raise")
Mode = Literal["events", "changes"]
MODES = ("events", "changes")
Hashes = Literal["auto", "states", "changes"]
HASHES = ("auto", "states", "changes")
ChangeTracking = Literal["auto", "marks", "scan", "pages", "audit"]
CHANGE_TRACKINGS = ("auto", "marks", "scan", "pages", "audit")
LINKED_BYTES_MIN = 1 << 20  # The hash of a smaller state takes a few dozen microseconds at most.

TICKS_MAX = 10**15  # Thirty years of a million ticks a second; far below what the 64 bits of a tick hold.
SPLIT_BYTES_MAX = 10**15
SYNC_S_MAX = 24 * 3600
KEEP_S_MAX = 10 * 366 * 24 * 3600
SEEK_BUDGET_MS_MAX = 3_600_000

_SIZE_UNITS = {"b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_TIME_UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "min": Decimal(60), "h": Decimal(3600)}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s?([A-Za-z]*)")


def ensure_path(path: Any) -> None:
    """Refuse what is not the name of a file. Raises TypeError."""
    if not isinstance(path, str | os.PathLike):
        swapped = "; the path comes first, then the simulation" if hasattr(path, "step") else ""
        shown = type(path).__name__ if swapped else repr(path)
        raise TypeError(f"path={shown}: the name of a file was expected{swapped}")


def check_whole(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse what is no whole number from 1 to the most that the field can be. Raises TypeError or ValueError."""
    if not is_whole(value):
        raise TypeError(f"{field.name}={value!r}: a whole number was expected")
    if value < 1:
        raise ValueError(f"{field.name}={shorten(value)}: a number of at least 1 was expected")
    if value > field.metadata["most"]:
        raise ValueError(f"{field.name}={shorten(value)}: {field.metadata['most']:,} is the most")


def check_seconds(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse what is no number of seconds from 0 to the most that the field can be. Raises TypeError or ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{field.name}={value!r}: a number of seconds was expected")
    if not (math.isfinite(value) and 0 <= value <= field.metadata["most"]):
        raise ValueError(f"{field.name}={value!r}: 0 to {field.metadata['most']:,} seconds were expected")


def check_flag(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse what is no bool. Raises TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"{field.name}={value!r}: True or False was expected")


def one_of(words: tuple[str, ...]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """A check that refuses other words. It raises ValueError."""

    def check(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
        if value not in words:
            listed = ", ".join(f'"{word}"' for word in words[:-1])
            raise ValueError(f'{field.name}={value!r}: {listed} or "{words[-1]}" was expected')

    return check


@attrs.frozen
class SyncRule:
    """When the file is forced to the disk.

    Attributes:
        sync_interval_s: seconds between two syncs; None for never.
        sync_each_block: each block is synced.
    """

    sync_interval_s: float | None = attrs.field(
        validator=attrs.validators.optional(check_seconds), metadata={"most": SYNC_S_MAX}
    )
    sync_each_block: bool = attrs.field(validator=check_flag)


@attrs.frozen
class KeepLimit:
    """How much of the end of a run a ring keeps at least; both are None for a tape that keeps everything.

    Attributes:
        keep_ticks: in ticks.
        keep_s: in seconds.
    """

    keep_ticks: int | None = attrs.field(validator=attrs.validators.optional(check_whole), metadata={"most": TICKS_MAX})
    keep_s: float | None = attrs.field(
        validator=attrs.validators.optional(check_seconds), metadata={"most": KEEP_S_MAX}
    )


@attrs.frozen
class SplitSize:
    """From which size on, in bytes, a new file is begun; None for never."""

    split_bytes: int | None = attrs.field(
        validator=attrs.validators.optional(check_whole), metadata={"most": SPLIT_BYTES_MAX}
    )


def to_sync(given: SyncRule | str | None) -> SyncRule | None:
    """A rule, or the text of one, as parse_sync takes it; None if nothing was given."""
    return given if isinstance(given, SyncRule) or given is None else SyncRule(*parse_sync(given))


def to_keep(given: KeepLimit | int | str | None) -> KeepLimit:
    """A limit, or what parse_keep takes."""
    return given if isinstance(given, KeepLimit) else KeepLimit(*parse_keep(given))


def to_split(given: SplitSize | int | str | None) -> SplitSize:
    """A size, or what parse_size takes."""
    return given if isinstance(given, SplitSize) else SplitSize(parse_size(given))


def parse_sync(sync: str) -> tuple[float | None, bool]:
    """The time between two syncs, None for never, and whether each block is synced. Raises ValueError or TypeError."""
    expected = 'a time such as "1s", "block" or "never" was expected'
    if not isinstance(sync, str):
        raise TypeError(f"sync={sync!r}: {expected}")
    if sync == "never":
        return None, False
    if sync == "block":
        return 0.0, True
    seconds = _seconds(sync)
    if seconds is None:
        raise ValueError(f"sync={shorten(sync)}: {expected}")
    if not 0 < seconds <= SYNC_S_MAX:
        raise ValueError(f'sync={shorten(sync)}: a time above zero and up to a day was expected; or "block" or "never"')
    return float(seconds), False


def parse_keep(keep: int | str | None) -> tuple[int | None, float | None]:
    """Ticks or seconds to keep: a number is ticks, "60s" and "5min" are times. Raises ValueError or TypeError."""
    if keep is None:
        return None, None
    expected = 'a number of ticks, at least 1, or a time such as "60s" was expected'
    seconds = _seconds(keep) if isinstance(keep, str) else None
    if seconds is not None and seconds > 0:
        if seconds > KEEP_S_MAX:
            raise ValueError(f"keep={shorten(keep)}: ten years are the most")
        return None, float(seconds)
    if isinstance(keep, str):
        ticks = Decimal(keep) if re.fullmatch(r"[0-9]+", keep) else Decimal(0)
    else:
        ticks = Decimal(to_whole("keep", keep, expected))
    if ticks < 1:
        raise ValueError(f"keep={shorten(keep)}: {expected}")
    if ticks > TICKS_MAX:
        raise ValueError(f"keep={shorten(keep)}: {TICKS_MAX:,} ticks are the most")
    return int(ticks), None


def parse_size(size: int | str | None) -> int | None:
    """Bytes: a number, or one with a unit such as "500MB" or "1GiB". Raises ValueError or TypeError."""
    if size is None:
        return None
    expected = 'a size such as "500MB" was expected'
    if isinstance(size, str):
        match = _AMOUNT.fullmatch(size)
        unit = _size_unit(match[2]) if match else None
        found = Decimal(match[1]) * unit if match and unit else Decimal(0)
    else:
        found = Decimal(to_whole("split", size, expected))
    if found < 1:
        raise ValueError(f"split={shorten(size)}: {expected}")
    if found > SPLIT_BYTES_MAX:
        raise ValueError(f"split={shorten(size)}: 1000TB are the most")
    return int(found)


def _size_unit(text: str) -> int | None:
    """Bytes of a unit, in whatever case; None for one that there is not. kB is 1000, KiB is 1024."""
    match = re.fullmatch(r"(b?)|([kmgt])(i?)b?", text.lower())
    if match is None:
        return None
    return (_BINARY_UNITS if match[3] else _SIZE_UNITS)[match[2] or "b"]


def _seconds(text: str) -> Decimal | None:
    """What a time such as 500ms, 60s, 5m, 5min or 1h is; None if it is none."""
    match = _AMOUNT.fullmatch(text)
    unit = _TIME_UNITS.get(match[2].lower()) if match else None
    return Decimal(match[1]) * unit if match and unit is not None else None


def to_whole(name: str, value: Any, expected: str = "a whole number was expected") -> int:
    """A whole number, also one of NumPy's. Raises TypeError, naming the argument."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}={value!r}: {expected}")


def shorten(value: Any) -> str:
    """A value as it was given, for a message; the middle of a very long one is left out."""
    text = repr(value) if not is_whole(value) or abs(value) < 10**40 else f"{'-' * (value < 0)}1e{_digits(value)}"
    return text if len(text) <= 60 else f"{text[:28]}…{text[-28:]}"


def _digits(value: int) -> int:
    """About how many decimal digits a number has; str refuses the longest ones."""
    return int(abs(value).bit_length() * math.log10(2))


def is_whole(value: Any) -> bool:
    """Return True for an int that is not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)
