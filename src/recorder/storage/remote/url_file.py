"""A file at a URL, open for reading: the counterpart of the open file of a tape on this machine."""

from __future__ import annotations

import os
import threading

from recorder.format.journal_bytes import JournalReader
from recorder.format.segments.contents_by_scan import ScanProgress
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.file_system import file_system
from recorder.storage.remote.page_cache import PageCache
from recorder.storage.remote.range_reads import FileVersion, read_range
from recorder.storage.remote.store_errors import asked
from recorder.storage.remote.url_settings import UrlSettings

PAGE_BYTES = 32 << 10  # Of what is kept; less if the read-ahead is less.
MARGIN_SHARE = 16  # Of the read-ahead: 16 KiB hold the frames of hundreds of ticks.
AHEAD_BYTES_MAX = 4 << 20  # Of reads one after another: a store sends so much in the time that it takes to begin.


class UrlFile:
    """A file at a URL and what has been read of it. Every read gives bytes of the version that was opened, or raises.

    Attributes:
        url, version: the file.
        progress: of the scan of a segment.
        journal_reader: has decoded the records of a journal.
    """

    reads_ahead = True
    is_folder = False  # What was listed as a file is one.

    def __init__(self, url: TapeUrl, version: FileVersion, settings: UrlSettings, first: bytes = b"") -> None:
        """Nothing is read yet. first: the first bytes of the file, if they are known."""
        self.url = url
        self.version = version
        self.progress = ScanProgress()
        self.journal_reader = JournalReader()
        self._settings = settings
        self._cache = PageCache(settings.cache_bytes, max(1, min(PAGE_BYTES, settings.read_ahead_bytes)))
        self._cache.put(0, first, version.size_bytes)
        self._fetched_to: int | None = None  # The end of the last request.
        self._ahead = settings.read_ahead_bytes
        self._is_closed = False
        self._lock, self._process = threading.Lock(), os.getpid()

    @property
    def size_bytes(self) -> int:
        """Of the version that was opened."""
        return self.version.size_bytes

    def read(self, offset: int, size: int) -> bytes:
        """Up to size bytes from offset on, from the cache or in one request.

        Raises ValueError after close, ChangedError if the file is another one now, and as asked does.
        """
        if self._is_closed:
            raise ValueError("the tape is closed: open it again")
        end_offset = min(offset + size, self.size_bytes)
        if offset >= end_offset:
            return b""
        if self._settings.read_ahead_bytes == 0:
            start, data = self._fetch(offset, end_offset)
            return data[offset - start : end_offset - start]
        with self._own_lock():
            kept = self._cache.get(offset, end_offset)
            return kept if kept is not None else self._read_pages(offset, end_offset)

    def _read_pages(self, offset: int, end_offset: int) -> bytes:
        """Fetch a range with what is likely to be read next, in one request without what is kept at its ends."""
        start, end = self._cache.missing(*self._extended(offset, end_offset))
        end = min(end, self.size_bytes)
        fetched, data = self._fetch(start, end)
        self._fetched_to = end
        needed = self._cache.get(offset, start) if offset < start else b""
        rest = self._cache.get(end, end_offset) if end < end_offset else b""
        if needed is None or rest is None:
            raise AssertionError("what is not fetched is kept")
        if fetched % self._cache.page_bytes == 0:
            self._cache.put(fetched, data, self.size_bytes)
        if fetched <= offset and end_offset <= fetched + len(data):  # The whole file may have come: it has all of it.
            return data[offset - fetched : end_offset - fetched]
        return needed + data[max(0, offset - fetched) : end_offset - fetched] + rest

    def _extended(self, offset: int, end_offset: int) -> tuple[int, int]:
        """A range with a margin at both ends, of at least the read-ahead; at the end of the file it extends to the front.

        A seek reads a keyframe, and the frames beside it: the margin has them. Reads one after another, as those of a
        verification, fetch twice as much each time, so that they wait less for the store.
        """
        is_next = self._fetched_to is not None and abs(offset - self._fetched_to) <= self._settings.read_ahead_bytes
        most = max(self._settings.read_ahead_bytes, min(AHEAD_BYTES_MAX, self._settings.cache_bytes // 4))
        self._ahead = min(2 * self._ahead, most) if is_next else self._settings.read_ahead_bytes
        margin = self._settings.read_ahead_bytes // MARGIN_SHARE
        start = max(0, offset - margin)
        end = min(max(end_offset + margin, start + self._ahead), self.size_bytes)
        return max(0, min(start, end - self._settings.read_ahead_bytes)), end

    def _fetch(self, offset: int, end_offset: int) -> tuple[int, bytes]:
        made = file_system(self.url, self._settings)
        return asked(self.url, self._settings, lambda: read_range(made, self.url, offset, end_offset, self.version))

    def _own_lock(self) -> threading.Lock:
        """The lock of this process: a thread that does not exist in a forked copy may have held the one before."""
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
        return self._lock

    def close(self) -> None:
        """Forget what was read; a second call does nothing."""
        self._is_closed = True
        self._cache = PageCache(0, 1)
