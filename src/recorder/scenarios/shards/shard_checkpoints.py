"""Checkpoints of a world in shards: the part of each shard at one tick as a tape, and the manifest that joins them.

A checkpoint is a folder like that of the shards of a run, of one tick. Each part is complete and durable before the manifest
gets its name, by a rename: without it there is no checkpoint. A run begins at the newest one, with any number of shards.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import RecordingError
from recorder.format.recording.recording import Recording
from recorder.format.segments.block_location import KeyframeLocation
from recorder.location.shards_manifest import (
    FOLDER_SUFFIX,
    MANIFEST_NAME,
    MANIFEST_VERSION,
    digest_of,
    shard_tape_name,
)
from recorder.recording_options import RecordingOptions
from recorder.scenarios.shards.checked_manifest import (
    ShardTapesError,
    joined,
    plan_of,
    read_manifest,
    stripes_of,
    tapes_of,
)
from recorder.scenarios.shards.shard_tapes import ShardPart
from recorder.session.tape_meta import describe, encode_small, new_run_id
from recorder.storage.atomic_file import make_folder, write_file
from recorder.storage.open_tape import OpenTape
from recorder.storage.tape_copy import TapeCopy
from sim.kernel.state import Snapshot, State
from sim.sharding import ShardRun

TIME_MAX_S = 253_402_300_799  # The end of the year 9999.
_SETTINGS = RecordingOptions(mode="changes", hashes="states")
_NAME = re.compile(rf"checkpoint_(\d{{12,}})_(\d+){re.escape(FOLDER_SUFFIX)}")


@attrs.frozen(eq=False)
class ShardCheckpoint:
    """A checkpoint of a world in shards, by its manifest.

    Attributes:
        path: the manifest. checkpoint_id: the name of its folder. simulation_id: kept over restores.
        timestamp: Unix time in seconds. tick, shard_count: when it was written.
        state_hash: of the whole state, hexadecimal. size_bytes: of the manifest and the parts.
        meta: of the tape of the run that wrote it: world, version, configuration, players.
    """

    path: Path
    checkpoint_id: str
    simulation_id: str
    timestamp: float
    tick: int
    shard_count: int
    state_hash: str
    size_bytes: int
    meta: Mapping[str, Any]


@attrs.frozen
class ShardDiscovery:
    """The result of a search: checkpoints, the last written first, and ignored files by path, with the reason."""

    checkpoints: tuple[ShardCheckpoint, ...]
    ignored: Mapping[Path, str]


class ShardCheckpoints:
    """Writes the checkpoints of one run.

    Attributes:
        written: the manifests, oldest first.
    """

    def __init__(
        self, folder: Path, interval_ticks: int, resumed: ShardCheckpoint | None, notify: Callable[[str], None]
    ) -> None:
        """folder: locked for this run. resumed: the checkpoint that it begins at. notify: takes why none was written."""
        self._folder, self._interval_ticks, self._notify = folder, interval_ticks, notify
        new_id = f"sim-{int(time.time())}-{uuid.uuid4().hex[:8]}"
        self._simulation_id = resumed.simulation_id if resumed is not None else new_id
        self._epoch = _last_epoch(folder) + 1  # A run never writes over a checkpoint, also a damaged one.
        self._wanted = False
        self.written: list[Path] = []

    def request(self) -> None:
        """Have a checkpoint written after the next step; a signal handler may call it."""
        self._wanted = True

    def write_if_due(self, shards: ShardRun, state: State, tick: int, meta: Mapping[str, Any]) -> None:
        """Write the state if it is due or wanted; a failed write never fails the run. meta: of the tape of the whole."""
        if not self._wanted and tick % self._interval_ticks:
            return
        self._wanted = False
        place = self._folder / f"checkpoint_{tick:012d}_{self._epoch}{FOLDER_SUFFIX}"
        try:
            self.written.append(self._write(place, shards, state, tick, meta))
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            self._notify(f"no checkpoint of tick {tick:,} could be written: {error}")

    def _write(self, place: Path, shards: ShardRun, state: State, tick: int, meta: Mapping[str, Any]) -> Path:
        make_folder(place)
        entries = []
        plan: Any = shards.plan
        for number in range(shards.stripes.count):
            path = place / shard_tape_name(number)
            _write_part(path, ShardPart(plan, state, shards.stripes, number), tick, number, meta)
            entries.append({"name": path.name, "bytes": path.stat().st_size, "blake2b": digest_of(path)})
        whole = state.snapshot()
        manifest = {
            "version": MANIFEST_VERSION,
            "whole": place.name.removesuffix(FOLDER_SUFFIX),
            "run_id": new_run_id(place.name.encode(), whole, deterministic=True).hex(),
            "simulation_id": self._simulation_id,
            "timestamp": time.time(),
            "first_tick": tick,
            "last_tick": tick,
            "last_hash": f"{whole.hash():016x}",
            "cuts": list(shards.stripes.cuts),
            "halo": shards.stripes.halo,
            "tapes": entries,
        }
        write_file(place / MANIFEST_NAME, json.dumps(manifest, indent=1) + "\n", existing="refuse")
        return place / MANIFEST_NAME


def _write_part(path: Path, part: ShardPart, tick: int, number: int, whole: Mapping[str, Any]) -> None:
    notes = {"shard": number, "shards": part.stripes.count, "whole": dict(whole)}
    described = describe(part, part, attrs.evolve(_SETTINGS, notes=notes))
    meta, snapshot = encode_small(described, "the description of the world"), part.state.snapshot()
    with TapeCopy(path, new_run_id(meta, snapshot, deterministic=True), meta) as copy:
        copy.full(tick, snapshot)
        copy.finish({"reason": "checkpoint", "ticks": tick})


def discover_shard_checkpoints(folder: Path, *, inner: bool = True) -> ShardDiscovery:
    """Find the complete checkpoints of worlds in shards in a folder, each once, the last written first.

    inner: look into the folders in it, too. What is damaged or incomplete is ignored, with the reason. Raises OSError.
    """
    found = folder.rglob(MANIFEST_NAME) if inner else folder.glob(f"*{FOLDER_SUFFIX}/{MANIFEST_NAME}")
    checkpoints: dict[tuple[str, str], ShardCheckpoint] = {}
    ignored: dict[Path, str] = {}
    for path in sorted(path for path in found if _NAME.fullmatch(path.parent.name)):
        try:
            checkpoint = _read(path)
        except (OSError, RecordingError, ShardTapesError) as error:
            ignored[path] = str(error)
        else:
            checkpoints.setdefault((checkpoint.simulation_id, checkpoint.checkpoint_id), checkpoint)
    return ShardDiscovery(newest_first(checkpoints.values()), ignored)


def newest_first(checkpoints: Iterable[ShardCheckpoint]) -> tuple[ShardCheckpoint, ...]:
    """Sort checkpoints by time, the last written first; of those of one moment, that of the later tick."""
    return tuple(sorted(checkpoints, key=lambda one: (one.timestamp, one.tick), reverse=True))


def _read(path: Path) -> ShardCheckpoint:
    """Read a checkpoint, and check its parts. Raises ShardTapesError, RecordingError, OSError."""
    manifest = read_manifest(path)
    match manifest:
        case {"simulation_id": str(simulation_id), "timestamp": int() | float() as timestamp}:
            pass
        case _:
            raise ShardTapesError(f"{path} is not the manifest of a checkpoint")
    if not 0 <= timestamp <= TIME_MAX_S or manifest["first_tick"] != manifest["last_tick"]:
        raise ShardTapesError(f"{path} is damaged: expected a time and one tick")
    tapes = tapes_of(path.parent, manifest)
    with _opened_part(tapes[0], manifest["last_tick"]) as (_, _, meta):
        pass  # Its state is not read: the digests of all parts are those that were written.
    sizes = [path.stat().st_size, *(entry["bytes"] for entry in manifest["tapes"])]
    return ShardCheckpoint(
        path=path,
        checkpoint_id=path.parent.name.removesuffix(FOLDER_SUFFIX),
        simulation_id=simulation_id,
        timestamp=float(timestamp),
        tick=manifest["last_tick"],
        shard_count=len(tapes),
        state_hash=manifest["last_hash"],
        size_bytes=sum(sizes),
        meta=meta,
    )


@contextmanager
def _opened_part(tape: Path, tick: int) -> Iterator[tuple[Recording, KeyframeLocation, dict[str, Any]]]:
    """The tape of a part, the place of its state, and the META of its whole. Raises ShardTapesError, RecordingError, OSError."""
    with OpenTape(tape) as opened:
        assembled = opened.assemble()
        notes = assembled.meta.get("notes")
        whole = notes.get("whole") if isinstance(notes, dict) else None
        places = [place for place in assembled.recording.keyframes if place.tick == tick]
        if not places or not isinstance(whole, dict):
            raise ShardTapesError(f"{tape} is not a part of a checkpoint of tick {tick:,}")
        yield assembled.recording, places[0], whole


def _part(tape: Path, tick: int) -> Snapshot:
    with _opened_part(tape, tick) as (recording, place, _):
        return recording.snapshot(place)


def state_of(checkpoint: ShardCheckpoint) -> State:
    """Return the whole state of a checkpoint, joined from its parts. Raises ShardTapesError, RecordingError, OSError.

    The digests of the parts were compared when it was found; what is loaded now has the hash that it names.
    """
    folder, manifest = checkpoint.path.parent, read_manifest(checkpoint.path)
    plan = plan_of(checkpoint.meta)
    stripes_of(folder, manifest, plan)
    parts = [_part(folder / shard_tape_name(shard), checkpoint.tick) for shard in range(checkpoint.shard_count)]
    state = joined(folder, plan, parts)
    if f"{state.hash():016x}" != checkpoint.state_hash:
        raise ShardTapesError(
            f"{checkpoint.path}: its parts together have the hash {state.hash():016x}, the manifest names "
            f"{checkpoint.state_hash}"
        )
    return state


def sweep(folder: Path) -> None:
    """Remove the checkpoints without a manifest, which killed processes left. The folder is locked. Raises OSError."""
    for place in [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]:
        if place.is_dir() and not (place / MANIFEST_NAME).exists():
            shutil.rmtree(place, ignore_errors=True)


def _last_epoch(folder: Path) -> int:
    names = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    return max((int(name[2]) for name in names if name is not None), default=0)
