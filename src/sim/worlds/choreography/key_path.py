"""Put the place of a key before what a ConfigError says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sim.kernel.registry import ConfigError


@contextmanager
def at(place: str) -> Iterator[None]:
    """A ConfigError raised inside gets the place put before its key."""
    try:
        yield
    except ConfigError as error:
        joint = "." if place and error.key and not error.key.startswith("[") else ""
        raise ConfigError(place + joint + error.key, error.problem) from None
