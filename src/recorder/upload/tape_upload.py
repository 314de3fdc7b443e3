"""Upload a tape while it is recorded: each finished file as soon as it is finished, the last one at the end of the run.

Invariants:
    1. The recording is not touched: files are only read, by another process than the one that records.
    2. Files are uploaded in order, each as a whole. What is at the URL at any time is a tape that ends early, and reads
       as one that was not closed.
    3. A file counts as uploaded if the store has one of its size that ends with the same bytes: those of its seal, which
       hold the digest of the file. So an upload that was killed continues, and so does that of a tape that was resumed.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path

import attrs

from recorder.errors import RecordingError
from recorder.format.blocks.file_header import HEADER_BYTES
from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import JOURNAL_SUFFIX, journal_path, segment_numbers, segment_path
from recorder.storage.open_tape import OpenTape, is_locked
from recorder.storage.remote.file_system import file_system, path_in_store
from recorder.storage.remote.range_reads import FileVersion, read_range
from recorder.storage.remote.store_errors import asked
from recorder.storage.remote.uploads import ensure_writable, upload_file
from recorder.storage.remote.url_folder import files_beginning_with
from recorder.storage.remote.url_settings import settings_of

POLL_S = 1.0
_TAIL_BYTES = 16 << 10  # The trailer, and END with its digest.


@attrs.frozen
class UploadReport:
    """An upload of a tape.

    Attributes:
        url: of the tape.
        files: the number of its files, without a journal.
        uploaded: how many of them this upload has sent.
        size_bytes: of all its files.
        is_whole: True if the tape was closed: all of the run is at the URL.
    """

    url: TapeUrl
    files: int
    uploaded: int
    size_bytes: int
    is_whole: bool


class TapeUpload:
    """The upload of one tape to one URL."""

    def __init__(self, tape: Path, url: TapeUrl) -> None:
        """Raises FileExistsError if another tape is at the URL, FileNotFoundError without a tape, and as uploads do."""
        ensure_writable(url)
        self._tape, self._url = tape, url
        self._settings = settings_of(url)
        self._stored = files_beginning_with(url) or {}
        self._uploaded = 0
        with tape.open("rb") as file:
            header = file.read(HEADER_BYTES)
        if url.name in self._stored and self._bytes_of(url, 0, HEADER_BYTES) != header:
            raise FileExistsError(errno.EEXIST, "another tape is there: choose a different name", url.shown)

    def follow(self) -> UploadReport:
        """Upload finished files until the recording ends, then the rest. A store that fails is tried again until then."""
        while is_locked(self._tape):
            try:
                self.upload_finished()
            except PermissionError:
                raise
            except OSError as error:
                if error.filename is None or "://" not in str(error.filename):
                    raise
            time.sleep(POLL_S)
        return self.upload_all()

    def upload_finished(self) -> None:
        """Upload the files that are followed by another one: the recorder does not write to them any more."""
        for number in segment_numbers(self._tape)[:-1]:
            self._upload(number)

    def upload_all(self) -> UploadReport:
        """Upload all files that are not there yet. Raises RecordingError if the tape is being recorded."""
        if is_locked(self._tape):
            raise RecordingError(f"{self._tape} is being recorded")
        numbers = segment_numbers(self._tape)
        for number in numbers:
            self._upload(number)
        journal, there = journal_path(self._tape), self._url.with_name(self._url.name + JOURNAL_SUFFIX)
        if journal.exists():
            upload_file(journal, there)
        elif there.name in self._stored:
            made = file_system(there, self._settings)
            asked(there, self._settings, lambda: made.rm_file(path_in_store(made, there)))
        with OpenTape(self._tape) as opened:
            is_whole = opened.assemble().final
        size_bytes = sum(segment_path(self._tape, number).stat().st_size for number in numbers)
        return UploadReport(self._url, len(numbers), self._uploaded, size_bytes, is_whole)

    def _upload(self, number: int) -> None:
        path = segment_path(self._tape, number)
        url = self._url.with_name(self._url.name + (f".{number}" if number else ""))
        if not self._is_stored(path, url):
            upload_file(path, url)
            self._stored[url.name] = FileVersion(path.stat().st_size)
            self._uploaded += 1

    def _is_stored(self, path: Path, url: TapeUrl) -> bool:
        size_bytes = path.stat().st_size
        version = self._stored.get(url.name)
        if version is None or version.size_bytes != size_bytes:
            return False
        if not version.mark:
            return True  # Sent by this upload.
        offset = max(0, size_bytes - _TAIL_BYTES)
        with path.open("rb") as file:
            file.seek(offset)
            return file.read() == self._bytes_of(url, offset, size_bytes)

    def _bytes_of(self, url: TapeUrl, offset: int, end_offset: int) -> bytes:
        made, version = file_system(url, self._settings), self._stored[url.name]
        end_offset = min(end_offset, version.size_bytes)
        if offset >= end_offset:
            return b""
        start, data = asked(url, self._settings, lambda: read_range(made, url, offset, end_offset, version))
        return data[offset - start : end_offset - start]
