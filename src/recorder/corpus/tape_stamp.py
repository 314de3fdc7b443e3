"""The stamp of a tape: the sizes, times and inodes of its files, which differ after every change to them.

An index entry holds the stamp that the tape had before it was read, and counts as long as the tape has the same stamp.
A tape has no stamp while a change could leave all of these as they are: if its last change was only just now (see
file_times), or if it has a journal, which is mapped memory and gets a new time only now and then.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from recorder.corpus.file_times import is_settled
from recorder.corpus.folder_listing import FolderListing
from recorder.storage.file_names import segment_path


@attrs.frozen
class TapeStamp:
    """The files of a tape at one moment.

    Attributes:
        size_bytes: of all segments.
        changed_ns: the time of the last change to one of them.
        text: number, inode, size and time of each segment; empty if the tape has no stamp.
    """

    size_bytes: int
    changed_ns: int
    text: str


def stamp_of(path: Path, listing: FolderListing) -> TapeStamp:
    """The stamp of a tape. listing: of its folder. Raises OSError."""
    numbers = [0, *listing.following(path.name)]
    stats = [segment_path(path, number).stat() for number in numbers]
    changed_ns = max(stat.st_mtime_ns for stat in stats)
    text = ""
    if not listing.has_journal(path.name) and is_settled(changed_ns):
        files = zip(numbers, stats, strict=True)
        text = " ".join(f"{n}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}" for n, stat in files)
    return TapeStamp(sum(stat.st_size for stat in stats), changed_ns, text)
