"""The attributes of objects before a step: those that a trace sees late are compared with what they were.

An object is read where its own method runs. Until then a line may have changed it by another name: a list that two objects share,
or a number that another one sets. That is no hidden state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from replayer.diagnose.explain.value_hash import Digester
from replayer.diagnose.explain.values.named_attributes import watched_attributes

PARTS_MAX = 50_000  # Of containers, in all: a few milliseconds.
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, np.ndarray)

Attributes = dict[tuple[int, str], Any]  # By the object's id and the name of the attribute.


@attrs.frozen
class Before:
    """A container as it was.

    Attributes:
        digest: of its content.
    """

    digest: int


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
