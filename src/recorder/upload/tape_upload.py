"""Upload a tape while it is recorded: each finished file as soon as it is finished, the last one at the end of the run.

Invariants:
    1. The recording is not touched: files are only read, by another process than the one that records.
    2. Files are uploaded in order, each as a whole. What is at the URL at any time is a tape that ends early, and reads
       as one that was not closed.
    3. A file counts as uploaded if the store has one of its size that ends with the same bytes: those of its seal, which
       hold the digest of the file. So an upload that was killed continues, and so does that of a tape that was resumed.
    4. No file of another run is replaced or removed. What the store does not tell is not taken for free.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import attrs

from recorder.errors import RecordingError, UnreadableError
from recorder.format.blocks.file_header import HEADER_BYTES
from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import JOURNAL_SUFFIX, journal_path, segment_numbers, segment_path
from recorder.storage.open_tape import OpenTape, is_locked
from recorder.storage.remote.uploads import ensure_writable, upload_file
from recorder.upload.stored_files import StoredFiles

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
        """Nothing is sent yet, and nothing at the URL is changed.

        Raises FileExistsError if another tape, or a file of one, is at the URL; RecordingError for a ring that is being
        recorded; FileNotFoundError without a tape, and as uploads do.
        """
        ensure_writable(url)
        self._tape, self._url = tape, url
        with tape.open("rb") as file:
            self._header = file.read(HEADER_BYTES)
        self._ensure_keeps_all()
        self._stored = StoredFiles(url)
        self._stored.ensure_of_run(self._header)
        self._uploaded = 0
        self._is_known = False  # That it keeps all of its files.

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
        finished = segment_numbers(self._tape)[:-1]
        if finished and not self._is_known:
            self._ensure_keeps_all()
            self._is_known = True
        for number in finished:
            self._upload(number)

    def upload_all(self) -> UploadReport:
        """Upload all files that are not there yet, and remove those of this run there that the tape does not have.

        A tape that was resumed may have fewer files than before. Raises RecordingError if the tape is being recorded.
        """
        if is_locked(self._tape):
            raise RecordingError(f"{self._tape} is being recorded")
        numbers = segment_numbers(self._tape)
        for number in numbers:
            self._upload(number)
        self._stored.remove_later_files(numbers)
        journal, there = journal_path(self._tape), self._url.with_name(self._url.name + JOURNAL_SUFFIX)
        if journal.exists():
            upload_file(journal, there)
        else:
            self._stored.remove(there)
        with OpenTape(self._tape) as opened:
            is_whole = opened.assemble().final
        size_bytes = sum(segment_path(self._tape, number).stat().st_size for number in numbers)
        return UploadReport(self._url, len(numbers), self._uploaded, size_bytes, is_whole)

    def _ensure_keeps_all(self) -> None:
        """Raise RecordingError for a ring that is being recorded: it removes files while they are sent."""
        if not is_locked(self._tape):
            return
        try:
            with OpenTape(self._tape) as opened:
                meta = opened.assemble().meta
        except UnreadableError:  # Its first block is not written yet. A ring has one before it has a second file.
            return
        settings = meta.get("settings")
        if isinstance(settings, Mapping) and any(settings.get(name) is not None for name in ("keep_ticks", "keep_s")):
            raise RecordingError(
                f"{self._tape} is a ring that is being recorded, and removes its old files: upload it after the run"
            )

    def _upload(self, number: int) -> None:
        path, url = segment_path(self._tape, number), self._stored.url_of(number)
        try:
            if not self._is_stored(path, url):
                size_bytes = path.stat().st_size
                upload_file(path, url)
                self._stored.note_sent(url, size_bytes)
                self._uploaded += 1
        except FileNotFoundError:
            if path.exists():
                raise
            raise RecordingError(f"{path} was removed while the tape was uploaded: upload it again") from None

    def _is_stored(self, path: Path, url: TapeUrl) -> bool:
        size_bytes = path.stat().st_size
        version = self._stored.version(url)
        if version is None or version.size_bytes != size_bytes:
            return False
        if self._stored.is_sent(url):
            return True
        offset = max(0, size_bytes - _TAIL_BYTES)
        with path.open("rb") as file:
            file.seek(offset)
            return file.read() == self._stored.read(url, offset, size_bytes)
