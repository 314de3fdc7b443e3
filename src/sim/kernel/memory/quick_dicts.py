"""Give an object whose ``__dict__`` was asked for quick attributes again.

Asking for it makes a dict that shares its table of names with the class. Python cannot specialise an access to an
attribute that is in such a dict: each takes about four times as long, in the user's own code, too. In a dict with a
table of its own it does not.

Facts about CPython 3.11 and 3.12 that this module relies on, and tests:
    1. The sixth word of a dict is 0 if its table is its own.
    2. ``popitem`` gives a dict a table of its own first.
From Python 3.13 on the dict of an object refers to the object's own values, and nothing is slow.
"""

from __future__ import annotations

import functools
import sys
from itertools import islice
from typing import Any

from sim.kernel.memory.object_memory import all_memory, pointers_are_known

_VALUES = 5  # The word of a dict with the address of the values for a shared table.
_PYTHONS = ((3, 11), (3, 12))


def make_quick(attributes: dict[str, Any]) -> None:
    """Give the dict of an object a table of its own, if it shares one; its items and their order stay as they are."""
    if type(attributes) is dict and _is_known() and _is_shared(attributes):
        _give_own_table(attributes)


def _is_shared(attributes: dict[str, Any]) -> bool:
    return bool(attributes) and _words()[(id(attributes) >> 3) + _VALUES - 1] != 0


def _give_own_table(attributes: dict[str, Any]) -> None:
    # The last item is taken out and put in again by one call of C, so that nothing comes in between.
    attributes.update(islice(iter(attributes.popitem, None), 1))


@functools.cache
def _words() -> Any:
    return all_memory().data


@functools.cache
def _is_known() -> bool:
    if sys.version_info[:2] not in _PYTHONS or not pointers_are_known():
        return False

    class Probe:
        """It gets attributes, and a dict."""

    probe, names = Probe(), ["one", "two", "three"]
    for name in names:
        setattr(probe, name, name)
    attributes, own = vars(probe), dict.fromkeys(names, "")
    was_shared = _is_shared(attributes) and not _is_shared(own)
    _give_own_table(attributes)
    return was_shared and not _is_shared(attributes) and attributes == dict(zip(names, names, strict=True))
