"""Where the tapes of shards and their manifest are: the folder ``NAME.shards`` beside the tape ``NAME``."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER_SUFFIX, MANIFEST_NAME, MANIFEST_VERSION = ".shards", "manifest.json", 1


def shards_folder(tape: Path) -> Path:
    """Return the folder of the shards of a tape."""
    return tape.with_name(tape.name + FOLDER_SUFFIX)


def shard_tape_name(shard: int) -> str:
    """Return the file name of the tape of a shard."""
    return f"shard-{shard}.tape"


def digest_of(path: Path) -> str:
    """Return the BLAKE2b-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
