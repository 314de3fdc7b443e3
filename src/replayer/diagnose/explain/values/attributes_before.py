"""The attributes of objects before a step: those that a trace sees late are compared with what they were.

An object is read where its own method runs. Until then a line may have changed it by another name: a list that two objects share,
or a number that another one sets. That is no hidden state. The line is known where it had the object, or its list, in a variable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np

from replayer.diagnose.explain.value_hash import Digester
from replayer.diagnose.explain.values.named_attributes import watched_attributes

PARTS_MAX = 50_000  # Of containers, in all: a few milliseconds.
HOLDS_MAX = 64  # Elements of a container whose attributes are looked at where it has changed.
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, np.ndarray)

Attributes = dict[tuple[int, str], Any]  # By the object's id and the name of the attribute.


@attrs.frozen
class Before:
    """A container as it was.

    Attributes:
        digest: of its content.
    """

    digest: int


class UnseenChanges:
    """The attributes as they were before the step, and the lines that changed them while nothing read them one by one."""

    def __init__(self, digester: Digester) -> None:
        self.digester = digester
        self._before: Attributes = {}
        self._known: Attributes = {}  # As last seen.
        self._changed_at: dict[tuple[int, str], int | None] = {}  # The record; None if it is not known.
        self._ids: dict[str, int] = {}  # Of what variables led to when they were last read.

    def hold(self, before: Attributes) -> None:
        """Take the attributes as they are before the step."""
        self._before, self._known = before, dict(before)

    def note(self, variable: str, value: Any, record: int) -> None:
        """Compare an object, or those in a container, that a variable has, with what was last seen of them.

        record: what its function ran since the variable was last read; -1 at its begin. Where it led to something else then, it is
        not known when the object was changed.
        """
        is_same = self._ids.get(variable) == id(value)
        self._ids[variable] = id(value)
        for one in _members(value):
            for name, now in (watched_attributes(one) or {}).items():
                key = id(one), name
                if key in self._known and _is_changed(self._known[key], now, self.digester):
                    self._known[key] = Before(self.digester.digest(now)) if type(now) in _CONTAINERS else now
                    self._changed_at[key] = record if is_same and record >= 0 else None

    def changed_at(self, owner: Any, attribute: str, value: Any, last: int) -> int:
        """The record that gave an attribute the value that it has; -1 if it is as before the step.

        last: the last record, which is taken where no line was seen to change it.
        """
        key = id(owner), attribute
        if key not in self._before or not _is_changed(self._before[key], value, self.digester):
            return -1
        record = None if _is_changed(self._known[key], value, self.digester) else self._changed_at.get(key)
        return last if record is None else record


def _is_changed(before: Any, now: Any, digester: Digester) -> bool:
    """Return True if a value is another one than before, which is the value or a Before."""
    if isinstance(before, Before):
        return before.digest != digester.digest(now)
    return type(before) is not type(now) or bool(before is not now and before != now)


def _members(value: Any) -> Iterable[Any]:
    """An object, or those in a container that has few."""
    if isinstance(value, dict):
        value = list(value.values()) if len(value) <= HOLDS_MAX else []
    if isinstance(value, list | tuple | deque):
        return value if len(value) <= HOLDS_MAX else ()
    return () if isinstance(value, set | frozenset | np.ndarray) else (value,)


def attributes_before(named: Mapping[int, tuple[str, Any]], digester: Digester) -> Attributes:
    """The numbers and texts among the attributes of objects, and digests of containers. named: of InstanceObjects."""
    found: Attributes = {}
    left = PARTS_MAX
    for key, (_, one) in named.items():
        for name, value in (watched_attributes(one) or {}).items():
            if type(value) in (bool, int, float, str):
                found[key, name] = value
            elif type(value) in _CONTAINERS and _size(value) < left:
                found[key, name] = Before(digester.digest(value))
                left -= 1 + digester.parts
    return found


def _size(value: Any) -> int:
    return int(value.size) if isinstance(value, np.ndarray) else len(value)
