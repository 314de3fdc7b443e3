"""The interface for saving by pickle; it is separate from pickle_trusted.py, which only few modules may import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Pickler(Protocol):
    """Saves the values that values.py does not; see pickle_trusted.py."""

    def dump(self, values: Mapping[str, Any], known: Mapping[int, str]) -> bytes:
        """The values as bytes. known: names of objects that are kept elsewhere, by id.

        Raises NotCapturedError for a value that pickle cannot save.
        """

    def load(self, data: bytes, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values that dump wrote as data. known: objects that are kept elsewhere, by name."""

    def ensure_loads(self, values: Mapping[str, Any], elsewhere: Mapping[str, Any]) -> None:
        """Raise NotCapturedError, naming it, for a value that cannot be loaded again.

        elsewhere: objects that are not dumped, by name.
        """
