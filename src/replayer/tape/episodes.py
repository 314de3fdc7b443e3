"""The episodes of a tape: from one reset of an environment to the last step before the next.

They are found by the inputs alone, without any simulation: a tick whose inputs say ``reset`` begins one. Of an episode
of T actions there are always T + 1 ticks: the one of the reset, and one a step.
"""

from __future__ import annotations

from typing import Any

import attrs

from recorder.errors import CorruptError, MissingTickError
from replayer.tape.tape import Tape

_MARKS = (b"reset", b"begins")  # What stands in encoded inputs that begin an episode; most inputs are not decoded.


@attrs.frozen
class Episode:
    """One episode.

    Attributes:
        index: in the order of the tape, from 0.
        first_tick: of the reset: the state and the observation before the first action.
        last_tick: of the last step.
        seed: that the reset was given; None if it went on with the generator as it was.
        total: the sum of the rewards, the episode's return; None if the recording ended without saying so.
        over: whether the environment said that it is over (terminated or truncated); None if that is not known.
    """

    index: int
    first_tick: int
    last_tick: int
    seed: int | None
    total: float | None
    over: bool | None

    @property
    def steps(self) -> int:
        """How many actions; there is one tick more."""
        return self.last_tick - self.first_tick

    def tick_of(self, step: int) -> int:
        """The tick after so many actions; negative ones count from the end. Raises MissingTickError."""
        tick = (self.last_tick + 1 if step < 0 else self.first_tick) + step
        if not self.first_tick <= tick <= self.last_tick:
            raise MissingTickError(tick, f"episode {self.index} has steps 0 to {self.steps}")
        return tick


def find_episodes(tape: Tape) -> list[Episode]:
    """The episodes of a tape, in order; those whose reset is damaged, or was dropped by a ring, are not among them."""
    if not tape.meta.get("adapter") or not tape.keyframes:
        return []
    starts: list[tuple[int, dict[str, Any]]] = []
    for run in tape.recording.runs(tape.first_tick + 1, tape.last_tick):
        for frame in run.frames:
            if not any(mark in frame.encoded_inputs for mark in _MARKS):
                continue
            try:
                inputs = frame.inputs
            except CorruptError:
                continue
            if type(inputs) is dict and ("reset" in inputs or inputs.get("begins") is True):
                starts.append((frame.tick, inputs))
    found = []
    for index, (first_tick, inputs) in enumerate(starts):
        goes_on = index + 1 < len(starts)
        last_tick = starts[index + 1][0] - 1 if goes_on else tape.last_tick
        total, over = _ended(
            starts[index + 1][1].get("ended") if goes_on else _last_words(tape), last_tick - first_tick
        )
        seed = inputs.get("reset")
        found.append(Episode(index, first_tick, last_tick, seed if isinstance(seed, int) else None, total, over))
    return found


def _last_words(tape: Tape) -> Any:
    """What the end of the tape says about the episode that was under way."""
    outcome = tape.outcome
    return outcome.get("episode") if isinstance(outcome, dict) else None


def _ended(told: Any, steps: int) -> tuple[float | None, bool | None]:
    """Return and whether it was over, as the next reset tells it, if it tells of an episode of so many steps."""
    match told:
        case {"steps": int(count), "return": float() | int() as total, "over": bool(over)} if count == steps:
            return float(total), over
    return (0.0, False) if steps == 0 else (None, None)


def episode_facts(episodes: list[Episode]) -> list[dict[str, Any]]:
    """Episodes for programs."""
    return [
        {
            "index": one.index,
            "first_tick": one.first_tick,
            "last_tick": one.last_tick,
            "steps": one.steps,
            "seed": one.seed,
            "return": one.total,
            "over": one.over,
        }
        for one in episodes
    ]


def episodes_line(episodes: list[dict[str, Any]]) -> str:
    """Episodes in one line, from their facts."""
    steps = [one["steps"] for one in episodes]
    totals = [one["return"] for one in episodes if one["return"] is not None]
    line = f"episodes: {len(episodes):,}, of {min(steps):,} to {max(steps):,} steps"
    if totals:
        line += f", returns {min(totals):,.6g} to {max(totals):,.6g}"
    return line
