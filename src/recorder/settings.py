"""Values of recording options: the words allowed, the limits, and the parsing of texts such as "500MB".

The options themselves are in recording_options.py.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal

import attrs

from recorder.errors import PeerDesyncError
from recorder.format.blocks.file_header import RUN_ID_BYTES

Durability = Literal["tick", "block", "none"]
DURABILITIES = ("tick", "block", "none")
Blame = Literal["auto", "fields", "phases", "none"]
BLAMES = ("auto", "fields", "phases", "none")
OnDesync = Literal["raise", "warn"] | Callable[[PeerDesyncError], object]
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
TRIAL_MS_MAX = 3_600_000

_SIZE_UNITS = {"b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_TIME_UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "min": Decimal(60), "h": Decimal(3600)}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s?([A-Za-z]*)")


def ensure_path(path: Any) -> None:
    """Raise TypeError for anything that is not a file name."""
    if not isinstance(path, str | os.PathLike):
        swapped = "; the path comes first, then the simulation" if hasattr(path, "step") else ""
        shown = type(path).__name__ if swapped else repr(path)
        raise TypeError(f"path={shown}: expected a file name{swapped}")


def check_whole(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError or ValueError for anything but a whole number from 1 to the field's maximum."""
    maximum = field.metadata["maximum"]
    if not is_whole(value):
        raise TypeError(f"{field.name}={value!r}: expected a whole number")
    if not 1 <= value <= maximum:
        raise ValueError(f"{field.name}={shorten(value)}: expected a whole number from 1 to {maximum:,}")


