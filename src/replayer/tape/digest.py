"""The digest of a tape's files: certificates and data sets identify their tape by it."""

from __future__ import annotations

import contextlib
import hashlib
import os

from recorder.location.tape_location import tape_location
from recorder.storage.open_tape import tape_folder

_CHUNK_BYTES = 4 << 20


def tape_digest(path: str | os.PathLike[str]) -> str:
    """Hexadecimal SHA-256 over the numbers, sizes and contents of all files of a tape, its journal included.

    Raises OSError if they cannot be read.
    """
    folder = tape_folder(tape_location(path))
    folder.update()
    digest = hashlib.sha256()
    for number, segment in enumerate([0, *folder.following(), None]):
        try:
            file = folder.open(segment, None)
        except FileNotFoundError:
            continue  # A tape may lack its first file; a sealed one has no journal.
        with contextlib.closing(file):
            size_bytes = file.size_bytes
            digest.update(f"file {number} of {size_bytes} bytes\n".encode())
            for offset in range(0, size_bytes, _CHUNK_BYTES):
                digest.update(file.read(offset, _CHUNK_BYTES))
    return digest.hexdigest()
