"""The totals of an episode in which a recording is resumed: its end states those of the complete episode."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import attrs


@attrs.define(eq=False)
class RunningEpisode:
    """An episode that is not over.

    Attributes:
        begun_at: the tick of its reset. tick: the one up to which it is counted.
        total: the sum of its rewards; an array where a reward is one.
        terminated, truncated: by agent that ended, of several agents. knows_agents: False if some may be missing there.
    """

    begun_at: int
    tick: int
    total: Any = 0.0
    terminated: dict[Hashable, bool] = attrs.field(factory=dict)
    truncated: dict[Hashable, bool] = attrs.field(factory=dict)
    knows_agents: bool = True


class CountsEpisodes:
    """An environment as a simulation, whose rewards can be added up while it is replayed.

    Attributes:
        running: the episode that a resumed recording continues; None if it is not known.
        last: the results of the last call.
    """

    running: RunningEpisode | None = None
    last: Any

    def add_rewards(self, episode: RunningEpisode) -> None:
        """Add what the last step returned."""
        try:
            episode.total = episode.total + self.last.reward
        except TypeError:  # The environment's own matter: without a number there is no return.
            episode.total = math.nan

    def running_at(self, tick: int) -> RunningEpisode | None:
        """The episode at a tick of the recording: a new one at the beginning, None if it is not known."""
        if not tick:
            return RunningEpisode(0, 0)
        running = self.running
        return running if running is not None and running.tick == tick else None
