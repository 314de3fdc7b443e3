"""A checkpoint of the whole: a manifest, which is the server's part, and the parts of the workers, all of one tick.

The manifest is written last, by a rename: without it there is no checkpoint. It names each part with size and digest.

Manifest, JSON:
    metadata            checkpoint_id, timestamp (Unix), global_step, simulation_id, worker_count, organism_count; world,
                        version, config, epoch, state_hash
    worker_assignments  the worker of each organism, by id
    organism_data       the registry: taxonomy and figures of each organism, by id
    seed_bank_data      seeds in the order of first births: program, first, births, reseeded
    global_stats        next_id, pool, statistics
    worker_stats        figures of each worker, by number
    historical_stats    the monitoring history; older manifests lack it
    parts               name, worker, count, size_bytes, blake2b
    blake2b             of all of the above; older manifests lack it
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from recorder.cluster.checkpoint_parts import OrganismPart, PartNote, decode_part, digest_of
from recorder.storage.atomic_file import write_file
from sim.worlds.organisms.execution import Bodies, genome_rows
from sim.worlds.organisms.instructions import parse_program, program_text
from sim.worlds.organisms.layout import COLUMNS, Statistic
from sim.worlds.organisms.simulation import WORLD_NAME, WORLD_VERSION, Organisms
from sim.worlds.organisms.table_rows import replace_rows
from sim.worlds.organisms.taxonomy import rank_names

MANIFEST_SUFFIX = "_server.json"
FORMAT = 1
TIME_MAX_S = 253_402_300_799  # The end of the year 9999.
SHOWN_MAX = 200  # Characters of an error that a message shows.
_PART_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}")
_REGISTERED = (
    "mother",
    "generation",
    "created_at",
    "size",
    "energy",
    "max_energy",
    "age_in_instructions",
    "error_count",
)


class WholeCheckpointError(ValueError):
    """A checkpoint of the whole cannot be used; the message is one line with the file and the reason."""


class OtherWorldError(WholeCheckpointError):
    """A checkpoint is of another world, or of another version of it."""


@attrs.frozen(eq=False)
class WholeCheckpoint:
    """A checkpoint of the whole, by its manifest.

    Attributes:
        path: the manifest.
        checkpoint_id, simulation_id: its own, and that of the simulation. timestamp: Unix time in seconds.
        tick, epoch, worker_count, organism_count: of the world and its workers when it was written.
        config: of the world. state_hash: of its state, hexadecimal.
        parts: what the manifest states of each.
    """

    path: Path
    checkpoint_id: str
    simulation_id: str
    timestamp: float
    tick: int
    epoch: int
    worker_count: int
    organism_count: int
    config: Mapping[str, Any]
    state_hash: str
    parts: tuple[PartNote, ...]

    @property
    def identity(self) -> tuple[str, str]:
        """Two with one identity are one checkpoint, wherever they lie."""
        return self.simulation_id, self.checkpoint_id

    @property
    def size_bytes(self) -> int:
        """Of the manifest and its parts."""
        return self.path.stat().st_size + sum(part.size_bytes for part in self.parts)


@attrs.frozen(eq=False)
class Facts:
    """What a server knows beyond the state: none of it is read by a rule of the world.

    Attributes:
        assignments: the worker of each organism, by id. worker_stats: figures by the number of the worker.
        history: the monitoring history, oldest entry first.
    """

    assignments: Mapping[int, int] = attrs.field(factory=dict)
    worker_stats: Mapping[int, Mapping[str, int]] = attrs.field(factory=dict)
    history: Sequence[Mapping[str, int]] = ()


def write_manifest(
    folder: Path,
    checkpoint_id: str,
    simulation_id: str,
    epoch: int,
    world: Organisms,
    facts: Facts,
    parts: Sequence[PartNote],
) -> Path:
    """Write the manifest of a checkpoint whose parts are on the disk, and return its path. Raises OSError."""
    state = world.state
    statistics = {name.name.lower(): int(state["statistics"][name]) for name in Statistic}
    plain: dict[str, Any] = {
        "format": FORMAT,
        "metadata": {
            "checkpoint_id": checkpoint_id,
            "timestamp": time.time(),
            "global_step": int(state["tick"]),
            "simulation_id": simulation_id,
            "worker_count": len(parts),
            "organism_count": state.count("organisms"),
            "world": WORLD_NAME,
            "version": WORLD_VERSION,
            "config": dict(world.origin.config),
            "epoch": epoch,
            "state_hash": f"{state.hash():016x}",
        },
        "worker_assignments": {str(one): worker for one, worker in sorted(facts.assignments.items())},
        "organism_data": _registry(world),
        "seed_bank_data": _seeds(world),
        "global_stats": {"next_id": int(state["next_id"]), "pool": int(state["pool"]), "statistics": statistics},
        "worker_stats": {str(worker): dict(stats) for worker, stats in sorted(facts.worker_stats.items())},
        "historical_stats": [dict(entry) for entry in facts.history],
        "parts": [attrs.asdict(part) for part in parts],
    }
    path = folder / f"{checkpoint_id}{MANIFEST_SUFFIX}"
    write_file(path, json.dumps(plain | {"blake2b": _own_digest(plain)}, indent=1) + "\n", existing="replace")
    return path


def _registry(world: Organisms) -> dict[str, Any]:
    columns = {name: world.state[f"organisms.{name}"].tolist() for name in ("id", "taxonomy", *_REGISTERED)}
    return {
        str(one): {"id": one, "taxonomy": rank_names(columns["taxonomy"][row])}
        | {name: columns[name][row] for name in _REGISTERED}
        for row, one in enumerate(columns["id"])
    }


def _seeds(world: Organisms) -> list[dict[str, Any]]:
    state = world.state
    columns = {name: state[f"seed_bank.{name}"].tolist() for name in ("size", "first", "births", "reseeded")}
    programs = [
        program_text(state["seed_bank.genome"][row, :size].tobytes()) for row, size in enumerate(columns.pop("size"))
    ]
    return [{"program": text} | {name: columns[name][row] for name in columns} for row, text in enumerate(programs)]


def _own_digest(plain: Mapping[str, Any]) -> str:
    return digest_of(json.dumps(plain, sort_keys=True).encode())


def read_manifest(path: Path) -> WholeCheckpoint:
    """Read the manifest of a checkpoint; the parts are not looked at. Raises WholeCheckpointError, OSError."""
    return _read(path)[0]


def _read(path: Path) -> tuple[WholeCheckpoint, dict[str, Any]]:
    """A checkpoint, and its manifest. Raises as read_manifest does."""
    content = _content_of(path)
    try:
        plain = json.loads(content)
        digest = plain.pop("blake2b", None)
        if digest is not None and digest != _own_digest(plain):
            raise WholeCheckpointError(f"{path} is damaged: its content does not have the digest that it names")
        return _checkpoint_of(path, plain), plain
    except WholeCheckpointError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        why = f"{type(error).__name__}: {str(error)[:SHOWN_MAX]}"
        raise WholeCheckpointError(f"{path} is not the manifest of a checkpoint: {why}") from None


def _content_of(path: Path) -> bytes:
    """The content of a file; a pipe or a device, which may never end, is none. Raises WholeCheckpointError, OSError."""
    if path.exists() and not path.is_file():
        raise WholeCheckpointError(f"{path} is not a file")
    return path.read_bytes()


def _checkpoint_of(path: Path, plain: Mapping[str, Any]) -> WholeCheckpoint:
    metadata = plain["metadata"]
    found = metadata["world"], metadata["version"]
    if found != (WORLD_NAME, WORLD_VERSION):
        raise OtherWorldError(
            f"{path} is of another world or version: expected {WORLD_NAME} version {WORLD_VERSION}, "
            f"got {found[0]} version {found[1]}"
        )
    parts = tuple(
        PartNote(
            str(part["name"]), int(part["worker"]), int(part["count"]), int(part["size_bytes"]), str(part["blake2b"])
        )
        for part in plain["parts"]
    )
    if not parts:
        raise WholeCheckpointError(f"{path} is damaged: it names no part")
    if not all(_PART_NAME.fullmatch(part.name) for part in parts):
        raise WholeCheckpointError(f"{path} is damaged: a part lies outside of its folder")
    checkpoint = WholeCheckpoint(
        path=path,
        checkpoint_id=str(metadata["checkpoint_id"]),
        simulation_id=str(metadata["simulation_id"]),
        timestamp=float(metadata["timestamp"]),
        tick=int(metadata["global_step"]),
        epoch=int(metadata["epoch"]),
        worker_count=int(metadata["worker_count"]),
        organism_count=int(metadata["organism_count"]),
        config=metadata["config"],
        state_hash=str(metadata["state_hash"]),
        parts=parts,
    )
    if not (0 <= checkpoint.timestamp <= TIME_MAX_S and isinstance(checkpoint.config, dict)):
        raise WholeCheckpointError(f"{path} is damaged: expected a time and a configuration")
    return checkpoint


def read_parts(checkpoint: WholeCheckpoint) -> list[OrganismPart]:
    """Read and check the parts of a checkpoint. Raises WholeCheckpointError for one that is missing, damaged or of another tick."""
    parts = []
    for note in checkpoint.parts:
        path = checkpoint.path.with_name(note.name)
        try:
            content = _content_of(path)
        except FileNotFoundError:
            raise WholeCheckpointError(f"{path}, a part of {checkpoint.path.name}, is missing") from None
        try:
            part = decode_part(content)
        except ValueError:
            part = None
        if part is not None and (part.tick, part.simulation_id) != (checkpoint.tick, checkpoint.simulation_id):
            raise WholeCheckpointError(
                f"{path} is of tick {part.tick:,} of {part.simulation_id}, but its manifest is of tick {checkpoint.tick:,} "
                f"of {checkpoint.simulation_id}: parts of different ticks are no whole"
            )
        if len(content) != note.size_bytes or digest_of(content) != note.blake2b or part is None:
            raise WholeCheckpointError(
                f"{path} is damaged: expected {note.size_bytes:,} bytes with BLAKE2b {note.blake2b[:16]}…, "
                f"got {len(content):,} with {digest_of(content)[:16]}…"
            )
        parts.append(part)
    return parts


@attrs.frozen(eq=False)
class Restored:
    """A world as a checkpoint has it, what its server knew, and warnings, one line each."""

    world: Organisms
    facts: Facts
    warnings: tuple[str, ...]


def restore_whole(checkpoint: WholeCheckpoint) -> Restored:
    """Build the world of a checkpoint. Raises WholeCheckpointError if anything of it is missing or differs, OSError."""
    checkpoint, plain = _read(checkpoint.path)
    path, bodies = checkpoint.path, _all_bodies(read_parts(checkpoint))
    try:
        world = Organisms(checkpoint.config)
        _fill(world, checkpoint, plain, bodies)
        assignments = {int(one): int(worker) for one, worker in plain["worker_assignments"].items()}
        stats = {
            int(worker): {str(k): int(v) for k, v in figures.items()}
            for worker, figures in plain["worker_stats"].items()
        }
        history = [{str(k): int(v) for k, v in entry.items()} for entry in plain.get("historical_stats", ())]
        registered = {int(one) for one in plain["organism_data"]}
    except WholeCheckpointError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise WholeCheckpointError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    present = set(bodies["id"].tolist())
    if registered != present:
        raise WholeCheckpointError(
            f"{path} is damaged: its registry and its parts differ in organism {min(registered ^ present)}"
        )
    warnings = tuple(
        f"{path}: organism {one} is in the assignments, but not in the registry: it is not assigned"
        for one in sorted(assignments.keys() - registered)
    )
    assignments = {one: worker for one, worker in assignments.items() if one in registered}
    return Restored(world, Facts(assignments, stats, history), warnings)


def _all_bodies(parts: Iterable[OrganismPart]) -> Bodies:
    listed = list(parts)
    joined = {column.name: np.concatenate([part.bodies[column.name] for part in listed]) for column in COLUMNS}
    order = np.argsort(joined["id"], kind="stable")
    return {name: values[order] for name, values in joined.items()}


def _fill(world: Organisms, checkpoint: WholeCheckpoint, plain: Mapping[str, Any], bodies: Bodies) -> None:
    """Put the state of a checkpoint into a world. Raises WholeCheckpointError if its hash differs."""
    state = world.state
    stats, seeds = plain["global_stats"], plain["seed_bank_data"]
    counts = len(bodies["id"]), len(seeds)
    for table, count in zip(("organisms", "seed_bank"), counts, strict=True):
        if count > state.layout.capacities[table]:
            raise WholeCheckpointError(f"{checkpoint.path} is damaged: {count:,} rows of {table} are too many")
    state["tick"][...], state["next_id"][...], state["pool"][...] = checkpoint.tick, stats["next_id"], stats["pool"]
    for name in Statistic:
        state["statistics"][name] = stats["statistics"][name.name.lower()]
    genomes = [parse_program(seed["program"]) for seed in seeds]
    columns = {name: np.array([seed[name] for seed in seeds], np.int64) for name in ("first", "births", "reseeded")}
    sizes = np.array([len(genome) for genome in genomes], np.int32)
    replace_rows(state, "seed_bank", {**columns, "size": sizes, "genome": genome_rows(genomes)})
    replace_rows(state, "organisms", bodies)
    expected = checkpoint.state_hash
    if f"{state.hash():016x}" != expected or checkpoint.organism_count != counts[0]:
        raise WholeCheckpointError(
            f"{checkpoint.path} is damaged: its state has the hash {state.hash():016x} and {counts[0]:,} organisms, "
            f"the manifest names {expected} and {checkpoint.organism_count:,}"
        )
