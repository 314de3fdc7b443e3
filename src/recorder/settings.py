"""What a recording may be told: its arguments, checked, with one clear sentence for each that cannot be."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import attrs

from recorder.format.blocks.file_header import RUN_ID_BYTES

Durability = Literal["tick", "block", "none"]
Blame = Literal["auto", "fields", "phases", "none"]
BLAMES = ("auto", "fields", "phases", "none")
OnError = Literal["continue", "raise"]
Mode = Literal["events", "changes"]
MODES = ("events", "changes")
Hashes = Literal["auto", "states", "changes"]
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


def _check_whole(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not _is_whole(value):
        raise TypeError(f"{attribute.name}={value!r}: a whole number was expected")
    if value < 1:
        raise ValueError(f"{attribute.name}={_shown(value)}: a number of at least 1 was expected")
    if value > attribute.metadata["most"]:
        raise ValueError(f"{attribute.name}={_shown(value)}: {attribute.metadata['most']:,} is the most")


def _check_seconds(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{attribute.name}={value!r}: a number of seconds was expected")
    if not (math.isfinite(value) and 0 <= value <= attribute.metadata["most"]):
        raise ValueError(f"{attribute.name}={value!r}: 0 to {attribute.metadata['most']:,} seconds were expected")


def _check_budget(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{attribute.name}={value!r}: a number of milliseconds was expected")
    if not (math.isfinite(value) and 0 < value <= attribute.metadata["most"]):
        raise ValueError(f"{attribute.name}={value!r}: more than 0 and up to an hour was expected")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_one_of = attrs.validators.in_
_optional = attrs.validators.optional
_flag = attrs.validators.instance_of(bool)


@attrs.frozen
class Settings:
    """How a recording is made. Raises TypeError or ValueError, naming the setting, for what cannot be.

    Attributes:
        keyframe_interval_ticks: ticks from one keyframe to the next, at least 1.
        full_every: each so many keyframes one is full, at least 1.
        durability: "tick", "block" or "none".
        sync_interval_s: seconds between two syncs; None for never.
        sync_each_block: whether each block is synced.
        on_error: "continue" or "raise".
        keep_ticks, keep_s: of a ring, how many ticks or seconds at least; None for no such limit.
        split_bytes: from which size on a new segment is begun; None for never.
        deterministic: equal runs give equal bytes.
        blame: what frames say for the case that states part, "auto", "fields", "phases" or "none".
        seek_budget_ms: what a seek may take, from which the ticks between keyframes follow; None for a fixed number.
        hashes: what each frame has, the hash of the "states", or a link of the "changes".
    """

    keyframe_interval_ticks: int = attrs.field(validator=_check_whole, metadata={"most": TICKS_MAX})
    full_every: int = attrs.field(validator=_check_whole, metadata={"most": TICKS_MAX})
    durability: Durability = attrs.field(validator=_one_of(("tick", "block", "none")))
    sync_interval_s: float | None = attrs.field(validator=_optional(_check_seconds), metadata={"most": SYNC_S_MAX})
    sync_each_block: bool = attrs.field(validator=_flag)
    on_error: OnError = attrs.field(validator=_one_of(("continue", "raise")))
    keep_ticks: int | None = attrs.field(validator=_optional(_check_whole), metadata={"most": TICKS_MAX})
    keep_s: float | None = attrs.field(validator=_optional(_check_seconds), metadata={"most": KEEP_S_MAX})
    split_bytes: int | None = attrs.field(validator=_optional(_check_whole), metadata={"most": SPLIT_BYTES_MAX})
    deterministic: bool = attrs.field(validator=_flag)
    blame: Blame = attrs.field(default="none", validator=_one_of(BLAMES))  # Tapes from before say nothing about it.
    seek_budget_ms: float | None = attrs.field(
        default=None, validator=_optional(_check_budget), metadata={"most": SEEK_BUDGET_MS_MAX}
    )
    hashes: Literal["states", "changes"] = attrs.field(default="states", validator=_one_of(("states", "changes")))

    @property
    def is_ring(self) -> bool:
        """Whether only the last ticks are kept."""
        return self.keep_ticks is not None or self.keep_s is not None


def make_settings(
    *,
    keyframe_interval_ticks: int,
    full_every: int,
    durability: str,
    sync: str | None,
    on_error: str,
    keep: int | str | None,
    split: int | str | None,
    deterministic: bool,
    blame: str = "auto",
    seek_budget_ms: float | None = None,
    hashes: Literal["states", "changes"] = "states",
) -> Settings:
    """Settings from what a user says; see Recorder. Raises ValueError or TypeError, naming the argument."""
    if durability not in ("tick", "block", "none"):
        raise ValueError(f'durability={durability!r}: "tick", "block" or "none" was expected')
    if on_error not in ("continue", "raise"):
        raise ValueError(f'on_error={on_error!r}: "continue" or "raise" was expected')
    if blame not in BLAMES:
        raise ValueError(f'blame={blame!r}: "auto", "fields", "phases" or "none" was expected')
    if not isinstance(deterministic, bool):
        raise TypeError(f"deterministic={deterministic!r}: True or False was expected")
    if sync is None:
        sync = "never" if durability == "none" else "1s"
    elif durability == "none" and sync != "never":
        raise ValueError(f'sync={sync!r} with durability="none", which never syncs')
    sync_interval_s, sync_each_block = parse_sync(sync)
    if seek_budget_ms is not None and deterministic:
        raise ValueError(
            f"seek_budget_ms={seek_budget_ms!r} with deterministic: give keyframe_interval_ticks, no clock"
        )
    keep_ticks, keep_s = parse_keep(keep)
    if keep_s is not None and deterministic:
        raise ValueError(f"keep={keep!r} with deterministic: give a number of ticks, no clock")
    return Settings(
        _whole("keyframe_interval_ticks", keyframe_interval_ticks),
        _whole("full_every", full_every),
        durability,  # type: ignore[arg-type]
        sync_interval_s,
        sync_each_block,
        on_error,  # type: ignore[arg-type]
        keep_ticks,
        keep_s,
        parse_size(split),
        deterministic,
        blame,  # type: ignore[arg-type]
        seek_budget_ms,
        hashes,
    )


def choose_hashes(hashes: Hashes, mode: Mode, state_bytes: int, *, marks: bool) -> Literal["states", "changes"]:
    """What frames have, of a state so large; marks: whether what changes is known by marks.

    Raises ValueError for what cannot be.
    """
    if hashes not in ("auto", "states", "changes"):
        raise ValueError(f'hashes={hashes!r}: "auto", "states" or "changes" was expected')
    if hashes == "auto":
        return "changes" if mode == "changes" and marks and state_bytes >= LINKED_BYTES_MIN else "states"
    if hashes == "changes" and mode != "changes":
        raise ValueError('hashes="changes": the changes are on the tape with mode="changes" only')
    if hashes == "changes" and not marks:
        raise ValueError('hashes="changes": the simulation does not mark what it writes; give hashes="states"')
    return hashes


def ensure_arguments(path: Any, run_id: Any, notes: Any) -> None:
    """Refuse other arguments of a recorder that cannot be. Raises ValueError or TypeError, naming the argument."""
    if not isinstance(path, str | os.PathLike):
        swapped = "; the path comes first, then the simulation" if hasattr(path, "step") else ""
        shown = type(path).__name__ if swapped else repr(path)
        raise TypeError(f"path={shown}: the name of a file was expected{swapped}")
    if run_id is not None and not isinstance(run_id, bytes):
        raise TypeError(f"run_id={run_id!r}: {RUN_ID_BYTES} bytes were expected")
    if run_id is not None and len(run_id) != RUN_ID_BYTES:
        raise ValueError(f"run_id={run_id!r}: {RUN_ID_BYTES} bytes were expected")
    if notes is not None and not isinstance(notes, Mapping):
        raise TypeError(f"notes={notes!r}: a mapping of names to plain data was expected")


def settings_from(known: Mapping[str, Any]) -> Settings:
    """The settings that a tape names. Raises KeyError for other names, TypeError or ValueError for other values."""
    fields = attrs.fields(Settings)
    names = {field.name for field in fields}
    if set(known) | {field.name for field in fields if field.default is not attrs.NOTHING} != names:
        raise KeyError(*sorted({str(name) for name in known} ^ names))
    try:
        return Settings(**known)
    except TypeError as error:
        raise TypeError(error.args[0]) from None  # attrs adds what it knows about the attribute.
    except ValueError as error:
        raise ValueError(error.args[0]) from None


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
        raise ValueError(f"sync={_shown(sync)}: {expected}")
    if not 0 < seconds <= SYNC_S_MAX:
        raise ValueError(f'sync={_shown(sync)}: a time above zero and up to a day was expected; or "block" or "never"')
    return float(seconds), False


def parse_keep(keep: int | str | None) -> tuple[int | None, float | None]:
    """Ticks or seconds to keep: a number is ticks, "60s" and "5min" are times. Raises ValueError or TypeError."""
    if keep is None:
        return None, None
    expected = 'a number of ticks, at least 1, or a time such as "60s" was expected'
    seconds = _seconds(keep) if isinstance(keep, str) else None
    if seconds is not None and seconds > 0:
        if seconds > KEEP_S_MAX:
            raise ValueError(f"keep={_shown(keep)}: ten years are the most")
        return None, float(seconds)
    if isinstance(keep, str):
        ticks = Decimal(keep) if re.fullmatch(r"[0-9]+", keep) else Decimal(0)
    else:
        ticks = Decimal(_whole("keep", keep, expected))
    if ticks < 1:
        raise ValueError(f"keep={_shown(keep)}: {expected}")
    if ticks > TICKS_MAX:
        raise ValueError(f"keep={_shown(keep)}: {TICKS_MAX:,} ticks are the most")
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
        found = Decimal(_whole("split", size, expected))
    if found < 1:
        raise ValueError(f"split={_shown(size)}: {expected}")
    if found > SPLIT_BYTES_MAX:
        raise ValueError(f"split={_shown(size)}: 1000TB are the most")
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


def _whole(name: str, value: Any, expected: str = "a whole number was expected") -> int:
    """A whole number, also one of NumPy's. Raises TypeError, naming the argument."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}={value!r}: {expected}")


def _shown(value: Any) -> str:
    """What a user gave, as it was given; the middle of what is very long is left out."""
    text = repr(value) if not _is_whole(value) or abs(value) < 10**40 else f"{'-' * (value < 0)}1e{_digits(value)}"
    return text if len(text) <= 60 else f"{text[:28]}…{text[-28:]}"


def _digits(value: int) -> int:
    """About how many decimal digits a number has; str refuses the longest ones."""
    return int(abs(value).bit_length() * math.log10(2))
