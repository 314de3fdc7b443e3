"""What is wanted of an extraction: which ticks, which tables, which columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import attrs

from recorder.errors import RecordingError

TABLES = ("states", "pairs", "actions", "events")
RECORDS = ("actions", "events")  # Tables whose columns are known only when all rows are.
MODES = ("all", "inputs", "winners", "balanced")

_RANGE = re.compile(r"(-?\d+)?\.\.(-?\d+)?")


class ExtractionError(RecordingError):
    """What was asked for cannot be extracted; the message says what is wrong with it."""


def _to_tuple(values: Iterable[Any] | str) -> tuple[Any, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


def _at_least_one(_: Any, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ExtractionError(f"{attribute.name} {value}: at least 1 was expected")


@attrs.frozen
class Request:
    """What to extract.

    Attributes:
        stride: every so many ticks one sample.
        ranges: first and last tick of each range, both included, None for the tape's own, negative ones counted from the
            end; empty is the whole tape. Sampling begins anew in each range.
        tables: of states (the fields), pairs (training pairs), actions (what agents sent, a row each), events (what the
            simulation told).
        fields: which fields; all of them if empty.
        observations: what pairs hold: names that the world knows, or module:function; fields are added as they are.
        agents: whose; None is all that the world names.
        actions: how the actions in pairs are encoded: names that the world knows, or module:function. None is the world's
            own way, if it has one, or the inputs themselves where they are numbers of one shape; () leaves them out.
        rewards: names, or module:function.
        lists: names of one-dimensional arrays that observations of the user's give, whose lengths change.
        long: states as one row for each entity or cell, instead of one for each tick.
        mode: of pairs and actions: all; inputs (only pairs in which the agent sent something), winners (only agents that
            won), balanced (as many agents that won as such that lost, or drew, if any did).
        splits: shares of the runs by the name of the split, such as {"train": 0.8, "test": 0.2}; empty is no split.
        seed: of the choices that splits and balancing make.

    Raises ExtractionError for what cannot be.
    """

    stride: int = attrs.field(default=1, validator=_at_least_one)
    ranges: tuple[tuple[int | None, int | None], ...] = ()
    tables: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    fields: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    observations: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    agents: tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_to_tuple))
    actions: tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_to_tuple))
    rewards: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    lists: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    long: bool = False
    mode: Literal["all", "inputs", "winners", "balanced"] = "all"
    splits: tuple[tuple[str, float], ...] = ()
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        for what, given, known in (("table", self.tables, TABLES), ("mode", (self.mode,), MODES)):
            strange = next((name for name in given if name not in known), None)
            if strange is not None:
                raise ExtractionError(f"there is no {what} {strange}; {what}s: {', '.join(known)}")
        if self.splits:
            _check_splits(self.splits)


def _check_splits(splits: Sequence[tuple[str, float]]) -> None:
    names = [name for name, _ in splits]
    if len(set(names)) != len(names) or not all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) for name in names):
        raise ExtractionError(f"splits {', '.join(names)}: different names of letters, digits, _ and - were expected")
    if not all(share > 0 for _, share in splits) or abs(sum(share for _, share in splits) - 1) > 1e-9:  # Rounding.
        raise ExtractionError("the shares of splits must be above 0, and 1 in sum")


def read_range(text: str) -> tuple[int | None, int | None]:
    """A range as FIRST..LAST, both included; either may be missing. Raises ExtractionError."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ExtractionError(f"ticks {text}: a range such as 100..500, 100.. or ..-1 was expected")
    first, last = (None if part is None else int(part) for part in found.groups())
    return first, last


def read_splits(text: str) -> tuple[tuple[str, float], ...]:
    """Shares as NAME=SHARE with commas, such as train=0.8,test=0.2. Raises ExtractionError."""
    found = []
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        try:
            found.append((name, float(share)))
        except ValueError:
            raise ExtractionError(f"split {part}: NAME=SHARE was expected, such as train=0.8,test=0.2") from None
    _check_splits(found)
    return tuple(found)
