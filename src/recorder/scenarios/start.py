"""Begin the tape of a scenario's run, at tick 0 or at a checkpoint.

Invariant: a tape that continues from a checkpoint has the settings and notes of the new run, none of the earlier run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.exit_codes import UsageError
from recorder.format.blocks.aux_block import Encoded
from recorder.format.recording.stored_sections import StoredSections
from recorder.recording_options import RecordingOptions
from recorder.scenarios.checkpoints import Checkpoint, read_checkpoint
from recorder.session.recorder import Recorder
from recorder.storage.open_tape import OpenTape
from sim.scenario.scenario_simulation import ScenarioSimulation


def begin_tape(tape: Path, simulation: Any, start: Checkpoint | Path | None, options: RecordingOptions) -> Recorder:
    """Begin a new tape; one that continues from a checkpoint begins with its state.

    simulation: wrapped in a scenario, or of a registered world; in the state of the checkpoint, if there is one.
    Raises FileExistsError, OSError, and like Recorder.
    """
    if start is None:
        return Recorder.with_options(tape, simulation, options)
    path = start.path if isinstance(start, Checkpoint) else start
    tick = simulation.tick if isinstance(simulation, ScenarioSimulation) else read_checkpoint(path)[0].tick
    settings = attrs.evolve(options, notes={**(options.notes or {}), "checkpoint": tick})
    return Recorder.beginning_at(tape, simulation, tick, settings, sections=_sections_at(path, tick))


def _sections_at(path: Path, tick: int) -> Encoded | None:
    """The sections that others kept beside the state, of a save game; None if it has none."""
    with OpenTape(path) as opened:
        return StoredSections(opened.assemble().recording).encoded_at(tick)


def players_from(start: Path, last_tick: int, players: Mapping[str, str], inputs: Path | None) -> dict[str, str]:
    """Return the players of a run that continues from a checkpoint: those of the run that wrote it.

    players: the requested ones. Raises UsageError if they differ, if that run had inputs from a file that is not named
    now, or if no ticks are left; ValueError if start is not a checkpoint; RecordingError, OSError.
    """
    checkpoint, notes = read_checkpoint(start)
    if last_tick <= checkpoint.tick:
        raise UsageError(f"{start} is of tick {checkpoint.tick:,}: expected a later last tick, got {last_tick:,}")
    if isinstance(notes.get("inputs"), str) and inputs is None:
        raise UsageError(f"{start}: its run had inputs from {notes['inputs']}: name that file with --inputs")
    match notes:
        case {"players": dict(earlier)} if all(isinstance(policy, str) for policy in earlier.values()):
            if players and dict(players) != earlier:
                raise UsageError(
                    f"{start}: expected the players of its run, {options_of(earlier) or 'no --player'}, "
                    f"got {options_of(players)}"
                )
            return earlier
    return dict(players)  # A program wrote the checkpoint without noting its players.


def options_of(players: Mapping[str, str]) -> str:
    """Format players as options of a command."""
    return " ".join(f"--player {name}={policy}" for name, policy in players.items())
