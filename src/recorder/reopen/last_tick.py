"""Step 2 of a resume, see resume.py: the simulation in the state of the last tick, which has the recorded hash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from recorder.errors import (
    CorruptError,
    DesyncError,
    MissingTickError,
    SimulationFailedError,
    TornError,
)
from recorder.exception_text import raised_text
from recorder.format.blocks.frame import Frame
from recorder.format.recording.assembly import Assembled
from recorder.format.recording.recording import Recording
from recorder.reopen.running_episode import last_reset, stated_episode
from recorder.reopen.state_check import StateCheck
from sim.adapters.interface.attempts import is_attempt
from sim.adapters.interface.running_episode import CountsEpisodes, RunningEpisode
from sim.kernel.same_fields import ensure_same_fields
from sim.kernel.simulation import Simulation, inner_of, restore

Progress = Callable[[int, int], None]  # Ticks re-simulated so far, ticks in all.


def restore_last_tick(
    assembled: Assembled, simulation: Simulation, progress: Progress | None, *, with_totals: bool = False
) -> int:
    """Restore the simulation to the last tick; return the tick of the keyframe used. Raises as resume does.

    with_totals: add up the rewards of an environment's episode that is running there.
    """
    recording = assembled.recording
    inner: Any = inner_of(simulation)
    counter = inner if with_totals and isinstance(inner, CountsEpisodes) else None
    begun_at = last_reset(recording) if counter is not None else None
    if counter is not None and begun_at is not None:
        episode = RunningEpisode(begun_at, recording.last_tick)
        count = partial(_count, counter, episode)
        try:
            keyframe_tick = _restore(recording, simulation, begun_at, progress, count)
        except (CorruptError, TornError, MissingTickError, DesyncError, SimulationFailedError):
            pass  # The ticks from the last keyframe on may be in order.
        else:
            counter.running = episode
            return keyframe_tick
    keyframe_tick = _restore(recording, simulation, recording.last_tick, progress)
    if counter is not None:
        counter.running = stated_episode(assembled)
    return keyframe_tick


def _count(counter: CountsEpisodes, episode: RunningEpisode, frame: Frame) -> None:
    """Add what a step returned to the totals of its episode; one that raised returned nothing."""
    if frame.tick > episode.begun_at and not is_attempt(frame.inputs):
        counter.add_rewards(episode)


def _restore(
    recording: Recording,
    simulation: Simulation,
    nearest: int,
    progress: Progress | None,
    on_step: Callable[[Frame], None] = lambda _: None,
) -> int:
    """Restore the simulation to the last tick from a keyframe at or before the tick nearest. Raises as resume does."""
    last_tick = recording.last_tick
    failure: Exception = MissingTickError(last_tick, "there is no keyframe before it", damaged=True)
    for keyframe in recording.keyframes_at_or_before(nearest):
        try:
            snapshot = recording.snapshot(keyframe)
            frames = [recording.frame(tick) for tick in range(keyframe.tick + 1, last_tick + 1)]
        except (CorruptError, TornError, MissingTickError) as error:
            failure = error
            continue
        ensure_same_fields(snapshot.layout, simulation)
        _run(keyframe.tick, "load", restore, simulation, snapshot)
        with closing(StateCheck(recording, simulation)) as check:
            check.begin(keyframe.tick)
            for frame in frames:
                _run(frame.tick, "the step", simulation.step, frame.inputs)
                check.stepped(frame)
                if (hashes := check.difference(frame)) is not None:
                    raise DesyncError(frame.tick, *hashes)
                on_step(frame)
                if progress is not None:
                    progress(frame.tick - keyframe.tick, len(frames))
        return keyframe.tick
    raise failure


def _run(tick: int, what: str, action: Callable[..., object], *arguments: Any) -> None:
    """Call into the user's simulation. Raises SimulationFailedError if that raises."""
    try:
        action(*arguments)
    except Exception as error:
        raise SimulationFailedError(tick, raised_text(what, error)) from error
