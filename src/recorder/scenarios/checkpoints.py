"""Checkpoints of a scenario's run: states written on request, each a small tape, from which a run can continue.

Invariants:
    1. A checkpoint is written atomically and can be checked: it is a sealed tape, and its state matches its hash.
    2. A failed write never fails a run: the error is kept in Checkpoints.error.
    3. Existing files are never overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import RecordingError
from recorder.format.recording.assembly import Assembled
from recorder.format.segments.block_location import KeyframeLocation
from recorder.recording_options import RecordingOptions
from recorder.session.tape_meta import describe, encode_small, new_run_id
from recorder.storage.atomic_file import make_folder
from recorder.storage.file_names import numbered
from recorder.storage.open_tape import OpenTape
from recorder.storage.tape_copy import TapeCopy
from sim.kernel.hooks import HasOrigin, hook
from sim.kernel.plain_data import encode_plain
from sim.kernel.registry import Origin
from sim.kernel.same_fields import ensure_same_fields
from sim.kernel.simulation import restore
from sim.kernel.state import Snapshot
from sim.scenario.config.identity import scenario_hash
from sim.scenario.config.scenario import ScenarioConfig
from sim.scenario.scenario_simulation import ScenarioSimulation

FOLDER = "artifacts"
SETTINGS = RecordingOptions(hashes="states")  # Of a recording that continues from a checkpoint: the defaults.
_NAME = re.compile(r"checkpoint_(\d{1,13})(?:-\d+)?\.tape")


@attrs.frozen
class Checkpoint:
    """One checkpoint.

    Attributes:
        path: its file.
        tick: the tick of its state.
        state_hash: the hash of its state, hexadecimal.
        scenario_hash: the hash of its scenario, hexadecimal.
        created: the time at which it was written, ISO 8601 in UTC, to the second; empty if its tape names none.
        run: the name and the seed of the scenario of its run.
        size_bytes: the size of its file.
    """

    path: Path
    tick: int
    state_hash: str
    scenario_hash: str
    created: str = ""
    run: str = ""
    size_bytes: int = 0


@attrs.frozen
class Discovery:
    """The result of a search: checkpoints, the last written first, and ignored files by path, with the reason."""

    checkpoints: tuple[Checkpoint, ...]
    ignored: Mapping[Path, str]


class Checkpoints:
    """Writes the checkpoints of one run.

    Attributes:
        written: the checkpoints, oldest first.
        error: the reason of the last failure; None without failures.
    """

    def __init__(self, folder: Path, notes: Mapping[str, Any] | None = None) -> None:
        """folder: the scenario's folder, created with the first checkpoint. notes: notes of the run, as on its tape."""
        self._folder = folder
        self._notes = notes or {}
        self.written: list[Checkpoint] = []
        self.error: str | None = None

    @classmethod
    def of(
        cls, config: ScenarioConfig, artifacts: Path | None = None, notes: Mapping[str, Any] | None = None
    ) -> Checkpoints:
        """Make the writer for a run of a scenario. artifacts: the folder of all scenarios, ``artifacts`` by default."""
        return cls((artifacts if artifacts is not None else Path(FOLDER)) / config.name, notes)

    def write_if_due(self, simulation: ScenarioSimulation, tick: int) -> None:
        """Write the current state if the scenario has a checkpoint at this tick."""
        interval = simulation.config.checkpoint_interval
        if interval is not None and tick % interval == 0:
            self.write(simulation, tick)

    def write(self, simulation: ScenarioSimulation, tick: int) -> None:
        """Write the current state. A failure is kept in error and does not propagate."""
        try:
            self.written.append(write_checkpoint(self._folder, simulation, tick, self._notes))
        except Exception as error:  # noqa: BLE001 - a checkpoint is best effort: the result reports its failure.
            self.error = f"checkpoint at tick {tick}: {type(error).__name__}: {error}"


def write_checkpoint(
    folder: Path, simulation: ScenarioSimulation, tick: int, notes: Mapping[str, Any] | None = None
) -> Checkpoint:
    """Write the current state to folder, unless it has a checkpoint of the same state, scenario and players.

    notes: notes of the run, as on its tape, for a run that continues from the checkpoint. Raises OSError; TypeError or
    ValueError if they cannot be encoded.
    """
    make_folder(folder)
    snapshot, notes = simulation.state.snapshot(), {**(notes or {}), "checkpoint": tick}
    identity = _identity(tick, f"{snapshot.hash():016x}", scenario_hash(simulation), notes)
    for path in numbered(folder / f"checkpoint_{tick}.tape", ".tape"):
        if not os.path.lexists(path):
            break
        existing = _read(path)
        if not isinstance(existing, str) and _identity_of(*existing) == identity:
            return existing[0]
    described = describe(simulation, simulation, attrs.evolve(SETTINGS, notes=notes))
    meta = encode_small(described, "the description of the world")
    with TapeCopy(path, new_run_id(meta, snapshot, deterministic=True), meta) as copy:
        copy.full(tick, snapshot)
        copy.finish({"reason": "checkpoint", "ticks": tick})
    return _checkpoint(path, tick, snapshot.hash(), described)


def discover_checkpoints(folder: Path, history: Iterable[Checkpoint] = ()) -> Discovery:
    """Find all checkpoints of a folder and of history, each state of a run once, the last written first.

    Of those written in one second, the one of the later tick comes first.

    history: checkpoints that a run in this process has written. Empty, damaged and missing files are ignored, with the
    reason. Raises OSError if the folder cannot be read.
    """
    paths = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.exists() else []
    paths += [checkpoint.path for checkpoint in history if checkpoint.path not in paths]
    checkpoints: dict[Any, Checkpoint] = {}
    ignored: dict[Path, str] = {}
    for path in paths:
        read = _read(path)
        if isinstance(read, str):
            ignored[path] = read
        else:
            checkpoints.setdefault(_identity_of(*read), read[0])
    return Discovery(_newest_first(checkpoints.values()), ignored)


