"""How a recording can be gone on with: with what inputs, and how far; nothing is written here."""

from __future__ import annotations

from pathlib import Path

import attrs

from recorder.errors import RecordingError
from recorder.exit_codes import UsageError
from recorder.factory_spec import sim_option
from recorder.format.recording.assembly import Assembled
from recorder.format.recording.recording import Recording
from recorder.reopen.preconditions import ensure_first_file
from recorder.runs.input_source import InputSource, input_source_from_file, input_source_of
from recorder.settings import TICKS_MAX
from recorder.storage.open_tape import OpenTape
from sim.kernel.registry import find_world

LOOKED_AT_TICKS = 100  # So many of the last inputs say whether a simulation is fed with any.


@attrs.frozen
class ResumePlan:
    """How a recording goes on.

    Attributes:
        input_source: what it is fed with.
        last_tick: up to which it is to be recorded; where it is already if it only has to be sealed.
        players: policies by player.
    """

    input_source: InputSource
    last_tick: int
    players: dict[str, str]


def plan_for(tape: Path, ticks: int | None, sim: str | None, inputs: Path | None) -> ResumePlan:
    """How a tape can be gone on with. Raises UsageError, RecordingError, OSError; nothing is written then."""
    with OpenTape(tape) as opened:
        assembled = opened.assemble()
        ensure_first_file(tape, assembled)
        last_tick, players = _last_tick(tape, assembled, ticks), {}
        match assembled.meta.get("world"):
            case {"name": str(name), "config": dict(config)}:
                players = _players_noted(tape, assembled, inputs)
                provoked = assembled.meta.get("scenario") is not None
                world = find_world(name)
                input_source = input_source_of(world, config, sim=sim, players=players, file=inputs, by_role=provoked)
            case _ if sim is not None:
                _players_noted(tape, assembled, inputs)
                if inputs is None and last_tick > assembled.recording.last_tick:
                    _ensure_no_inputs(tape, assembled.recording)
                input_source = input_source_from_file(sim, inputs)
            case _:
                raise UsageError(
                    f"{tape} names no registered world: "
                    f"name its simulation by {sim_option(assembled.meta.get('simulation'))}, "
                    f"or go on in Python, recorder.resume({str(tape)!r}, simulation)"
                )
    return ResumePlan(input_source, last_tick, players)


def _players_noted(tape: Path, assembled: Assembled, inputs: Path | None) -> dict[str, str]:
    """Who played when the tape was recorded. Raises UsageError if it had inputs of a file that is not named now."""
    notes = assembled.meta.get("notes")
    if isinstance(notes, dict) and isinstance(notes.get("inputs"), str) and inputs is None:
        raise UsageError(f"{tape}: some of its inputs came from {notes['inputs']}: name that file with --inputs")
    match notes:
        case {"players": dict(players)} if all(isinstance(policy, str) for policy in players.values()):
            return players
    return {}


def _last_tick(tape: Path, assembled: Assembled, ticks: int | None) -> int:
    """Up to which tick a tape is to be recorded. Raises UsageError if there is nothing to be done."""
    here, planned = assembled.recording.last_tick, None
    match assembled.meta.get("notes"):
        case {"ticks": int(noted)} if noted <= TICKS_MAX:
            planned = noted
    wanted = goal_of(ticks) if ticks is not None else planned
    if ticks is not None and ticks < here:
        raise UsageError(f"--ticks {ticks:,} lies before tick {here:,}, where {tape} is")
    if wanted is None or wanted < here or (wanted == here and assembled.final):
        raise UsageError(f"{tape} is at tick {here:,} already: say how far to go with --ticks")
    return wanted


def _ensure_no_inputs(tape: Path, recording: Recording) -> None:
    """Refuse to go on without inputs where there were some. Raises UsageError."""
    last_tick = recording.last_tick
    try:
        frames = [recording.frame(tick) for tick in range(max(1, last_tick - LOOKED_AT_TICKS + 1), last_tick + 1)]
    except RecordingError:
        return  # What is damaged, or was dropped, is for resume to judge.
    if any(frame.inputs is not None for frame in frames):
        raise UsageError(
            f"{tape}: its inputs came from a program of yours: go on there, recorder.resume({str(tape)!r}, simulation)"
        )


def goal_of(ticks: int) -> int:
    """The tick that was asked for. Raises UsageError if no tape has as many."""
    if ticks > TICKS_MAX:
        raise UsageError(f"--ticks {ticks:,}: {TICKS_MAX:,} are the most")
    return ticks
