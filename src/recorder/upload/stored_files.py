"""The files of a tape that are at the URL of an upload: found, compared with the run, read and removed.

A store that permits writing may not permit listing. Its files are then asked for by their names: that nothing is listed
does not mean that nothing is there.
"""

from __future__ import annotations

import errno
from collections.abc import Collection

from recorder.errors import CorruptError, TornError, UnsupportedVersionError
from recorder.format.blocks.file_header import HEADER_BYTES, decode_file_header
from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import SEGMENT_NUMBER_OF
from recorder.storage.remote.file_system import file_system, path_in_store
from recorder.storage.remote.range_reads import FileVersion, read_range
from recorder.storage.remote.store_errors import asked
from recorder.storage.remote.uploads import stored_version
from recorder.storage.remote.url_folder import files_beginning_with
from recorder.storage.remote.url_settings import settings_of


class StoredFiles:
    """The files at a URL whose names are those of a tape."""

    def __init__(self, url: TapeUrl) -> None:
        """Lists the folder. Raises OSError."""
        self._url = url
        self._settings = settings_of(url)
        self._header = b""
        self._sent: set[str] = set()  # Names.
        listed = files_beginning_with(url)
        self._is_listed = listed is not None
        self._known: dict[str, FileVersion | None] = dict(listed or {})  # None: it was asked for, and is not there.

    def url_of(self, number: int) -> TapeUrl:
        """The URL of a segment."""
        return self._url.with_name(f"{self._url.name}.{number}") if number else self._url

    def version(self, url: TapeUrl) -> FileVersion | None:
        """The version of a file; None if it is not there.

        Where nothing is listed it is asked for, once. Raises FileExistsError if it is then found to be of another run.
        """
        if url.name not in self._known and not self._is_listed:
            self._known[url.name] = stored_version(url)
            self._ensure_file_of_run(url)
        return self._known.get(url.name)

    def ensure_of_run(self, header: bytes) -> None:
        """Raise FileExistsError if a file there is of another tape than the one whose first file has this header."""
        self._header = header
        if self.version(self._url) is not None and self.read(self._url, 0, HEADER_BYTES) != header:
            raise FileExistsError(errno.EEXIST, "another tape is there: choose a different name", self._url.shown)
        for number in self._later():
            self._ensure_file_of_run(self.url_of(number))

    def _ensure_file_of_run(self, url: TapeUrl) -> None:
        if SEGMENT_NUMBER_OF.fullmatch(url.name[len(self._url.name) :]) is None or self._known.get(url.name) is None:
            return
        if not self._is_of_run(url):
            raise FileExistsError(errno.EEXIST, "a file of another tape is there: choose a different name", url.shown)

    def _is_of_run(self, url: TapeUrl) -> bool:
        try:
            own, other = (decode_file_header(data) for data in (self._header, self.read(url, 0, HEADER_BYTES)))
        except (CorruptError, TornError, UnsupportedVersionError):
            return False
        return own.run_id == other.run_id

    def _later(self) -> list[int]:
        """The numbers of the segments there after the first; where nothing is listed, up to the first that is missing."""
        if not self._is_listed:
            number = 1
            while self.version(self.url_of(number)) is not None:
                number += 1
        names = [name[len(self._url.name) :] for name, version in self._known.items() if version is not None]
        return sorted(int(match[1]) for name in names if (match := SEGMENT_NUMBER_OF.fullmatch(name)))

    def remove_later_files(self, numbers: Collection[int]) -> None:
        """Remove the segments of the run that a tape does not have. numbers: those of its segments."""
        for number in self._later():
            if number not in numbers and self._is_of_run(self.url_of(number)):
                self.remove(self.url_of(number))

    def remove(self, url: TapeUrl) -> None:
        """Remove a file if it is there. Raises OSError."""
        if self.version(url) is None:
            return
        made = file_system(url, self._settings)
        asked(url, self._settings, lambda: made.rm_file(path_in_store(made, url)))
        self._known[url.name] = None

    def note_sent(self, url: TapeUrl, size_bytes: int) -> None:
        """A file of this size was sent."""
        self._known[url.name] = FileVersion(size_bytes)
        self._sent.add(url.name)

    def is_sent(self, url: TapeUrl) -> bool:
        """Return True for a file that was noted as sent. That a version has no mark does not tell it: some stores give none."""
        return url.name in self._sent

    def read(self, url: TapeUrl, offset: int, end_offset: int) -> bytes:
        """The bytes of a file there up to end_offset, or to its end. Raises OSError."""
        version = self.version(url)
        if version is None or offset >= (end := min(end_offset, version.size_bytes)):
            return b""
        made = file_system(url, self._settings)
        start, data = asked(url, self._settings, lambda: read_range(made, url, offset, end, version))
        return data[offset - start : end - start]
