"""The digest of a tape's files: certificates and data sets identify their tape by it."""

from __future__ import annotations

import hashlib
import os

from recorder.storage.file_names import following_segments, journal_path, segment_path

_CHUNK_BYTES = 1 << 20


def tape_digest(path: str | os.PathLike[str]) -> str:
    """Hexadecimal SHA-256 over the numbers, sizes and contents of all files of a tape, its journal included.

    Raises OSError if they cannot be read.
    """
    segments = [0, *following_segments(path)]
    files = [segment_path(path, number) for number in segments] + [journal_path(path)]
    digest = hashlib.sha256()
    for number, file in enumerate(files):
        if not file.exists():
            continue  # A tape may lack its first file; a sealed one has no journal.
        digest.update(f"file {number} of {file.stat().st_size} bytes\n".encode())
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
