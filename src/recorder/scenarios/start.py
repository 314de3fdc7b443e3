"""How a run of a scenario begins on a tape: at tick 0, or at a checkpoint, with what was asked for and what that knows.

Invariant: a tape that goes on from a checkpoint has the settings and notes of its own run, and nothing of the other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.exit_codes import UsageError
from recorder.recording_options import RecordingOptions
from recorder.reopen.resume import resume
from recorder.scenarios.checkpoints import Checkpoint, read_checkpoint
from recorder.session.recorder import Recorder
from recorder.session.session import describe, encode_small, new_run_id
from recorder.storage.tape_copy import TapeCopy


def begin_tape(tape: Path, simulation: Any, start: Checkpoint | Path | None, options: RecordingOptions) -> Recorder:
    """A new tape; one that goes on from a checkpoint begins with its state.

    simulation: with a scenario around it, in the state of the checkpoint, if there is one.
    Raises FileExistsError, OSError, and as Recorder does.
    """
    if start is None:
        return Recorder.with_options(tape, simulation, options)
    if options.hashes == "changes":
        raise ValueError('hashes="changes": a tape that goes on from a checkpoint has hashes of states')
    tick = simulation.tick
    settings = attrs.evolve(options, hashes="states", notes={**(options.notes or {}), "checkpoint": tick})
    described = describe(simulation, simulation, settings)
    meta, snapshot = encode_small(described, "the description of the world"), simulation.state.snapshot()
    run_id = options.run_id or new_run_id(meta, snapshot, deterministic=options.deterministic)
    with TapeCopy(tape, run_id, meta) as copy:
        copy.full(tick, snapshot)
        copy.finish({"reason": "checkpoint", "ticks": tick})
    return resume(tape, simulation, changes=options.changes)


def players_from(start: Path, last_tick: int, players: Mapping[str, str], inputs: Path | None) -> dict[str, str]:
    """Who plays in a run that goes on from a checkpoint: who did in the run that has left it.

    players: that were asked for. Raises UsageError if these are others, if that run had inputs of a file that is not
    named now, or if there is nothing left to be run; ValueError for what is no checkpoint; RecordingError, OSError.
    """
    checkpoint, notes = read_checkpoint(start)
    if last_tick <= checkpoint.tick:
        raise UsageError(
            f"{start} is of tick {checkpoint.tick:,}: a run from there that ends at {last_tick:,} has no ticks"
        )
    if isinstance(notes.get("inputs"), str) and inputs is None:
        raise UsageError(f"{start}: some of its run's inputs came from {notes['inputs']}: name that file with --inputs")
    match notes:
        case {"players": dict(known)} if all(isinstance(policy, str) for policy in known.values()):
            if players and dict(players) != known:
                raise UsageError(f"{start}: its run had {options_of(known) or 'no --player'}, and goes on like that")
            return known
    return dict(players)  # It was left by a program, which knows who played.


def options_of(players: Mapping[str, str]) -> str:
    """Players as a command takes them."""
    return " ".join(f"--player {name}={policy}" for name, policy in players.items())
