"""See to it that a forked child leaves its parent's tapes alone."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Disownable(Protocol):
    """Something that belongs to one process."""

    def disown(self) -> None:
        """In a forked child: refuse service, give back what is shared with the parent."""


_owned: weakref.WeakSet[Disownable] = weakref.WeakSet()
_registered = False


def refuse_after_fork(owned: Disownable) -> None:
    """Have owned.disown() called in every child that is forked from now on."""
    global _registered  # noqa: PLW0603 - a handler can be registered, and never taken back
    if not _registered:
        os.register_at_fork(after_in_child=_disown_all)
        _registered = True
    _owned.add(owned)


def _disown_all() -> None:
    for owned in list(_owned):
        owned.disown()
