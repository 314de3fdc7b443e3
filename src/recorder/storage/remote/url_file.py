"""A file at a URL, open for reading: the counterpart of the open file of a tape on this machine."""

from __future__ import annotations

import os
import threading

from recorder.format.journal_bytes import JournalReader
from recorder.format.segments.contents_by_scan import ScanProgress
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.file_system import file_system
from recorder.storage.remote.range_cache import RangeCache
from recorder.storage.remote.range_reads import FileVersion, read_range
from recorder.storage.remote.store_errors import asked
from recorder.storage.remote.url_settings import UrlSettings


class UrlFile:
    """A file at a URL and what has been read of it. Every read gives bytes of the version that was opened, or raises.

    Attributes:
        url, version: the file.
        progress: of the scan of a segment.
        journal_reader: has decoded the records of a journal.
    """

    is_folder = False  # What was listed as a file is one.

    def __init__(self, url: TapeUrl, version: FileVersion, settings: UrlSettings, first: bytes = b"") -> None:
        """Nothing is read yet. first: the first bytes of the file, if they are known."""
        self.url = url
        self.version = version
        self.progress = ScanProgress()
        self.journal_reader = JournalReader()
        self._settings = settings
        self._cache = RangeCache(settings.cache_bytes)
        self._cache.put(0, first)
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
            raise ValueError("the tape is closed")
        end_offset = min(offset + size, self.size_bytes)
        if offset >= end_offset:
            return b""
        with self._own_lock():
            kept = self._cache.get(offset, end_offset)
            if kept is not None:
                return kept
            start, data = self._fetch(*self._extended(offset, end_offset))
            self._cache.put(start, data)
        return data[offset - start : end_offset - start]

    def _extended(self, offset: int, end_offset: int) -> tuple[int, int]:
        """A range of at least the read-ahead: further bytes after it, and at the end of the file before it."""
        least = self._settings.read_ahead_bytes
        end_offset = min(max(end_offset, offset + least), self.size_bytes)
        return max(0, min(offset, end_offset - least)), end_offset

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
        self._cache = RangeCache(0)
