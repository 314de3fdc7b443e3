"""The totals of an episode of an environment with several agents, for its tape."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.adapters.gymnasium.inputs import encode_reset
from sim.adapters.interface.running_episode import RunningEpisode


class EpisodeTotals:
    """The totals of the present episode."""

    def __init__(self, simulation: Any, tape: Any) -> None:
        """simulation: of the adapter. tape: its recorder."""
        self.simulation = simulation
        self._tape = tape
        self._running: RunningEpisode | None = simulation.running_at(tape.tick)  # None: not known before a reset.

    def add(self) -> None:
        """Add the rewards of all agents after a step, and note the agents that ended."""
        if self._running is not None:
            self.simulation.add_rewards(self._running)

    def ended(self) -> dict[str, Any] | None:
        """The totals of the episode that ends here; None if not known or without a step. One that raised counts."""
        running = self._running
        if running is None or not (steps := self._tape.tick - running.begun_at):
            return None
        is_over = not self.simulation.env.agents
        result = {"steps": steps, "return": running.total, "over": is_over}
        for name, by_agent in (("terminated", running.terminated), ("truncated", running.truncated)):
            flags = set(by_agent.values()) if is_over else {False}
            if len(flags) == 1 and (running.knows_agents or not is_over):  # The agents agree.
                result[name] = flags.pop()
        return result

    def next_reset(self, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        """Begin the next episode: the inputs of its reset, with a drawn seed if there never was one."""
        if seed is None and self.simulation.draws_first_seed:
            seed = int(np.random.SeedSequence().entropy) & 0x7FFF_FFFF  # type: ignore[arg-type]
        call = encode_reset(seed, options, self.ended())
        self._running = RunningEpisode(self._tape.tick + 1, self._tape.tick + 1)
        return call

    def outcome(self) -> dict[str, Any] | None:
        """The outcome for the end of the tape."""
        ended = self.ended()
        return {"reason": "closed", "episode": ended} if ended else None
