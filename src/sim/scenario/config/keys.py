"""Bounds of a scenario's values, and checks that its tables share: names, and keys that belong together."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole, shown

TICKS_MAX = (1 << 40) - 1  # The keys of random draws hold no larger tick.
COUNT_MAX = 1 << 31
ROLES_MAX = 4096
PARTS_MAX = 1024  # Adversaries, reconfigurations, properties, links: every round checks each of them.
CHANCE_PLACES = 32
COPIES_MAX = 1024  # Of one message; the state holds all of them until they are due.

Tick = Annotated[int, Whole(0, TICKS_MAX)]
Ticks = Annotated[int, Whole(1, TICKS_MAX)]
Count = Annotated[int, Whole(1, COUNT_MAX)]
Copies = Annotated[int, Whole(1, COPIES_MAX)]
Chance = Annotated[int, Decimal(0, 1, CHANCE_PLACES)]
Milliseconds = Annotated[int, Decimal(0, 1_000_000)]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def check_name(key: str, name: str) -> None:
    """Raise ConfigError unless name is 1 to 100 ASCII letters, digits and . _ -, and so valid as a file name."""
    if not _NAME.fullmatch(name) or set(name) == {"."}:
        raise ConfigError(key, f"expected 1 to 100 letters, digits, dots, underscores and dashes, got {name!r}")


def check_keys(part: Any, kind: str, needed: Sequence[str], own: Sequence[str], allowed: Sequence[str] = ()) -> None:
    """Raise ConfigError for a missing key that the kind needs, or for one of own that it neither needs nor allows."""
    for key in own:
        is_set = getattr(part, key) is not None
        if key in needed and not is_set:
            raise ConfigError(key.removesuffix("_"), f"this key is missing: {kind} needs it")
        if is_set and key not in needed and key not in allowed:
            raise ConfigError(key.removesuffix("_"), f"{kind} does not have this key")


def check_plain(key: str, value: Any) -> None:
    """Raise ConfigError for the first part of value that a tape cannot hold, such as a date."""
    try:
        decode_plain(encode_plain(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        inner: Sequence[tuple[str, Any]] = ()
        if isinstance(value, Mapping):
            inner = [(f"{key}.{name}", item) for name, item in value.items()]
        elif isinstance(value, list | tuple):
            inner = [(f"{key}[{index}]", item) for index, item in enumerate(value)]
        for inner_key, item in inner:
            check_plain(inner_key, item)
        expected = "expected text, true or false, a number of 64 bits, a list or a table"
        raise ConfigError(key, f"{expected}, got {shown(value)}") from None


def key_of(name: str) -> int:
    """The number of a named element in the keys of its random draws.

    It depends on the name alone: adding or removing an element does not change the random draws of the others.
    """
    return zlib.crc32(name.encode("ascii"))
