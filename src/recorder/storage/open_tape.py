"""Open the files of a tape for reading, with pread only: a tape may grow, or be truncated, while it is read."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from recorder.errors import CorruptError, RecordingError, TornError, UnreadableError, UnsupportedVersionError
from recorder.format.blocks.file_header import HEADER_BYTES, decode_file_header
from recorder.format.journal_bytes import AREA_BYTES_MAX, JournalContents, JournalReader, journal_bytes
from recorder.format.recording.assembly import Assembled, SegmentInput, assemble
from recorder.format.segments.contents_by_scan import ScanProgress
from recorder.format.segments.segment_contents import NoTapeError, Read
from recorder.format.segments.segment_reader import WINDOW_BYTES
from recorder.location.tape_location import Location, tape_location
from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import following_segments, journal_path, segment_path, whole_tape
from recorder.storage.memory_limit import memory_budget
from recorder.storage.read_ahead import ThreadedCopier
from recorder.storage.remote.tape_folder import OpenedFile, TapeFolder
from sim.closed_on_exit import ClosedOnExit

READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # A pipe without a writer would let the caller wait without end.
LISTINGS_MAX = 20  # A ring that turns over faster than its files are opened, as with a file a tick, is listed again.


class OpenFile:
    """A file that is open for reading, and what has been read of it. It is closed with its last user, or by close.

    Attributes:
        progress: of the scan of a segment.
        journal_reader: has decoded the records of a journal.
    """

    reads_ahead = False
    _descriptor = -1

    def __init__(self, path: Path) -> None:
        """Raises OSError, also for a pipe, a socket or a device. A folder opens, too."""
        self._descriptor = os.open(path, READING)
        kind = os.fstat(self._descriptor).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise OSError(errno.EINVAL, "expected a file, found a pipe, a socket or a device", str(path))
        self.progress = ScanProgress()
        self.journal_reader = JournalReader()

    @property
    def size_bytes(self) -> int:
        """The file's size as it is now."""
        return os.fstat(self._descriptor).st_size

    @property
    def is_folder(self) -> bool:
        """True if it is a folder."""
        return stat.S_ISDIR(os.fstat(self._descriptor).st_mode)

    def is_at(self, path: Path) -> bool:
        """Return True if the path leads to this file: its number of the system is its own while it is open."""
        return os.path.samestat(path.stat(), os.fstat(self._descriptor))

    def read(self, offset: int, size: int) -> bytes:
        """Up to size bytes from offset on. Raises ValueError after close: the number may belong to another file then."""
        if self._descriptor < 0:
            raise ValueError("the tape is closed: open it again")
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Close it; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if os is not None:  # The modules of an interpreter that ends are emptied; the system then closes the file.
            self.close()


