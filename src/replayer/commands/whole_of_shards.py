"""The whole of a run in shards as an argument of a command: beside its manifest, or joined from the tapes of its shards."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from pathlib import Path

from recorder.console.output import say_on_stderr
from recorder.console.progress import progress_bar
from recorder.exit_codes import UsageError
from recorder.location.shards_manifest import (
    FOLDER_SUFFIX,
    MANIFEST_NAME,
    joined_by,
    manifest_folder,
    shard_tape_name,
    shards_folder,
)
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_as

_joined: dict[Path, Path] = {}  # From the tape that was joined in a temporary folder to the folder of its shards.


def whole_of(path: Path) -> Path:
    """Return the tape of the whole that a manifest of shards, or its folder, stands for; another path as it is.

    Without such a tape it is joined in a temporary folder, which is removed with this process. Raises UsageError if it
    cannot be joined.
    """
    found, folder = joined_by(path), manifest_folder(path)
    if found is not path or folder is None or not _is_of_shards(folder):
        return found
    return _join(folder)


def shown_place(tape: Path) -> Path:
    """Return the path beside which the results of a tape are written: the folder of its shards for one that was joined."""
    return _joined.get(tape, tape)


def _is_of_shards(folder: Path) -> bool:
    """Return False for the folder of a data set, which may be called so and has a manifest of its own."""
    if (folder / shard_tape_name(0)).is_file():
        return True
    with reading(folder):
        return b'"cuts"' in (folder / MANIFEST_NAME).read_bytes()


def _join(folder: Path) -> Path:
    import shutil  # noqa: PLC0415 - only for shards, as all of these
    import tempfile  # noqa: PLC0415

    from recorder.scenarios.shards.checked_manifest import ShardTapesError  # noqa: PLC0415
    from replayer.timeline.shards.shard_parts import ShardParts  # noqa: PLC0415
    from replayer.timeline.shards.whole_tape import write_whole  # noqa: PLC0415

    place = Path(tempfile.mkdtemp(prefix="replay-shards-"))
    atexit.register(_remove, place, os.getpid(), shutil.rmtree)
    whole = place / folder.name.removesuffix(FOLDER_SUFFIX)
    try:
        with reading(folder):
            parts, facts = ShardParts.alone(folder)
            with progress_bar("joining shards", parts.last_tick - parts.first_tick, quiet=False) as show:
                write_whole(parts, facts, whole, show)
    except ShardTapesError as error:
        raise UsageError(str(error)) from None
    shards_folder(whole).symlink_to(folder.absolute())  # So that a desync names its shard.
    _joined[whole] = folder
    print_as(str(whole), str(folder))
    if parts.first_tick < parts.last_tick:  # A checkpoint never had a tape of the whole.
        ticks = counted(parts.last_tick - parts.first_tick + 1, "tick")
        say_on_stderr(
            f"{whole.name} is missing: joined from the shards in {folder}, {ticks} with the hashes of the whole"
        )
    return whole


def _remove(folder: Path, process_id: int, remove: Callable[..., None]) -> None:
    if os.getpid() == process_id:  # Not in a fork.
        remove(folder, ignore_errors=True)
