"""Where the tapes of shards and their manifest are: the folder ``NAME.shards`` beside the tape ``NAME``."""

from __future__ import annotations

from pathlib import Path

FOLDER_SUFFIX, MANIFEST_NAME, MANIFEST_VERSION = ".shards", "manifest.json", 2


def shards_folder(tape: Path) -> Path:
    """Return the folder of the shards of a tape."""
    return tape.with_name(tape.name + FOLDER_SUFFIX)


def joined_by(path: Path) -> Path:
    """Return the tape of the whole that a manifest, or the folder with one, joins; another path as it is.

    Any folder may be called so, also one of tapes or of data with a manifest of its own: there is no such tape beside it.
    """
    folder = manifest_folder(path)
    whole = folder.with_name(folder.name.removesuffix(FOLDER_SUFFIX)) if folder is not None else path
    return whole if whole.is_file() else path


def manifest_folder(path: Path) -> Path | None:
    """Return the folder of shards that a path names by itself or by its manifest; None for another path."""
    folder = path.parent if path.name == MANIFEST_NAME else path
    is_named = folder.name.endswith(FOLDER_SUFFIX) and folder.name != FOLDER_SUFFIX
    return folder if is_named and (folder / MANIFEST_NAME).is_file() else None


def shard_tape_name(shard: int) -> str:
    """Return the file name of the tape of a shard."""
    return f"shard-{shard}.tape"


def digest_of(path: Path) -> str:
    """Return the BLAKE2b-256 of a file, in hex."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and most commands ask for no digest

    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
