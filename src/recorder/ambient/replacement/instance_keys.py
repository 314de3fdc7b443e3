"""Keys of dicts outside the instances that are objects of an instance, or their addresses: those of another instance in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from recorder.ambient.replacement.named_values import Path
from recorder.ambient.value_kinds import is_plain, kind_of


@attrs.frozen(eq=False)
class InstanceKeys:
    """The objects of two instances that stand at the same path.

    Attributes:
        paths: of the first one's objects, by their addresses.
        others: the second one's objects by path.
        root: the first step of each path into an instance has this kind.
    """

    paths: Mapping[int, Path]
    others: Mapping[Path, Any]
    root: str

    def translated(self, content: Mapping[Any, Any]) -> dict[Any, Any]:
        """A dict with the second instance's keys; a key stays where there is none."""
        return {self._other(key): one for key, one in content.items()}

    def has_strange(self, content: Mapping[Any, Any]) -> bool:
        """Return True if some keys belong to the first instance alone, or may be addresses of objects that have ended."""
        addresses = [key for key in content if type(key) is int and key in self.paths]
        if addresses and not all(self._has_other(key) for key in content):
            return True
        return any(not _is_value(key) and not self._has_other(key) for key in content)

    def _path(self, key: Any) -> Path | None:
        path = self.paths.get(key if type(key) is int else id(key))
        if (
            path is None
            or path[0][0] != self.root
            or path not in self.others
            or (type(key) is not int and _is_value(key))
        ):
            return None
        return path

    def _has_other(self, key: Any) -> bool:
        return self._path(key) is not None

    def _other(self, key: Any) -> Any:
        path = self._path(key)
        if path is None:
            return key
        return id(self.others[path]) if type(key) is int else self.others[path]


def _is_value(key: Any) -> bool:
    return is_plain(key) or kind_of(type(key)) in ("still", "function")