def discover_all_checkpoints(folder: Path) -> Discovery:
    """Find the checkpoints of a folder and of all folders in it, the last written first. Raises OSError."""
    os.scandir(folder).close()  # rglob takes a folder that cannot be read for an empty one.
    folders = sorted({path.parent for path in folder.rglob("checkpoint_*.tape") if _NAME.fullmatch(path.name)})
    found = [discover_checkpoints(inner) for inner in folders]
    ignored = {path: why for each in found for path, why in each.ignored.items()}
    return Discovery(_newest_first(checkpoint for each in found for checkpoint in each.checkpoints), ignored)


def _newest_first(checkpoints: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
    return tuple(sorted(checkpoints, key=lambda checkpoint: (checkpoint.created, checkpoint.tick), reverse=True))


def read_checkpoint(path: Path) -> tuple[Checkpoint, Mapping[str, Any]]:
    """Read a checkpoint, and the notes of the run that wrote it.

    Raises OSError, RecordingError; ValueError if the checkpoint is incomplete.
    """
    with OpenTape(path) as opened:
        assembled = opened.assemble()
        keyframe, snapshot = _last_state(path, assembled)
        return _described(path, assembled, keyframe.tick, snapshot.hash())


def _described(path: Path, assembled: Assembled, tick: int, state_hash: int) -> tuple[Checkpoint, Mapping[str, Any]]:
    notes = assembled.meta.get("notes")
    return _checkpoint(path, tick, state_hash, assembled.meta), notes if isinstance(notes, Mapping) else {}


def _checkpoint(path: Path, tick: int, state_hash: int, meta: Mapping[str, Any]) -> Checkpoint:
    scenario, created = meta.get("scenario"), meta.get("created")
    named = [f"{key} {scenario[key]}" for key in ("name", "seed") if key in scenario] if scenario else []
    return Checkpoint(
        path,
        tick,
        f"{state_hash:016x}",
        scenario_hash(meta),
        created if isinstance(created, str) else "",
        ", ".join(named).removeprefix("name "),
        path.stat().st_size,
    )


def _last_state(path: Path, assembled: Assembled) -> tuple[KeyframeLocation, Snapshot]:
    """Return the last keyframe and its state. Raises ValueError if there is none, CorruptError, TornError."""
    if not assembled.meta or not assembled.recording.keyframes:
        raise ValueError(f"{path} is an incomplete checkpoint: {'a keyframe' if assembled.meta else 'META'} is missing")
    keyframe = assembled.recording.keyframes[-1]
    return keyframe, assembled.recording.snapshot(keyframe)


def _identity_of(checkpoint: Checkpoint, notes: Mapping[str, Any]) -> Any:
    return _identity(checkpoint.tick, checkpoint.state_hash, checkpoint.scenario_hash, notes)


def _identity(tick: int, state_hash: str, scenario: str, notes: Mapping[str, Any]) -> Any:
    """Return the identity of a checkpoint: two with the same identity lead to the same runs."""
    return tick, state_hash, scenario, encode_plain([notes.get("players"), notes.get("inputs")])


def _read(path: Path) -> tuple[Checkpoint, Mapping[str, Any]] | str:
    """Read the checkpoint of a file, with the notes of its run; return the reason if it cannot be used."""
    try:
        if path.stat().st_size == 0:
            return "it is empty"
        with OpenTape(path) as opened:
            assembled = opened.assemble()
            if not assembled.final or assembled.damages:
                return "it is incomplete or damaged"
            keyframe, snapshot = _last_state(path, assembled)
            return _described(path, assembled, keyframe.tick, snapshot.hash())
    except (OSError, RecordingError, ValueError) as error:
        return str(error) or type(error).__name__


def resume_checkpoint(checkpoint: Checkpoint | Path, simulation: Any) -> int:
    """Restore a simulation of the same world and scenario from a checkpoint; return the tick of its state.

    A registered world needs no scenario around it: any tape of it will do, such as a save game, and its last keyframe
    counts. Raises OSError, RecordingError; ValueError if the checkpoint is incomplete or of a different scenario, or if the
    simulation has different fields, or neither a scenario around it nor a registered world.
    """
    with_origin = hook(simulation, HasOrigin)
    is_world = with_origin is not None and isinstance(with_origin.origin, Origin)
    if not isinstance(simulation, ScenarioSimulation) and not is_world:
        raise ValueError("a simulation without a scenario around it has no checkpoints")
    path = checkpoint.path if isinstance(checkpoint, Checkpoint) else checkpoint
    with OpenTape(path) as opened:
        assembled = opened.assemble()
        keyframe, snapshot = _last_state(path, assembled)
        theirs, ours = scenario_hash(assembled.meta), scenario_hash(simulation)
        if theirs != ours:
            what = "scenario" if isinstance(simulation, ScenarioSimulation) else "world or configuration"
            raise ValueError(f"{path} belongs to a different {what}: expected the hash {ours}, got {theirs}")
    try:
        ensure_same_fields(snapshot.layout, simulation)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from None
    restore_and_check(simulation, snapshot)
    return keyframe.tick


def restore_and_check(simulation: Any, snapshot: Any) -> None:
    """Restore a simulation, and check the hash of its state. Raises RecordingError if it differs."""
    restore(simulation, snapshot)
    if simulation.state.hash() != snapshot.hash():
        raise RecordingError("the simulation changes the state when it is restored")
