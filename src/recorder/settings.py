"""What a recording may be told: its arguments, checked, with one clear sentence for each that cannot be."""

from __future__ import annotations

import re
from typing import Literal

import attrs

Durability = Literal["tick", "block", "none"]
OnError = Literal["continue", "raise"]

_SIZE_UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@attrs.frozen
class Settings:
    """How a recording is made.

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
    """

    keyframe_interval_ticks: int
    full_every: int
    durability: Durability
    sync_interval_s: float | None
    sync_each_block: bool
    on_error: OnError
    keep_ticks: int | None
    keep_s: float | None
    split_bytes: int | None
    deterministic: bool

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
) -> Settings:
    """Settings from what a user says; see Recorder. Raises ValueError."""
    if keyframe_interval_ticks < 1 or full_every < 1:
        raise ValueError("keyframe_interval_ticks and full_every must be at least 1")
    if durability not in ("tick", "block", "none"):
        raise ValueError(f'durability={durability!r}: "tick", "block" or "none" was expected')
    if on_error not in ("continue", "raise"):
        raise ValueError(f'on_error={on_error!r}: "continue" or "raise" was expected')
    if sync is None:
        sync = "never" if durability == "none" else "1s"
    elif durability == "none" and sync != "never":
        raise ValueError(f'sync={sync!r} with durability="none", which never syncs')
    sync_interval_s, sync_each_block = parse_sync(sync)
    keep_ticks, keep_s = parse_keep(keep)
    if keep_s is not None and deterministic:
        raise ValueError(f"keep={keep!r} with deterministic: give a number of ticks, no clock")
    return Settings(
        keyframe_interval_ticks,
        full_every,
        durability,  # type: ignore[arg-type]
        sync_interval_s,
        sync_each_block,
        on_error,  # type: ignore[arg-type]
        keep_ticks,
        keep_s,
        parse_size(split),
        deterministic,
    )


def parse_sync(sync: str) -> tuple[float | None, bool]:
    """The time between two syncs, None for never, and whether each block is synced. Raises ValueError."""
    if sync == "never":
        return None, False
    if sync == "block":
        return 0.0, True
    if not re.fullmatch(r"\d+(\.\d+)?s", sync):
        raise ValueError(f'sync={sync!r}: a time such as "1s", "block" or "never" was expected')
    return float(sync[:-1]), False


def parse_keep(keep: int | str | None) -> tuple[int | None, float | None]:
    """Ticks or seconds to keep: a number is ticks, "60s" and "5min" are times. Raises ValueError."""
    if keep is None:
        return None, None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h)", keep) if isinstance(keep, str) else None
    if match:
        seconds = float(match[1]) * {"s": 1, "min": 60, "h": 3600}[match[2]]
        if seconds > 0:
            return None, seconds
    elif re.fullmatch(r"[1-9]\d*", str(keep)):
        return int(keep), None
    raise ValueError(f'keep={keep!r}: a number of ticks, at least 1, or a time such as "60s" was expected')


def parse_size(size: int | str | None) -> int | None:
    """Bytes: a number, or one with a unit such as "500MB". Raises ValueError."""
    if size is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s?(|kB|MB|GB|TB)", str(size))
    found = int(float(match[1]) * _SIZE_UNITS[match[2]]) if match else 0
    if found < 1:
        raise ValueError(f'split={size!r}: a size such as "500MB" was expected')
    return found
