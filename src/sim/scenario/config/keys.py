"""Bounds of what stands in a scenario, and what its tables have in common: names, keys that go together."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole, shown

TICKS_MAX = (1 << 40) - 1  # What the keys of random draws can count.
COUNT_MAX = 1 << 31
ROLES_MAX = 4096
PARTS_MAX = 1024  # Adversaries, reconfigurations, properties, links: each is looked at in every round.
CHANCE_PLACES = 32
COPIES_MAX = 1024  # Of one message; all of them wait in the state.

Tick = Annotated[int, Whole(0, TICKS_MAX)]
Ticks = Annotated[int, Whole(1, TICKS_MAX)]
Count = Annotated[int, Whole(1, COUNT_MAX)]
Copies = Annotated[int, Whole(1, COPIES_MAX)]
Chance = Annotated[int, Decimal(0, 1, CHANCE_PLACES)]
Milliseconds = Annotated[int, Decimal(0, 1_000_000)]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def check_name(key: str, name: str) -> None:
    """Raise ConfigError unless name is made of ASCII letters, digits and . _ -, so that files may be called by it."""
    if not _NAME.fullmatch(name) or set(name) == {"."}:
        raise ConfigError(key, f"1 to 100 letters, digits, dots, underscores and dashes were expected, found {name!r}")


def check_keys(part: Any, kind: str, needed: Sequence[str], own: Sequence[str], allowed: Sequence[str] = ()) -> None:
    """Raise ConfigError if a key is missing that the kind needs, or one of own is there that it does not know."""
    for key in own:
        is_there = getattr(part, key) is not None
        if key in needed and not is_there:
            raise ConfigError(key.removesuffix("_"), f"this key is missing: {kind} needs it")
        if is_there and key not in needed and key not in allowed:
            raise ConfigError(key.removesuffix("_"), f"{kind} does not have this key")


def check_plain(key: str, value: Any) -> None:
    """Raise ConfigError for the first place in value with what cannot be put on a tape, such as a date."""
    try:
        decode_plain(encode_plain(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        inner: Sequence[tuple[str, Any]] = ()
        if isinstance(value, Mapping):
            inner = [(f"{key}.{name}", one) for name, one in value.items()]
        elif isinstance(value, list | tuple):
            inner = [(f"{key}[{index}]", one) for index, one in enumerate(value)]
        for place, one in inner:
            check_plain(place, one)
        wanted = "text, true or false, a number of 64 bits, a list or a table was expected"
        raise ConfigError(key, f"{wanted}, found {shown(value)}") from None


def key_of(name: str) -> int:
    """A part of a scenario in the keys of its draws: by its name, so that a part more or less changes no other's."""
    return zlib.crc32(name.encode("ascii"))
