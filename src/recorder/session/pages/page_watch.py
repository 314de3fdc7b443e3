"""One watch for each arena, whoever asks: each page that the kernel tells of reaches all readers, as it tells but once.

Invariants:
    1. A reader is told of every page that was written since it last took; others may be among them.
    2. Where the kernel fails, and in a forked child, a reader is told that nothing is known, from then on.
"""

from __future__ import annotations

import threading
import weakref
from typing import Self

import numpy as np

from recorder.processes.fork_guard import refuse_after_fork
from recorder.session.pages.userfaultfd import Bytes, Pages, WriteWatch, obstacle

_shared: weakref.WeakValueDictionary[int, _SharedWatch]
_lock = threading.Lock()


class PageReader:
    """What one consumer asks of the watch of an arena.

    Attributes:
        arena: which is watched.
        lead_bytes, page_count: where its first whole page begins, and how many there are.
    """

    def __init__(self, arena: Bytes, shared: _SharedWatch) -> None:
        self.arena = arena
        self.lead_bytes, self.page_count = shared.watch.lead_bytes, shared.watch.page_count
        self._shared: _SharedWatch | None = shared
        self._seen = np.ones(self.page_count, np.bool_)

    @classmethod
    def open(cls, arena: Bytes) -> Self | None:
        """A reader of the pages of an arena; None if the kernel does not watch it."""
        if obstacle() is not None:
            return None
        with _lock:
            shared = _shared.get(id(arena))
            if shared is None or not shared.works:
                try:
                    shared = _SharedWatch(arena)
                except (OSError, ValueError):
                    return None
                _shared[id(arena)] = shared
            reader = cls(arena, shared)
            shared.readers.add(reader)
            return reader

    @classmethod
    def begin(cls, arena: Bytes, size_min_bytes: int) -> Self | None:
        """A reader of what is written from now on; None also for an arena that is smaller."""
        reader = cls.open(arena) if len(arena) >= size_min_bytes else None
        if reader is not None and reader.take() is None:
            reader.close()
            return None
        return reader

    def look(self) -> Pages | None:
        """The pages written since the last take, ascending; None if that is not known."""
        return self._ask(take=False)

    def take(self) -> Pages | None:
        """The same; from now on those that are written after this are told."""
        return self._ask(take=True)

    def _ask(self, *, take: bool) -> Pages | None:
        shared = self._shared
        if shared is None or not shared.collect(protect=take):
            return None
        with shared.lock:
            pages = np.flatnonzero(self._seen).astype(np.int64, copy=False)
            if take:
                self._seen[pages] = False
        return pages

    def note(self, pages: Pages) -> None:
        """These were written."""
        self._seen[pages] = True

    def close(self) -> None:
        """Ask no more; the last one ends the watch."""
        shared, self._shared = self._shared, None
        if shared is not None:
            with _lock:
                shared.readers.discard(self)
                if not shared.readers:
                    shared.end()


class _SharedWatch:
    """The watch of one arena, and who reads of it; ends with them."""

    def __init__(self, arena: Bytes) -> None:
        self.watch = WriteWatch(arena)  # Holds the arena: no other one has its id meanwhile.
        self.works = True
        self.readers: weakref.WeakSet[PageReader] = weakref.WeakSet()
        self.lock = threading.Lock()
        refuse_after_fork(self)

    def disown(self) -> None:
        """In a forked child, which may watch its own copy of the arena: there may be nobody left to open these locks."""
        global _lock  # noqa: PLW0603 - see above
        _lock = self.lock = threading.Lock()
        self.end()

    def collect(self, *, protect: bool) -> bool:
        """Tell all readers what the kernel tells; False if it does not."""
        with self.lock:
            if not self.works:
                return False
            try:
                pages = self.watch.written(protect=protect)
            except OSError:
                self.end()
                return False
            for reader in self.readers:
                reader.note(pages)
            return True

    def end(self) -> None:
        """Watch no more."""
        self.works = False
        self.watch.close()


_shared = weakref.WeakValueDictionary()
