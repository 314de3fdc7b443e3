"""The files of a tape at a URL, as the reader of tapes opens them."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import JOURNAL_SUFFIX, SEGMENT_NUMBER_OF
from recorder.storage.remote.range_reads import FileVersion
from recorder.storage.remote.tape_folder import OpenedFile
from recorder.storage.remote.url_file import UrlFile
from recorder.storage.remote.url_folder import files_beginning_with, version_at
from recorder.storage.remote.url_settings import settings_of


class UrlFiles:
    """The files of a tape at a URL; see TapeFolder for the methods.

    One listing tells which files there are, with their sizes and versions. Where a store gives none, the names that a
    tape may have are asked for: its own, that of a journal, and those of the segments from 1 on up to the first one that
    is missing. The later files of a ring are not found in that way.
    """

    def __init__(self, url: TapeUrl, listed: Mapping[str, FileVersion] | None = None) -> None:
        """Nothing is asked yet. listed: the files of its folder, if they are known; they are then not listed again."""
        self._url = url
        self._is_given = listed is not None
        self._settings = settings_of(url)
        self._listed = listed
        self._answered: tuple[FileVersion, bytes] | None = None  # By the first file, where nothing is listed.

    def update(self) -> None:
        """List the files again, or ask for the first one."""
        if self._is_given:
            return
        self._listed, self._answered = files_beginning_with(self._url), None
        if self._listed is None:
            self._answered = version_at(self._url)  # The one to fail: the others of a tape may well be missing.

    def open(self, number: int | None, before: OpenedFile | None) -> OpenedFile:
        """Open a file, or keep the one before if it has the same version."""
        suffix = JOURNAL_SUFFIX if number is None else f".{number}" if number else ""
        url = self._url.with_name(self._url.name + suffix)
        version, first = self._version(url)
        if isinstance(before, UrlFile) and before.version == version:
            return before
        return UrlFile(url, version, self._settings, first)

    def _version(self, url: TapeUrl) -> tuple[FileVersion, bytes]:
        if self._listed is None:
            if url == self._url and self._answered is not None:
                return self._answered
            try:
                return version_at(url)
            except PermissionError:
                # Stores that hide their listing answer so for any name that they do not have.
                raise _no_file(url) from None
        if (version := self._listed.get(url.name)) is None:
            raise _no_file(url)
        return version, b""

    def following(self) -> Sequence[int]:
        """The numbers of the listed segments, or of those that answer."""
        if self._listed is None:
            return self._answering()
        names = (name[len(self._url.name) :] for name in self._listed)
        return sorted(int(match[1]) for name in names if (match := SEGMENT_NUMBER_OF.fullmatch(name)))

    def _answering(self) -> list[int]:
        numbers: list[int] = []
        while True:
            try:
                self._version(self._url.with_name(f"{self._url.name}.{len(numbers) + 1}"))
            except FileNotFoundError:
                return numbers
            numbers.append(len(numbers) + 1)

    def exists(self) -> bool:
        """Return True if files were listed whose names begin with that of the tape."""
        return bool(self._listed)

    def has_whole(self, number: int) -> bool:
        """Ask for the files of the tape that the name leads to."""
        name, suffix = self._url.name, f".{number}"
        if not name.endswith(suffix) or name == suffix:
            return False
        tape = self._url.with_name(name.removesuffix(suffix))
        listed = files_beginning_with(tape)
        if listed is not None:
            return tape.name in listed and name in listed
        try:
            version_at(tape)
        except (FileNotFoundError, PermissionError):
            return False
        return True


def _no_file(url: TapeUrl) -> FileNotFoundError:
    """The error for a file that does not exist; a store in memory is empty in each new process."""
    note = " (memory:// has only what this process put there)" if url.scheme == "memory" else ""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT) + note, url.shown)
