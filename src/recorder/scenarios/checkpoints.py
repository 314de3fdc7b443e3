"""Checkpoints of a scenario's run: keyframes that were asked for, each a small tape of its own, to go on from.

Invariants:
    1. A checkpoint appears whole or not at all, and proves itself: it is a sealed tape, and its state has its hash.
    2. Writing one never fails a run: whatever goes wrong is kept in Checkpoints.error.
    3. Nothing that is there is written over.
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
from recorder.session.session import describe, encode_small, new_run_id
from recorder.storage.file_names import numbered
from recorder.storage.open_tape import OpenTape
from recorder.storage.tape_copy import TapeCopy
from sim.kernel.plain_data import encode_plain
from sim.kernel.same_fields import ensure_same_fields
from sim.kernel.simulation import restore
from sim.kernel.state import Snapshot
from sim.scenario.config.identity import scenario_hash
from sim.scenario.config.scenario import ScenarioConfig
from sim.scenario.scenario_simulation import ScenarioSimulation

FOLDER = "artifacts"
SETTINGS = RecordingOptions(hashes="states")  # Of a recording that goes on from a checkpoint: the usual ones.
_NAME = re.compile(r"checkpoint_(\d{1,13})(?:-\d+)?\.tape")


@attrs.frozen
class Checkpoint:
    """One checkpoint.

    Attributes:
        tick: of its state.
        state_hash: of its state, hexadecimal.
        scenario_hash: of the scenario that it is of, hexadecimal.
    """

    path: Path
    tick: int
    state_hash: str
    scenario_hash: str


@attrs.frozen
class Discovery:
    """What was found: checkpoints, the newest first, and what was passed over, by path, with the reason."""

    checkpoints: tuple[Checkpoint, ...]
    ignored: Mapping[Path, str]


class Checkpoints:
    """Writes the checkpoints of one run.

    Attributes:
        written: those that were, the oldest first.
        error: why the last one that failed did; None if none has.
    """

    def __init__(self, folder: Path, notes: Mapping[str, Any] | None = None) -> None:
        """folder: of the scenario; it is made with the first checkpoint. notes: of the run, as its tape has them."""
        self._folder = folder
        self._notes = notes or {}
        self.written: list[Checkpoint] = []
        self.error: str | None = None

    @classmethod
    def of(
        cls, config: ScenarioConfig, artifacts: Path | None = None, notes: Mapping[str, Any] | None = None
    ) -> Checkpoints:
        """Those of a run of a scenario. artifacts: the folder of all scenarios', ``artifacts`` by default."""
        return cls((artifacts if artifacts is not None else Path(FOLDER)) / config.name, notes)

    def write_if_due(self, simulation: ScenarioSimulation, tick: int) -> None:
        """Write the state as it is now if the scenario wants a checkpoint at this tick."""
        interval = simulation.config.checkpoint_interval
        if interval is not None and tick % interval == 0:
            self.write(simulation, tick)

    def write(self, simulation: ScenarioSimulation, tick: int) -> None:
        """Write the state as it is now. Whatever goes wrong is kept and does not get out."""
        try:
            self.written.append(write_checkpoint(self._folder, simulation, tick, self._notes))
        except Exception as error:  # noqa: BLE001 - a checkpoint is best effort: its failure is told with the result.
            self.error = f"checkpoint at tick {tick}: {type(error).__name__}: {error}"


