"""The manifest that joins tapes of shards, checked, and the whole state from the parts of all shards.

No file is believed: a manifest and tapes may be damaged, of other runs, or made to mislead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recorder.format.blocks.file_header import RUN_ID_BYTES
from recorder.location.shards_manifest import MANIFEST_NAME, MANIFEST_VERSION, digest_of, shard_tape_name
from sim.kernel.registry import UnknownWorldError, find_world
from sim.kernel.state import Snapshot, State
from sim.sharding import PartedPlan, ShardsError, Stripes

# What joining parts of no run raises.
_FOREIGN_PARTS = (LookupError, ValueError, TypeError, OverflowError, MemoryError)


class ShardTapesError(ValueError):
    """The tapes of the shards cannot be used; the message says why, in one line."""


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the content of a manifest. Raises ShardTapesError."""
    try:
        manifest: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ShardTapesError(
            f"{path} is missing: the run did not end, so the tapes of its shards are not used"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ShardTapesError(f"{path} cannot be read: {error}") from None
    match manifest:
        case {"version": int(version)} if not 1 <= version <= MANIFEST_VERSION:
            raise ShardTapesError(f"{path} has version {version}: expected 1 to {MANIFEST_VERSION}")
        case {"version": int(version)} if version > 1 and not _is_run_id(manifest.get("run_id")):
            raise ShardTapesError(f"{path} is not a manifest of shards: expected the id of a run")
        case {
            "version": int(), "first_tick": int(), "last_tick": int(), "last_hash": str(), "halo": int(),
            "cuts": [*_], "tapes": [_, *_] as tapes,
        } if all(map(_is_entry, tapes)):  # fmt: skip
            if not 0 <= manifest["first_tick"] <= manifest["last_tick"]:
                raise ShardTapesError(f"{path} is damaged: expected a first and a last tick, in this order")
            return dict(manifest)
    raise ShardTapesError(f"{path} is not a manifest of shards")


def _is_run_id(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(rf"[0-9a-f]{{{2 * RUN_ID_BYTES}}}", text) is not None


def _is_entry(entry: Any) -> bool:
    match entry:
        case {"name": str(), "bytes": int(), "blake2b": str()}:
            return True
    return False


def plan_of(meta: Mapping[str, Any]) -> PartedPlan:
    """Return the division of the world that the META of a whole names. Raises ShardTapesError."""
    match meta.get("world"):
        case {"name": str(name), "config": dict(config)}:
            try:
                make = find_world(name).shard_plan
                if make is not None:
                    plan: PartedPlan = make(config)
                    return plan
            except (UnknownWorldError, ValueError) as error:
                raise ShardTapesError(f"the world of the tape cannot be divided: {error}") from None
    raise ShardTapesError("the world of the tape does not run in shards")


def stripes_of(folder: Path, manifest: Mapping[str, Any], plan: PartedPlan) -> Stripes:
    """Return the stripes of the plan for as many shards as there are tapes. Raises ShardTapesError unless it names the same."""
    try:
        stripes = plan.stripes(len(manifest["tapes"]))
    except ShardsError:
        stripes = None
    named = [entry["name"] for entry in manifest["tapes"]], manifest["cuts"], manifest["halo"]
    if stripes is None or named != ([*map(shard_tape_name, range(stripes.count))], [*stripes.cuts], stripes.halo):
        raise ShardTapesError(
            f"{folder / MANIFEST_NAME} is damaged: it divides the world in another way than the world itself does"
        )
    return stripes


def tapes_of(folder: Path, manifest: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the tapes that a manifest names. Raises ShardTapesError for one that is missing or has changed; OSError."""
    paths = []
    for shard, entry in enumerate(manifest["tapes"]):
        one = folder / shard_tape_name(shard)
        if not one.is_file():
            raise ShardTapesError(f"{one} is missing")
        if one.stat().st_size != entry["bytes"] or digest_of(one) != entry["blake2b"]:
            raise ShardTapesError(f"{one} is not the file that the manifest names: its content has changed")
        paths.append(one)
    return tuple(paths)


def joined(folder: Path, plan: PartedPlan, parts: Sequence[Snapshot]) -> State:
    """Return the whole state from the parts of all shards. Raises ShardTapesError if they are not those of one run."""
    try:
        return plan.join_parts(parts)
    except _FOREIGN_PARTS:
        raise ShardTapesError(f"{folder} holds tapes that are not of the shards of one run") from None
