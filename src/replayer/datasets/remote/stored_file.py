"""A file of a data set at a URL, open for reading as Python's files are: pyarrow reads from it what a table needs."""

from __future__ import annotations

import io
import os

from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.url_file import UrlFile
from recorder.storage.remote.url_folder import version_at
from recorder.storage.remote.url_settings import settings_of


class StoredFile(io.RawIOBase):
    """One version of a file: a read of another one raises ChangedError."""

    def __init__(self, url: TapeUrl) -> None:
        """Ask for its size. Raises FileNotFoundError, PermissionError or another OSError, which name the URL."""
        super().__init__()
        self.url = url
        version, first = version_at(url)
        self._file = UrlFile(url, version, settings_of(url), first)
        self._position = 0

    @property
    def size_bytes(self) -> int:
        """The size of the version that was opened."""
        return self._file.size_bytes

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position, and return it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """All that is asked for, up to the end of the file. Raises OSError."""
        wanted = self.size_bytes if size is None or size < 0 else size
        data = self._file.read(self._position, wanted)
        self._position += len(data)
        return data

    def close(self) -> None:
        """Forget what was read."""
        if not self.closed:
            self._file.close()
        super().close()
