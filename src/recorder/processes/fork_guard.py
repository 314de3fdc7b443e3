"""Keep a forked child away from its parent's tapes."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Disownable(Protocol):
    """Something that belongs to one process."""

    def disown(self) -> None:
        """In a forked child: refuse service, and release what is shared with the parent."""


_owned: weakref.WeakSet[Disownable] = weakref.WeakSet()
_registered = False


def refuse_after_fork(owned: Disownable) -> None:
    """Call owned.disown() in every child that is forked from now on."""
    global _registered  # noqa: PLW0603 - a handler can be registered, but never removed
    if not _registered:
        os.register_at_fork(after_in_child=_disown_all)
        _registered = True
    _owned.add(owned)


def _disown_all() -> None:
    for owned in list(_owned):
        owned.disown()
