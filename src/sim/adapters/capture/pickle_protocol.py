"""What saves the rest of a state where the user trusts pickle; apart from pickle_trusted.py, which few may reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Pickler(Protocol):
    """What saves that which values.py does not; see pickle_trusted.py."""

    def dump(self, values: Mapping[str, Any], known: Mapping[int, str]) -> bytes:
        """The values as bytes; known: names of what is kept elsewhere, by id. Raises NotCapturedError for what cannot be saved so."""

    def load(self, data: bytes, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values again."""

    def ensure_loads(self, values: Mapping[str, Any], elsewhere: Mapping[str, Any]) -> None:
        """Raise NotCapturedError, naming it, for a value that cannot be loaded again. elsewhere: what is not dumped, by name."""
