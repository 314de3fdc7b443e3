"""Ranges of ticks as commands take them: A..B."""

from __future__ import annotations

from recorder.exit_codes import UsageError


def parse_ticks(text: str, first: int, last: int) -> tuple[int, int]:
    """The range that A..B selects from the ticks of a tape. Raises UsageError."""
    parts = text.split("..")
    try:
        numbers = [int(part) if part else None for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != 2:
        raise UsageError(f"--ticks {text}: expected A..B, as in 100..200 or 100..-1")
    begin, end = (default if number is None else number for number, default in zip(numbers, (first, last), strict=True))
    begin, end = (tick + last + 1 if tick < 0 else tick for tick in (begin, end))
    if begin > end and all(first <= tick <= last for tick in (begin, end)):
        raise UsageError(f"--ticks {text}: the first tick is after the last one: exchange them")
    if not first <= begin <= end <= last:
        raise UsageError(f"--ticks {text}: the tape has ticks {first} to {last}")
    return begin, end
