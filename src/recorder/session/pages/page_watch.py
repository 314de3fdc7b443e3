"""One watch per arena, shared by all readers: the kernel reports each written page only once, so all readers note it.

Invariants:
    1. A reader gets every page that was written since its last take; it may get others, too.
    2. After a failure of the kernel, and in a forked child, a reader gets None: the written pages are unknown.
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
    """One consumer's view of the watch of an arena.

    Attributes:
        arena: the memory that is watched.
        lead_bytes, page_count: the offset of its first complete page, and the number of complete pages.
    """

    def __init__(self, arena: Bytes, shared: _SharedWatch) -> None:
        self.arena = arena
        self.lead_bytes, self.page_count = shared.watch.lead_bytes, shared.watch.page_count
        self._shared: _SharedWatch | None = shared
        self._seen = np.ones(self.page_count, np.bool_)

    @classmethod
    def open(cls, arena: Bytes) -> Self | None:
        """Open a reader of the pages of an arena; return None if the kernel does not watch it."""
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
        """Open a reader of pages written from now on; return None also for an arena below size_min_bytes."""
        reader = cls.open(arena) if len(arena) >= size_min_bytes else None
        if reader is not None and reader.take() is None:
            reader.close()
            return None
        return reader

    def look(self) -> Pages | None:
        """Return the pages written since the last take, ascending; None if they are unknown."""
        return self._ask(take=False)

    def take(self) -> Pages | None:
        """Return the pages written since the last take, as look does; the next take begins here."""
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
        """Note pages that were written."""
        self._seen[pages] = True

    def close(self) -> None:
        """Stop reading; the last reader to close ends the watch."""
        shared, self._shared = self._shared, None
        if shared is not None:
            with _lock:
                shared.readers.discard(self)
                if not shared.readers:
                    shared.end()


class _SharedWatch:
    """The watch of one arena and its readers; it ends with the last of them."""

    def __init__(self, arena: Bytes) -> None:
        self.watch = WriteWatch(arena)  # Keeps the arena alive, so that its id stays unique.
        self.works = True
        self.readers: weakref.WeakSet[PageReader] = weakref.WeakSet()
        self.lock = threading.Lock()
        refuse_after_fork(self)

    def disown(self) -> None:
        """In a forked child: end the watch and replace the locks, which a thread of the parent may hold.

        The child may open a watch of its own copy of the arena.
        """
        global _lock  # noqa: PLW0603 - see above
        _lock = self.lock = threading.Lock()
        self.end()

    def collect(self, *, protect: bool) -> bool:
        """Pass the pages that the kernel reports to all readers; return False if it reports none any more."""
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
        """End the watch."""
        self.works = False
        self.watch.close()


_shared = weakref.WeakValueDictionary()
