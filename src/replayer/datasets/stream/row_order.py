"""The order of the rows of a stream: shuffled or not, by shards, in batches; and the columns that are yielded."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from replayer.datasets.request import is_whole


def at_least(name: str, value: Any, least: int) -> None:
    """Raise ValueError for a value of the option name that is no integer, or less than least."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name}: expected an integer of at least {least}, got {value!r:.60}")


def _at_least(least: int) -> Callable[[Any, attrs.Attribute[int], Any], None]:
    return lambda _, attribute, value: at_least(attribute.name, value, least)


def _to_shard(shard: Any) -> tuple[int, int]:
    try:
        number, count = shard
    except (TypeError, ValueError):
        number = count = None
    if not (is_whole(number) and is_whole(count)):
        raise ValueError(f"shard: expected an index and the number of shards, such as (0, 4), got {shard!r:.60}")
    return number, count


def _to_columns(columns: Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


@attrs.frozen
class Order:
    """The order and the form of the rows.

    Attributes:
        shuffle: True for a random order. seed: of this order.
        buffer_rows, buffer_bytes: the limits of the shuffle buffer; the smaller one counts.
        shard: its index, from 0, and the number of shards.
        batch: the number of rows in a batch; None yields single rows.
        columns: names, or patterns such as "obs.*"; None is all. Without the column outcome, the last state of each tape
            need not be simulated before the first row.
    """

    shuffle: bool = True
    seed: int = attrs.field(default=0, validator=_at_least(0))
    buffer_rows: int = attrs.field(default=4096, validator=_at_least(1))
    buffer_bytes: int = attrs.field(default=256 << 20, validator=_at_least(1))
    shard: tuple[int, int] = attrs.field(default=(0, 1), converter=_to_shard)
    batch: int | None = attrs.field(default=None, validator=attrs.validators.optional(_at_least(1)))
    columns: tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_to_columns))

    def __attrs_post_init__(self) -> None:
        index, count = self.shard
        if not 0 <= index < count:
            raise ValueError(f"shard: expected an index from 0 to {count - 1} of {count} shards, got {index}")

    def includes(self, column: str) -> bool:
        """Return True if the column of this name is requested."""
        return self.columns is None or any(fnmatch.fnmatchcase(column, pattern) for pattern in self.columns)
