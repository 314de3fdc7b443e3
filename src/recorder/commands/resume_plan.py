"""Plan a resume: which inputs, up to which tick. Writes nothing."""

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

CHECKED_TICKS = 100  # The last ticks of a recording, which show if its simulation takes inputs.


@attrs.frozen
class ResumePlan:
    """The inputs and the end of a resumed recording.

    Attributes:
        input_source: feeds the run.
        last_tick: the last one to record; the last recorded one if the tape only has to be sealed.
        players: policies by player.
    """

    input_source: InputSource
    last_tick: int
    players: dict[str, str]


def plan_for(tape: Path, ticks: int | None, sim: str | None, inputs: Path | None) -> ResumePlan:
    """Plan the resume of a tape. Raises UsageError, RecordingError, OSError; nothing is written then."""
    with OpenTape(tape) as opened:
        assembled = opened.assemble()
        ensure_first_file(tape, assembled)
        last_tick, players = _last_tick(tape, assembled, ticks), {}
        match assembled.meta.get("world"):
            case {"name": str(name), "config": dict(config)}:
                players = _recorded_players(tape, assembled, inputs)
                provoked = assembled.meta.get("scenario") is not None
                world = find_world(name)
                input_source = input_source_of(world, config, sim=sim, players=players, file=inputs, by_role=provoked)
            case _ if sim is not None:
                _recorded_players(tape, assembled, inputs)
                if inputs is None and last_tick > assembled.recording.last_tick:
                    _ensure_no_inputs(tape, assembled.recording)
                input_source = input_source_from_file(sim, inputs)
            case _:
                raise UsageError(
                    f"{tape} names no registered world: "
                    f"name its simulation by {sim_option(assembled.meta.get('simulation'))}, "
                    f"or continue in Python, recorder.resume({str(tape)!r}, simulation)"
                )
    return ResumePlan(input_source, last_tick, players)


def _recorded_players(tape: Path, assembled: Assembled, inputs: Path | None) -> dict[str, str]:
    """Return the players noted in the tape. Raises UsageError if it had inputs of a file that is not named now."""
    notes = assembled.meta.get("notes")
    if isinstance(notes, dict) and isinstance(notes.get("inputs"), str) and inputs is None:
        raise UsageError(f"{tape}: some of its inputs came from {notes['inputs']}: name that file with --inputs")
    match notes:
        case {"players": dict(players)} if all(isinstance(policy, str) for policy in players.values()):
            return players
    return {}


def _last_tick(tape: Path, assembled: Assembled, ticks: int | None) -> int:
    """Return the last tick to record. Raises UsageError if nothing is left to record or to seal."""
    recorded_tick, planned_tick = assembled.recording.last_tick, None
    match assembled.meta.get("notes"):
        case {"ticks": int(noted_ticks)} if noted_ticks <= TICKS_MAX:
            planned_tick = noted_ticks
    goal_tick = goal_of(ticks) if ticks is not None else planned_tick
    if ticks is not None and ticks < recorded_tick:
        raise UsageError(
            f"--ticks {ticks:,} is before tick {recorded_tick:,}, the last one in {tape}: name a later tick"
        )
    if goal_tick is None or goal_tick < recorded_tick or (goal_tick == recorded_tick and assembled.final):
        raise UsageError(f"{tape} is already at tick {recorded_tick:,}: name a later tick with --ticks")
    return goal_tick


def _ensure_no_inputs(tape: Path, recording: Recording) -> None:
    """Refuse to continue without inputs a recording that had some. Raises UsageError."""
    last_tick = recording.last_tick
    try:
        frames = [recording.frame(tick) for tick in range(max(1, last_tick - CHECKED_TICKS + 1), last_tick + 1)]
    except RecordingError:
        return  # Damaged and dropped ticks are reported by resume.
    if any(frame.inputs is not None for frame in frames):
        raise UsageError(
            f"{tape}: its inputs came from your program: continue there, recorder.resume({str(tape)!r}, simulation)"
        )


def goal_of(ticks: int) -> int:
    """Return the number of ticks asked for. Raises UsageError if a tape cannot hold that many."""
    if ticks > TICKS_MAX:
        raise UsageError(f"expected --ticks of at most {TICKS_MAX:,}, got {ticks:,}")
    return ticks
