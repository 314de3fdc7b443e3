"""The episodes of a tape: from one reset of an environment to the last step before the next.

Episodes are found in the inputs, without a simulation: a tick whose inputs contain ``reset`` begins one. An episode of
T actions has T + 1 ticks: the tick of the reset, and one tick per step.
"""

from __future__ import annotations

from typing import Any

import attrs

from recorder.errors import CorruptError, MissingStepError
from recorder.format.recording.decoded_blocks import decoded_blocks
from recorder.format.recording.frame_columns import NumberInputs
from replayer.tape.environment_calls import plain_options
from replayer.tape.tape import Tape
from sim.adapters.interface.attempts import is_attempt

_MARKS = (b"reset", b"begins", b"raised")  # Found in the encoded inputs of these calls; others are not decoded.
_NUMBER = "<i8"  # The key of most actions that are maps, see sim.adapters.gymnasium.inputs.


@attrs.frozen
class Episode:
    """One episode.

    Attributes:
        index: position on the tape, from 0.
        first_tick: tick of the reset: the state and the observation before the first action.
        last_tick: tick of the last step.
        seed: seed passed to the reset; None if the generator was not seeded again.
        total: the sum of the rewards, the episode's return; None if it was not recorded.
        over: True if the environment ended the episode (terminated or truncated); None if that is unknown.
        terminated, truncated: the flags of the last step; None if they are unknown, or if agents differ in them.
    """

    index: int
    first_tick: int
    last_tick: int
    seed: int | None
    total: float | None
    over: bool | None
    terminated: bool | None = None
    truncated: bool | None = None
    _options: Any = attrs.field(default=None, repr=False)

    @property
    def options(self) -> Any:
        """The options passed to the reset, each time as new objects; None without options.

        Raises CorruptError if they are damaged.
        """
        return plain_options(self.first_tick, self._options)

    @property
    def steps(self) -> int:
        """The number of actions, one less than the number of ticks."""
        return self.last_tick - self.first_tick

    def tick_of(self, step: int) -> int:
        """The tick after the given number of actions; a negative step counts from the end. Raises MissingStepError."""
        tick = (self.last_tick + 1 if step < 0 else self.first_tick) + step
        if not self.first_tick <= tick <= self.last_tick:
            raise MissingStepError(tick, f"step {step}: episode {self.index} has steps 0 to {self.steps}")
        return tick


@attrs.frozen
class CallsOnTape:
    """The calls of a tape that are no plain steps.

    Attributes:
        episodes: in order, without those whose reset is damaged or was dropped by a ring.
        raised: the ticks of calls that raised. lost: ranges of ticks, first and last, without a readable frame.
    """

    episodes: list[Episode]
    raised: list[int]
    lost: list[tuple[int, int]]


def find_episodes(tape: Tape) -> list[Episode]:
    """List the episodes of a tape in order, without those whose reset is damaged or was dropped by a ring."""
    if not tape.meta.get("adapter") or not tape.keyframes:
        return []
    return find_calls(tape).episodes


def find_calls(tape: Tape) -> CallsOnTape:
    """Find the resets of a tape and its calls that raised, in one pass over the inputs. Raises as Tape.first_tick does."""
    starts: list[tuple[int, dict[str, Any]]] = []
    raised: list[int] = []
    lost: list[tuple[int, int]] = []

    def take(tick: int, inputs: Any) -> None:
        if type(inputs) is dict and ("reset" in inputs or inputs.get("begins") is True):
            starts.append((tick, inputs))
        elif is_attempt(inputs):
            raised.append(tick)

    next_tick = tape.first_tick + 1
    for block in decoded_blocks(tape.recording, next_tick, tape.last_tick):
        columns = block.columns
        if isinstance(columns, NumberInputs) and columns.key in ("", _NUMBER):
            for index, inputs in columns.others.items():
                take(next_tick + index, inputs)
        else:
            for tick, inputs in enumerate(block.inputs(), next_tick):
                if type(inputs) is dict and _NUMBER not in inputs:
                    take(tick, inputs)
        next_tick += len(block)
    for run in tape.recording.runs(next_tick, tape.last_tick):
        if run.error is not None:
            lost.append((run.first_tick, run.last_tick))
        for frame in run.frames:
            if any(mark in frame.encoded_inputs for mark in _MARKS):
                try:
                    take(frame.tick, frame.inputs)
                except CorruptError:
                    lost.append((frame.tick, frame.tick))
    return CallsOnTape(_episodes(tape, starts), raised, lost)


def _episodes(tape: Tape, starts: list[tuple[int, dict[str, Any]]]) -> list[Episode]:
    """The episodes that begin with these inputs, by their ticks."""
    episodes = []
    for index, (first_tick, inputs) in enumerate(starts):
        has_next = index + 1 < len(starts)
        last_tick = starts[index + 1][0] - 1 if has_next else tape.last_tick
        ended = starts[index + 1][1].get("ended") if has_next else _unfinished_episode(tape)
        seed = inputs.get("reset")
        seed = seed if isinstance(seed, int) else None
        result = _result(ended, last_tick - first_tick)
        episodes.append(Episode(index, first_tick, last_tick, seed, *result, inputs.get("options")))
    return episodes


def _unfinished_episode(tape: Tape) -> Any:
    """The entry in the tape's outcome about the episode that was running at the end."""
    outcome = tape.outcome
    return outcome.get("episode") if isinstance(outcome, dict) else None


def _result(ended: Any, steps: int) -> tuple[float | None, bool | None, bool | None, bool | None]:
    """The return of an episode, and True if it was over, terminated, truncated.

    ended: the entry recorded with the next reset; ignored unless its number of steps is the given one.
    """
    if isinstance(ended, dict):
        count, total, over = ended.get("steps"), ended.get("return"), ended.get("over")
        if isinstance(count, int) and count == steps and isinstance(total, float | int) and isinstance(over, bool):
            terminated, truncated = ended.get("terminated"), ended.get("truncated")
            known = (
                terminated if isinstance(terminated, bool) else None,
                truncated if isinstance(truncated, bool) else None,
            )
            return float(total), over, *known
    return (0.0, False, False, False) if steps == 0 else (None, None, None, None)


def episode_facts(episodes: list[Episode]) -> list[dict[str, Any]]:
    """Episodes as JSON objects."""
    return [
        {
            "index": episode.index,
            "first_tick": episode.first_tick,
            "last_tick": episode.last_tick,
            "steps": episode.steps,
            "seed": episode.seed,
            "return": episode.total,
            "over": episode.over,
            "terminated": episode.terminated,
            "truncated": episode.truncated,
        }
        for episode in episodes
    ]


def episodes_line(episodes: list[dict[str, Any]]) -> str:
    """One line about all episodes. episodes: as episode_facts returns them."""
    steps = [episode["steps"] for episode in episodes]
    totals = [episode["return"] for episode in episodes if episode["return"] is not None]
    line = f"episodes: {len(episodes):,}, of {min(steps):,} to {max(steps):,} steps"
    if totals:
        line += f", returns {min(totals):,.6g} to {max(totals):,.6g}"
    return line