class LocalFiles:
    """The files of a tape on this machine, as OpenTape opens them; see TapeFolder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def update(self) -> None:
        """See TapeFolder. The folder is listed when it is asked for."""

    def open(self, number: int | None, before: OpenedFile | None) -> OpenedFile:
        """See TapeFolder."""
        path = journal_path(self.path) if number is None else segment_path(self.path, number)
        return before if isinstance(before, OpenFile) and before.is_at(path) else OpenFile(path)

    def following(self) -> Sequence[int]:
        """See TapeFolder."""
        return following_segments(self.path)

    def exists(self) -> bool:
        """See TapeFolder."""
        return self.path.parent.is_dir()

    def has_whole(self, number: int) -> bool:
        """See TapeFolder."""
        tape = whole_tape(self.path, number)
        return tape is not None and tape.exists() and number in following_segments(tape)


def tape_folder(path: Location) -> TapeFolder:
    """The files of the tape at an absolute location, for reading."""
    if isinstance(path, Path):
        return LocalFiles(path)
    from recorder.storage.remote.url_files import UrlFiles  # noqa: PLC0415 - most tapes are files of this machine

    return UrlFiles(path)


def read_journal(folder: TapeFolder, before: OpenedFile | None) -> tuple[OpenedFile | None, JournalContents]:
    """The journal of a tape, and the frames that are in it now; None and no frames if there is no journal.

    before: what the last call gave. It stays open: no other file can then be taken for the same one.
    """
    try:
        file = folder.open(None, before)
    except FileNotFoundError:
        return None, JournalContents()
    return file, file.journal_reader.contents(file.read, min(file.size_bytes, journal_bytes(AREA_BYTES_MAX)))


class OpenTape(ClosedOnExit):
    """The files of one tape, open for reading; a context manager.

    Attributes:
        path: of the first segment, absolute, or its URL.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        memory_bytes: int | None = None,
        *,
        following: Callable[[], Sequence[int]] | None = None,
        folder: TapeFolder | None = None,
    ) -> None:
        """memory_bytes: see memory_limit.memory_budget, also for its errors.

        following: gives the numbers of the segments after the first; by default the folder is listed for them.
        folder: opens the files; by default as tape_folder does.
        """
        self._memory = memory_budget(memory_bytes)
        given = tape_location(path)
        self.path: Location = given.absolute()
        self._folder = folder or tape_folder(self.path)
        self._following = following or self._folder.following
        self._name = str(given)  # As it was given, for messages.
        self._files: dict[int, OpenedFile] = {}  # By number of the segment.
        self._sources: list[SegmentInput] = []
        self._journal = JournalContents()
        self._journal_file: OpenedFile | None = None

    def assemble(self, *, believe_index: bool = True) -> Assembled:
        """Open the files as they are now and assemble one recording.

        A later call reads only what has been added to the same files. The first file may be missing if others exist.
        Files that were open before and are not the tape's any more stay in use, until nothing reads from them.

        Raises FileNotFoundError or a different OSError if no file can be opened, UnreadableError if it contains no
        block of a tape, UnsupportedVersionError if a newer program wrote it, RecordingError if it is a later file of a
        tape whose first one is next to it. What was opened before is then as it was.
        """
        before = self._files, self._sources, self._journal, self._journal_file
        try:
            return self._open_and_assemble(believe_index=believe_index)
        except BaseException as error:
            self._files, self._sources, self._journal, self._journal_file = before
            if isinstance(error, FileNotFoundError) and isinstance(self.path, TapeUrl):
                _ensure_no_folder(self.path)
            raise

    def _open_and_assemble(self, *, believe_index: bool) -> Assembled:
        self._folder.update()
        # The journal first: frames that the writer moves to a block meanwhile are then read twice instead of never.
        self._journal_file, self._journal = read_journal(self._folder, self._journal_file)
        missing = self._open_segments()
        if missing is not None and not any(_is_segment(source) for source in self._sources):
            raise missing
        assembled = self.assemble_again(believe_index=believe_index)
        if len(assembled.recording.segments) == 1 and missing is None:
            self._ensure_first(assembled)
        return assembled

    def _open_segments(self) -> FileNotFoundError | None:
        """Open the segments, or keep them open; return the error if there is no first one."""
        before, self._files, self._sources = self._files, {}, []
        missing: FileNotFoundError | None = None
        try:
            self._sources.append(self._open_segment(0, before))
        except FileNotFoundError as error:
            if not self._folder.exists():
                raise
            missing = error
        for _ in range(LISTINGS_MAX):
            has_vanished = False
            for number in self._following():
                if number in self._files:
                    continue
                try:
                    self._sources.append(self._open_segment(number, before))
                except FileNotFoundError:
                    has_vanished = True  # A ring has just removed it, and all that were listed may go meanwhile.
            if not has_vanished:
                break
        # A file may have grown, up to its end, between its opening and the listing that shows the next one.
        self._sources[:-1] = [
            attrs.evolve(source, size_bytes=self._files[source.number].size_bytes) for source in self._sources[:-1]
        ]
        return missing

    def _ensure_first(self, assembled: Assembled) -> None:
        """Refuse a later file of an existing tape: the user means the complete tape, and would miss the rest."""
        header = assembled.recording.segments[0].contents.header
        if header is None or not header.segment:
            return
        if self._folder.has_whole(header.segment):
            named = self._name.removesuffix(f".{header.segment}")
            raise RecordingError(f"{self._name}: this is file {header.segment} of {named}; name that one")

    def assemble_again(self, *, believe_index: bool) -> Assembled:
        """Assemble the files again that assemble has opened, with their sizes at that time."""
        try:
            assembled = assemble(self._sources, self._journal, believe_index=believe_index, memory=self._memory)
        except NoTapeError:
            empty = not any(source.size_bytes for source in self._sources)
            raise UnreadableError(self._name, no_tape(empty=empty)) from None
        assembled.recording.copier = ThreadedCopier()
        return assembled

    def _open_segment(self, number: int, before: dict[int, OpenedFile]) -> SegmentInput:
        """Open a segment, or take it from those that were open before if its name still leads to the same file."""
        self._files[number] = file = self._folder.open(number, before.get(number))
        if file.is_folder:
            name = self._name if number == 0 else f"{self._name}.{number}"
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        return SegmentInput(number, file.read, file.size_bytes, file.progress, 0 if file.reads_ahead else WINDOW_BYTES)

    def close(self) -> None:
        """Close the files: reading from them then raises ValueError. A second call does nothing."""
        for file in self._files.values():
            file.close()
        if self._journal_file is not None:
            self._journal_file.close()


def _ensure_no_folder(url: TapeUrl) -> None:
    """Raise IsADirectoryError with a tape in it if a URL is a folder: many stores have none, only names that begin with it."""
    from recorder.storage.remote.url_folder import is_folder, list_folder  # noqa: PLC0415 - most tapes are files of this machine

    try:
        if not is_folder(url):
            return
        tapes = sorted(name for name in list_folder(url) if name.endswith(".tape"))
    except OSError:
        return  # The error that is known already says more.
    text = f"{os.strerror(errno.EISDIR)}: name one tape in it"
    text += f", such as {(url / tapes[0]).shown}" if tapes else ""
    raise IsADirectoryError(errno.EISDIR, text, url.shown)


def _is_segment(source: SegmentInput) -> bool:
    """Return True if a file with the name of a later segment begins like that segment."""
    try:
        return decode_file_header(source.read(0, HEADER_BYTES)).segment == source.number
    except (CorruptError, TornError, UnsupportedVersionError):
        return False


def no_tape(*, empty: bool) -> str:
    """The message for a file without a block; the expected bytes would not help a user."""
    return "this is not a tape: the file is empty" if empty else "this is not a tape"


def reader(descriptor: int) -> Read:
    """Make a function that reads from an open file without moving its position."""
    return lambda offset, size: os.pread(descriptor, size, offset)


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Return True if a writer holds the lock of the tape. Raises FileNotFoundError if there is no tape.

    No process writes to a file at a URL: a store replaces it as a whole.
    """
    if isinstance(path, TapeUrl):
        return False
    descriptor = os.open(path, READING)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)  # Releases the lock at once.
    return False
