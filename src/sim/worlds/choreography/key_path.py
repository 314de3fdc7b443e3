"""Prefix the key of a ConfigError with the path of its table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sim.kernel.registry import ConfigError


@contextmanager
def at(key_path: str) -> Iterator[None]:
    """Prefix the key of a ConfigError that is raised in this context."""
    try:
        yield
    except ConfigError as error:
        joint = "." if key_path and error.key and not error.key.startswith("[") else ""
        raise ConfigError(key_path + joint + error.key, error.problem) from None