def write_checkpoint(
    folder: Path, simulation: ScenarioSimulation, tick: int, notes: Mapping[str, Any] | None = None
) -> Checkpoint:
    """Write the state as it is now into folder; one that is the same is kept: of the same state, scenario and players.

    notes: of the run, as its tape has them, for those who go on from the checkpoint. Raises OSError, TypeError or ValueError for what cannot be encoded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    snapshot, notes = simulation.state.snapshot(), {**(notes or {}), "checkpoint": tick}
    wanted = _identity(tick, f"{snapshot.hash():016x}", scenario_hash(simulation), notes)
    for found in numbered(folder / f"checkpoint_{tick}.tape", ".tape"):
        if not os.path.lexists(found):
            break
        there = _read(found)
        if not isinstance(there, str) and _identity_of(*there) == wanted:
            return there[0]
    described = describe(simulation, simulation, attrs.evolve(SETTINGS, notes=notes))
    meta = encode_small(described, "the description of the world")
    with TapeCopy(found, new_run_id(meta, snapshot, deterministic=True), meta) as copy:
        copy.full(tick, snapshot)
        copy.finish({"reason": "checkpoint", "ticks": tick})
    return Checkpoint(found, tick, f"{snapshot.hash():016x}", scenario_hash(simulation))


def discover_checkpoints(folder: Path, history: Iterable[Checkpoint] = ()) -> Discovery:
    """All checkpoints of a folder and of history, each state of a run once, the newest first.

    history: checkpoints that a run in this process has written; those whose file is gone are ignored, too. Empty and
    damaged files are ignored, with the reason. Raises OSError if the folder cannot be read.
    """
    paths = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.exists() else []
    paths += [one.path for one in history if one.path not in paths]
    found: dict[Any, Checkpoint] = {}
    ignored: dict[Path, str] = {}
    for path in paths:
        read = _read(path)
        if isinstance(read, str):
            ignored[path] = read
        else:
            found.setdefault(_identity_of(*read), read[0])
    return Discovery(tuple(sorted(found.values(), key=lambda one: one.tick, reverse=True)), ignored)


def read_checkpoint(path: Path) -> tuple[Checkpoint, Mapping[str, Any]]:
    """What a checkpoint is of, and what is noted of the run that has left it.

    Raises OSError, RecordingError; ValueError if it is no whole checkpoint.
    """
    with OpenTape(path) as opened:
        assembled = opened.assemble()
        place, snapshot = _last_state(path, assembled)
        return _described(path, assembled, place.tick, snapshot.hash())


def _described(path: Path, assembled: Assembled, tick: int, state_hash: int) -> tuple[Checkpoint, Mapping[str, Any]]:
    notes = assembled.meta.get("notes")
    checkpoint = Checkpoint(path, tick, f"{state_hash:016x}", scenario_hash(assembled.meta))
    return checkpoint, notes if isinstance(notes, Mapping) else {}


def _last_state(path: Path, assembled: Assembled) -> tuple[KeyframeLocation, Snapshot]:
    """The last keyframe, and its state. Raises ValueError if there is none, CorruptError, TornError."""
    if not assembled.meta or not assembled.recording.keyframes:
        raise ValueError(
            f"{path} is no whole checkpoint: {'a keyframe' if assembled.meta else 'META'} is missing in it"
        )
    place = assembled.recording.keyframes[-1]
    return place, assembled.recording.snapshot(place)


def _identity_of(one: Checkpoint, notes: Mapping[str, Any]) -> Any:
    return _identity(one.tick, one.state_hash, one.scenario_hash, notes)


def _identity(tick: int, state_hash: str, scenario: str, notes: Mapping[str, Any]) -> Any:
    """What two checkpoints have in common that are the same: runs that go on from them are."""
    return tick, state_hash, scenario, encode_plain([notes.get("players"), notes.get("inputs")])


def _read(path: Path) -> tuple[Checkpoint, Mapping[str, Any]] | str:
    """The checkpoint in a file, with the notes of its run; or why there is none."""
    try:
        if path.stat().st_size == 0:
            return "it is empty"
        with OpenTape(path) as opened:
            assembled = opened.assemble()
            if not assembled.final or assembled.damages:
                return "it is not whole"
            place, snapshot = _last_state(path, assembled)
            return _described(path, assembled, place.tick, snapshot.hash())
    except (OSError, RecordingError, ValueError) as error:
        return str(error) or type(error).__name__


def resume_checkpoint(checkpoint: Checkpoint | Path, simulation: Any) -> int:
    """Put a simulation, of the same world and scenario, into the state of a checkpoint; the state's tick.

    Raises OSError, RecordingError; ValueError if the checkpoint is not whole or of another scenario, or the simulation
    has none or has different fields.
    """
    if not isinstance(simulation, ScenarioSimulation):
        raise ValueError("a simulation without a scenario around it has no checkpoints")  # noqa: TRY004 - of the values.
    path = checkpoint.path if isinstance(checkpoint, Checkpoint) else checkpoint
    with OpenTape(path) as opened:
        assembled = opened.assemble()
        place, snapshot = _last_state(path, assembled)
        theirs, ours = scenario_hash(assembled.meta), scenario_hash(simulation)
        if theirs != ours:
            raise ValueError(f"{path} is of another scenario: its hash is {theirs}, that of this one {ours}")
    try:
        ensure_same_fields(snapshot.layout, simulation)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from None
    restore_whole(simulation, snapshot)
    return place.tick


def restore_whole(simulation: Any, snapshot: Any) -> None:
    """Restore a simulation, and see that it has the state's hash. Raises RecordingError if it has not."""
    restore(simulation, snapshot)
    if simulation.state.hash() != snapshot.hash():
        raise RecordingError("the simulation changes the state when it is restored")
