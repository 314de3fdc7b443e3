"""Make transitions of what an environment with one stream of episodes, or with agents that act at once, returned.

A stream follows a simulation tick by tick. ``begin`` places it at a tick, ``advance`` takes the call that led to the
next one. A reset is no transition, nor is a step at which the environment reset itself, nor a call that raised.

Invariant: a transition depends only on the ticks of its episode, wherever the stream was placed.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any, Protocol

from replayer.datasets.transitions.flat_values import Flat, flatten, json_text
from replayer.datasets.transitions.transition import EnvironmentFacts, Transition
from replayer.tape.environment_calls import EnvironmentCall
from replayer.tape.episodes import Episode


class Stream(Protocol):
    """Makes transitions while a simulation is replayed."""

    @property
    def is_known(self) -> bool:
        """True if the episode is known, and the number of the step in it."""

    def begin(self, tick: int) -> None:
        """Take the simulation as it is at a tick."""

    def advance(self, call: EnvironmentCall) -> Iterator[Transition]:
        """Yield the transitions that end with this call, which the simulation has just made."""


class EpisodesOnTape:
    """The episodes that begin with a tick of their own, and the number of steps at a tick."""

    def __init__(self, facts: EnvironmentFacts) -> None:
        self._facts = facts
        self._starts = [episode.first_tick for episode in facts.episodes]
        self._options: tuple[int, str | None] = (-1, None)  # Of the episode of this index.

    def at(self, tick: int) -> Episode | None:
        """The episode that a tick belongs to; None before the first."""
        index = bisect.bisect_right(self._starts, tick) - 1
        return self._facts.episodes[index] if index >= 0 else None

    def options(self, episode: Episode) -> str | None:
        """The options of an episode's reset as JSON text; None without options. Raises CorruptError."""
        if self._options[0] != episode.index:
            options = episode.options
            self._options = episode.index, None if options is None else json_text(options)
        return self._options[1]

    def position(self, tick: int) -> tuple[Episode | None, int]:
        """The episode at a tick, and the number of its steps that returned; no episode if frames of it are lost."""
        episode = self.at(tick)
        if episode is None or any(first <= tick and last > episode.first_tick for first, last in self._facts.lost):
            return None, 0  # There may have been a reset among the lost frames.
        raised = self._facts.raised
        before = bisect.bisect_right(raised, tick) - bisect.bisect_right(raised, episode.first_tick)
        return episode, tick - episode.first_tick - before


class SingleStream:
    """Transitions of a Gymnasium environment."""

    def __init__(self, facts: EnvironmentFacts, simulation: Any, episodes: EpisodesOnTape, *, with_info: bool) -> None:
        """simulation: of the adapter. with_info: keep the infos."""
        self._observed, self._done = facts.space("observation"), facts.space("action")
        self._simulation, self._episodes, self._with_info = simulation, episodes, with_info
        self._episode: Episode | None = None
        self._step = 0
        self._seen: Flat = {}

    @property
    def is_known(self) -> bool:
        """See Stream."""
        return self._episode is not None

    def begin(self, tick: int) -> None:
        """See Stream."""
        self._episode, self._step = self._episodes.position(tick)
        self._seen = self._observation()

    def advance(self, call: EnvironmentCall) -> Iterator[Transition]:
        """See Stream."""
        if call.raised is not None:
            return
        seen = self._observation()
        if call.begins:
            self._episode, self._step = self._episodes.at(call.tick), 0
        elif self._episode is not None:
            last, episode = self._simulation.last, self._episode
            yield Transition(
                episode.index,
                self._step,
                call.tick - 1,
                call.tick,
                "",
                None,
                episode.seed,
                self._episodes.options(episode),
                self._seen,
                flatten(call.action, self._done),
                flatten(last.reward),
                seen,
                bool(last.terminated),
                bool(last.truncated),
                flatten(self._simulation.info) if self._with_info else {},
            )
            self._step += 1
        self._seen = seen

    def _observation(self) -> Flat:
        return flatten(self._simulation.last.observation, self._observed)


