"""Tapes of shards beside the tape of a whole run: which shard differs at a tick, and the whole state from its shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import RecordingError
from recorder.location.shards_manifest import (
    FOLDER_SUFFIX,
    MANIFEST_NAME,
    MANIFEST_VERSION,
    shard_tape_name,
    shards_folder,
)
from recorder.scenarios.shards.checked_manifest import (
    ShardTapesError,
    joined,
    plan_of,
    read_manifest,
    stripes_of,
    tapes_of,
)
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.state import Snapshot, State
from sim.sharding import PartedPlan, Stripes


@attrs.frozen
class ShardDifference:
    """A shard whose recorded rows are not the replayed ones.

    Attributes:
        shard: its number.
        first_row, last_row: its rows.
        fields: the fields that differ in them.
    """

    shard: int
    first_row: int
    last_row: int
    fields: list[str]


@attrs.frozen
class DifferingShards:
    """The shards that recorded something else than what was replayed.

    Attributes:
        shards: those whose rows differ; None if that is not known.
        shard_count: of all; None if it is not known.
        shards_unknown: why it is not known; None if it is.
    """

    shards: list[ShardDifference] | None
    shard_count: int | None
    shards_unknown: str | None = None


@attrs.frozen
class WholeFacts:
    """What the tapes of shards say of the tape of the whole.

    Attributes:
        run_id: hexadecimal.
        meta: its META.
    """

    run_id: str
    meta: dict[str, Any]


@attrs.frozen
class ShardParts:
    """The tapes of the shards of one run, checked against the manifest and the tape of the whole.

    Attributes:
        paths: one tape a shard, in their order.
        stripes: the rows of each.
        first_tick, last_tick: what they hold.
        plan: the division, of the world that the tape of the whole names.
    """

    paths: tuple[Path, ...]
    stripes: Stripes
    first_tick: int
    last_tick: int
    plan: PartedPlan

    @staticmethod
    def beside(path: Path) -> ShardParts | None:
        """Return those of the tape of a whole; None if it has none. Raises ShardTapesError, and as Tape does."""
        folder = shards_folder(path)
        if not folder.exists():
            return None
        manifest = read_manifest(folder / MANIFEST_NAME)
        with Tape(path) as tape:
            _ensure_same_run(folder, manifest, tape)
            plan = plan_of(tape.meta)
        return ShardParts._checked(folder, manifest, plan)

    @staticmethod
    def alone(folder: Path) -> tuple[ShardParts, WholeFacts]:
        """Return those of a folder, without the tape of the whole, and what they say of it. Raises as beside does."""
        manifest = read_manifest(folder / MANIFEST_NAME)
        if manifest["version"] < MANIFEST_VERSION:
            whole = folder.with_name(folder.name.removesuffix(FOLDER_SUFFIX))
            raise ShardTapesError(
                f"{whole} is missing, and {folder} is of an earlier version, which does not replace it"
            )
        first = folder / shard_tape_name(0)
        if not first.is_file():
            raise ShardTapesError(f"{first} is missing")
        with Tape(first) as tape:
            notes = tape.meta.get("notes")
        meta = notes.get("whole") if isinstance(notes, dict) else None
        if not isinstance(meta, dict):
            raise ShardTapesError(f"{first} is not the tape of a shard: it does not describe the whole")
        return ShardParts._checked(folder, manifest, plan_of(meta)), WholeFacts(manifest["run_id"], meta)

    @staticmethod
    def _checked(folder: Path, manifest: dict[str, Any], plan: PartedPlan) -> ShardParts:
        """Return the parts of a folder. Raises ShardTapesError unless they are those that the manifest names."""
        stripes, paths = stripes_of(folder, manifest, plan), tapes_of(folder, manifest)
        parts = ShardParts(paths, stripes, manifest["first_tick"], manifest["last_tick"], plan)
        if f"{parts.whole_at(parts.last_tick).hash():016x}" != manifest["last_hash"]:
            raise ShardTapesError(f"{folder} holds no whole: its tapes together have another state at the last tick")
        return parts

    def differences(self, tick: int, replayed: Snapshot) -> list[ShardDifference]:
        """Return the shards whose rows differ from a replayed whole state. Raises ShardTapesError, RecordingError."""
        found = []
        for shard, recorded in enumerate(self._parts_at(tick)):
            part = State(self.plan.part_schema(replayed, self.stripes, shard))
            self.plan.write_part(replayed, self.stripes, shard, part)
            if set(recorded) != set(part):
                raise ShardTapesError(f"{self.paths[shard]} is not the tape of a shard of this run")
            if fields := self.plan.differing_fields(recorded, part):
                first, end = self.stripes.own(shard)
                found.append(ShardDifference(shard, first, end - 1, fields))
        return found

    def whole_at(self, tick: int) -> State:
        """Return the whole state at a tick, from the shards alone. Raises ShardTapesError, RecordingError."""
        return self.joined(self._parts_at(tick))

    def joined(self, parts: Sequence[Snapshot]) -> State:
        """Return the whole state from the parts of all shards. Raises ShardTapesError if they are not those of one run."""
        return joined(self.paths[0].parent, self.plan, parts)

    def _parts_at(self, tick: int) -> list[Snapshot]:
        if not self.first_tick <= tick <= self.last_tick:
            raise ShardTapesError(f"the tapes of the shards hold the ticks {self.first_tick} to {self.last_tick}")
        parts = []
        for path in self.paths:
            with Timeline(path) as run:
                parts.append(run.at(tick))
        return parts


def _ensure_same_run(folder: Path, manifest: dict[str, Any], tape: Tape) -> None:
    try:
        last_hash = f"{tape.state_hash(manifest['last_tick']):016x}"
    except RecordingError:
        last_hash = None
    if last_hash != manifest["last_hash"]:
        raise ShardTapesError(f"{folder} belongs to another run: its hash at tick {manifest['last_tick']} differs")


def differing_shards(path: Path, tick: int, replayed: Snapshot) -> DifferingShards:
    """Compare a replayed whole state with what the shards of the run on a tape recorded at this tick."""
    try:
        parts = ShardParts.beside(path)
        if parts is None:
            return DifferingShards(None, None, "the run has no tapes of shards")
        return DifferingShards(parts.differences(tick, replayed), len(parts.paths))
    except (ShardTapesError, RecordingError, OSError) as error:
        return DifferingShards(None, None, str(error))