def check_seconds(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError or ValueError for anything but a number of seconds from 0 to the field's maximum."""
    maximum = field.metadata["maximum"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{field.name}={value!r}: expected a number of seconds")
    if not (math.isfinite(value) and 0 <= value <= maximum):
        raise ValueError(f"{field.name}={value!r}: expected 0 to {maximum:,} seconds")


def check_flag(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError for anything but a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{field.name}={value!r}: expected True or False")


def one_of(words: tuple[str, ...]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Make a check that raises ValueError for a word that is not in the list."""

    def check(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
        if value not in words:
            listed = ", ".join(f'"{word}"' for word in words[:-1])
            raise ValueError(f'{field.name}={value!r}: expected {listed} or "{words[-1]}"')

    return check


@attrs.frozen
class SyncRule:
    """The times at which the file is forced to the disk.

    Attributes:
        sync_interval_s: seconds between two syncs; None disables them.
        sync_each_block: True to sync after each block.
    """

    sync_interval_s: float | None = attrs.field(
        validator=attrs.validators.optional(check_seconds), metadata={"maximum": SYNC_S_MAX}
    )
    sync_each_block: bool = attrs.field(validator=check_flag)


@attrs.frozen
class KeepLimit:
    """The minimum that a ring keeps of the end of a run; both are None for a tape that keeps everything.

    Attributes:
        keep_ticks: in ticks.
        keep_s: in seconds.
    """

    keep_ticks: int | None = attrs.field(
        validator=attrs.validators.optional(check_whole), metadata={"maximum": TICKS_MAX}
    )
    keep_s: float | None = attrs.field(
        validator=attrs.validators.optional(check_seconds), metadata={"maximum": KEEP_S_MAX}
    )


@attrs.frozen
class SplitSize:
    """The size in bytes from which a new file is begun; None for a single file."""

    split_bytes: int | None = attrs.field(
        validator=attrs.validators.optional(check_whole), metadata={"maximum": SPLIT_BYTES_MAX}
    )


def to_sync(sync: SyncRule | str | None) -> SyncRule | None:
    """Convert an argument for parse_sync to a rule; a rule and None are returned unchanged."""
    return sync if isinstance(sync, SyncRule) or sync is None else SyncRule(*parse_sync(sync))


def to_keep(keep: KeepLimit | int | str | None) -> KeepLimit:
    """Convert an argument for parse_keep to a limit; a limit is returned unchanged."""
    return keep if isinstance(keep, KeepLimit) else KeepLimit(*parse_keep(keep))


def to_split(split: SplitSize | int | str | None) -> SplitSize:
    """Convert an argument for parse_size to a split size; a split size is returned unchanged."""
    return split if isinstance(split, SplitSize) else SplitSize(parse_size(split))


def parse_sync(sync: str) -> tuple[float | None, bool]:
    """Parse a sync rule: the interval in seconds (None for never), and True if each block is synced.

    Raises ValueError or TypeError.
    """
    expected = 'expected a time such as "1s", "block" or "never"'
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
        raise ValueError(f'sync={shorten(sync)}: expected a time above zero and up to a day, "block" or "never"')
    return float(seconds), False


def parse_keep(keep: int | str | None) -> tuple[int | None, float | None]:
    """Parse a keep limit as ticks or seconds: a number is ticks, "60s" and "5min" are times.

    Raises ValueError or TypeError.
    """
    if keep is None:
        return None, None
    expected = 'expected a number of ticks, at least 1, or a time such as "60s"'
    seconds = _seconds(keep) if isinstance(keep, str) else None
    if seconds is not None and seconds > 0:
        if seconds > KEEP_S_MAX:
            raise ValueError(f"keep={shorten(keep)}: expected at most ten years")
        return None, float(seconds)
    if isinstance(keep, str):
        ticks = Decimal(keep) if re.fullmatch(r"[0-9]+", keep) else Decimal(0)
    else:
        ticks = Decimal(to_whole("keep", keep, expected))
    if ticks < 1:
        raise ValueError(f"keep={shorten(keep)}: {expected}")
    if ticks > TICKS_MAX:
        raise ValueError(f"keep={shorten(keep)}: expected at most {TICKS_MAX:,} ticks")
    return int(ticks), None


def parse_size(size: int | str | None) -> int | None:
    """Parse a size in bytes: a number, or one with a unit such as "500MB" or "1GiB". Raises ValueError or TypeError."""
    if size is None:
        return None
    expected = 'expected a size such as "500MB"'
    if isinstance(size, str):
        match = _AMOUNT.fullmatch(size)
        unit = _size_unit(match[2]) if match else None
        size_bytes = Decimal(match[1]) * unit if match and unit else Decimal(0)
    else:
        size_bytes = Decimal(to_whole("split", size, expected))
    if size_bytes < 1:
        raise ValueError(f"split={shorten(size)}: {expected}")
    if size_bytes > SPLIT_BYTES_MAX:
        raise ValueError(f"split={shorten(size)}: expected at most 1000TB")
    return int(size_bytes)


def _size_unit(text: str) -> int | None:
    """Bytes of a unit, in upper or lower case; None for an unknown one. kB is 1000, KiB is 1024."""
    match = re.fullmatch(r"(b?)|([kmgt])(i?)b?", text.lower())
    if match is None:
        return None
    return (_BINARY_UNITS if match[3] else _SIZE_UNITS)[match[2] or "b"]


def _seconds(text: str) -> Decimal | None:
    """Parse a time such as 500ms, 60s, 5m, 5min or 1h; None for any other text."""
    match = _AMOUNT.fullmatch(text)
    unit = _TIME_UNITS.get(match[2].lower()) if match else None
    return Decimal(match[1]) * unit if match and unit is not None else None


def to_whole(name: str, value: Any, expected: str = "expected a whole number") -> int:
    """Convert a whole number, also a NumPy integer, to int. Raises TypeError that names the argument."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}={value!r}: {expected}")


def shorten(value: Any) -> str:
    """The repr of a value for a message; the middle of a very long one is left out."""
    text = repr(value) if not is_whole(value) or abs(value) < 10**40 else f"{'-' * (value < 0)}1e{_digits(value)}"
    return text if len(text) <= 60 else f"{text[:28]}…{text[-28:]}"


def _digits(value: int) -> int:
    """The approximate number of decimal digits; str refuses to convert the longest numbers."""
    return int(abs(value).bit_length() * math.log10(2))


def is_whole(value: Any) -> bool:
    """Return True for an int that is not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_budget(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError or ValueError unless it is a number of milliseconds, above 0 and up to the field's maximum."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{field.name}={value!r}: expected a number of milliseconds")
    if not (math.isfinite(value) and 0 < value <= field.metadata["maximum"]):
        raise ValueError(f"{field.name}={value!r}: expected more than 0 and at most an hour, in milliseconds")


def check_trial(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError or ValueError unless it is a number of milliseconds from 0 up to the field's maximum."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{field.name}={value!r}: expected a number of milliseconds")
    if not (math.isfinite(value) and 0 <= value <= field.metadata["maximum"]):
        raise ValueError(f"{field.name}={value!r}: expected 0 (no trial) to an hour, in milliseconds")


def check_choice(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError unless it is True, False or None."""
    if not isinstance(value, bool | None):
        raise TypeError(f"{field.name}={value!r}: expected True, False or None")


def check_run_id(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError or ValueError unless it is 16 bytes or None."""
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"{field.name}={value!r}: expected {RUN_ID_BYTES} bytes")
    if value is not None and len(value) != RUN_ID_BYTES:
        raise ValueError(f"{field.name}={value!r}: expected {RUN_ID_BYTES} bytes")


def check_notes(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError unless the value is None or a mapping."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{field.name}={value!r}: expected a mapping of names to plain data")


def check_on_desync(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise ValueError for anything but a known response."""
    if value not in ("raise", "warn") and not callable(value):
        raise ValueError(f'{field.name}={value!r}: expected "raise", "warn" or a function')


def check_function(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise TypeError unless the value is None or a function of one argument; of events also True or False."""
    is_choice = value is None or (field.name == "events" and isinstance(value, bool))
    if is_choice:
        return
    wanted = "True, False, None or a function" if field.name == "events" else "a function"
    if not callable(value):
        raise TypeError(f"{field.name}={value!r}: expected {wanted} that takes the recorded object")
    try:
        inspect.signature(value).bind(None)
    except ValueError:
        return  # Some functions of extension modules do not expose their parameters.
    except TypeError as error:
        raise TypeError(f"{field.name}: expected a function that takes the recorded object: {error}") from None