class ParallelStream:
    """Transitions of a PettingZoo environment whose agents act at once: one for each agent in the actions."""

    def __init__(
        self,
        facts: EnvironmentFacts,
        simulation: Any,
        episodes: EpisodesOnTape,
        *,
        with_info: bool,
    ) -> None:
        """simulation: of the adapter. with_info: keep the infos."""
        self._facts, self._simulation, self._episodes, self._with_info = facts, simulation, episodes, with_info
        self._episode: Episode | None = None
        self._step = 0
        self._seen: dict[Any, Flat] = {}

    @property
    def is_known(self) -> bool:
        """See Stream."""
        return self._episode is not None

    def begin(self, tick: int) -> None:
        """See Stream."""
        self._episode, self._step = self._episodes.position(tick)
        self._seen = self._observations()

    def advance(self, call: EnvironmentCall) -> Iterator[Transition]:
        """See Stream."""
        if call.raised is not None:
            return
        seen = self._observations()
        if call.begins:
            self._episode, self._step = self._episodes.at(call.tick), 0
        elif self._episode is not None:
            for agent, action in call.action.items():
                yield from self._of_agent(self._episode, call.tick, agent, action, seen)
            self._step += 1
        self._seen = seen

    def _of_agent(
        self, episode: Episode, tick: int, agent: Any, action: Any, seen: dict[Any, Flat]
    ) -> Iterator[Transition]:
        last = self._simulation.last
        if agent not in last.rewards and agent not in seen:
            return  # It had left before: the environment ignored its action.
        yield Transition(
            episode.index,
            self._step,
            tick - 1,
            tick,
            str(agent),
            None,
            episode.seed,
            self._episodes.options(episode),
            self._seen.get(agent, {}),
            flatten(action, self._facts.space("action", str(agent))),
            flatten(last.rewards.get(agent)),
            seen.get(agent, {}),
            _flag(last.terminations.get(agent)),
            _flag(last.truncations.get(agent)),
            flatten((last.infos or {}).get(agent)) if self._with_info else {},
        )

    def _observations(self) -> dict[Any, Flat]:
        observations = self._simulation.last.observations or {}
        return {
            agent: flatten(one, self._facts.space("observation", str(agent))) for agent, one in observations.items()
        }


def _flag(flag: Any) -> bool | None:
    return None if flag is None else bool(flag)


class TurnsStream:
    """Transitions of a PettingZoo environment whose agents act in turn: each from a turn of an agent to its next one.

    The reward is what came together between the two turns. The last transition of an agent ends where its death is
    noticed, which is itself no transition. One whose next turn is not on the tape has no end, and is left out.
    """

    def __init__(self, facts: EnvironmentFacts, simulation: Any, episodes: EpisodesOnTape, *, with_info: bool) -> None:
        """simulation: of the adapter. with_info: keep the infos."""
        self._facts, self._simulation, self._episodes, self._with_info = facts, simulation, episodes, with_info
        self._episode: Episode | None = None
        self._open: dict[Any, tuple[int, Flat, Flat]] = {}  # By agent: the tick, the observation and the action.
        self._turns: dict[Any, int] = {}  # By agent: the number of its actions in this episode.
        self._seen: Flat = {}
        self._selected: Any = None
        self._is_over = False

    @property
    def is_known(self) -> bool:
        """See Stream."""
        return self._episode is not None

    def begin(self, tick: int) -> None:
        """See Stream. Only the first tick of an episode has no turns before it."""
        episode = self._episodes.at(tick)
        self._episode = episode if episode is not None and episode.first_tick == tick else None
        self._start_episode()

    def advance(self, call: EnvironmentCall) -> Iterator[Transition]:
        """See Stream."""
        if call.raised is not None:
            return
        if call.begins:
            self._episode = self._episodes.at(call.tick)
            self._start_episode()
            return
        if self._episode is None:
            return
        agent = self._selected
        if agent is not None and not self._is_over:
            action = flatten(call.action, self._facts.space("action", str(agent)))
            self._open[agent] = (call.tick - 1, self._seen, action)
        self._observe()
        if self._selected in self._open:
            yield self._closed(self._episode, call.tick)

    def _closed(self, episode: Episode, end_tick: int) -> Transition:
        agent, last = self._selected, self._simulation.last
        tick, seen, action = self._open.pop(agent)
        turn = self._turns[agent] = self._turns.get(agent, -1) + 1
        return Transition(
            episode.index,
            turn,
            tick,
            end_tick,
            str(agent),
            None,
            episode.seed,
            self._episodes.options(episode),
            seen,
            action,
            flatten(last.rewards),
            self._seen,
            bool(last.terminations),
            bool(last.truncations),
            flatten(last.infos) if self._with_info else {},
        )

    def _start_episode(self) -> None:
        self._open, self._turns = {}, {}
        self._observe()

    def _observe(self) -> None:
        last = self._simulation.last
        self._selected = last.agent
        self._is_over = bool(last.terminations or last.truncations)
        space = None if last.agent is None else self._facts.space("observation", str(last.agent))
        self._seen = flatten(last.observations, space)
