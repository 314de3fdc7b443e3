"""Make transitions of a user's simulation whose methods tell its agents, their observations, actions and rewards.

A row is an agent at a tick: what it saw, what it did in the step that followed, and what came of it. An agent that is
there and does nothing has a row without an action. One that left in the step has a row without a next observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorder.errors import CorruptError
from replayer.datasets.request import Request
from replayer.datasets.transitions.agent_methods import NAMES, REWARD, AgentMethods
from replayer.datasets.transitions.flat_values import Flat, flatten
from replayer.datasets.transitions.streams import EpisodesOnTape
from replayer.datasets.transitions.transition import EnvironmentFacts, Transition
from replayer.datasets.transitions.transition_rows import TRANSITIONS
from replayer.tape.environment_calls import EnvironmentCall
from replayer.tape.episodes import Episode
from replayer.tape.tape import Tape
from sim.adapters.interface.attempts import is_attempt
from sim.adapters.plain_object.adapter import PlainObjectSimulation
from sim.kernel.simulation import Simulation, end_of, inner_of, subject_of

_RESET = "reset"  # The method of an object whose calls begin episodes.
_ATTEMPT = b"raised"


class AgentStream:
    """Transitions of a simulation with the methods of agent_methods. See Stream for its methods."""

    def __init__(
        self, facts: EnvironmentFacts, simulation: Simulation, episodes: EpisodesOnTape, request: Request
    ) -> None:
        """request: without the table of transitions, only actions are asked for."""
        self._simulation, self._episodes, self._observes = simulation, episodes, TRANSITIONS in request.tables
        self._skipped = frozenset(facts.raised)
        self._resets = frozenset(episode.first_tick for episode in facts.episodes if episode.first_tick)
        self._methods = AgentMethods(subject_of(simulation), request)
        self._episode: Episode | None = None
        self._step = 0
        self._names: tuple[str, ...] | None = None
        self._seen: dict[str, Flat] = {}
        self._actions: dict[str, Flat] = {}

    @property
    def is_known(self) -> bool:
        """See Stream."""
        return self._episode is not None

    def begin(self, tick: int) -> None:
        """See Stream."""
        self._episode, self._step = self._episodes.position(tick)
        self._look(tick)

    def prepare(self, tick: int, inputs: Any) -> None:
        """Take the inputs of the step that follows, at the tick before it."""
        self._actions = {}
        if tick + 1 in self._skipped or tick + 1 in self._resets:
            return
        inner = inner_of(self._simulation)
        arguments, keywords = (inputs,), {}
        if isinstance(inner, PlainObjectSimulation):
            call = inner.decoded(inputs)[1]
            arguments, keywords = call.arguments, dict(call.keywords)
        self._actions = self._methods.actions(tick, arguments, keywords, self._names)

    def advance(self, call: EnvironmentCall) -> Iterator[Transition]:
        """See Stream."""
        names, seen = self._names, self._seen
        self._look(call.tick)
        if call.tick in self._resets:
            self._episode, self._step = self._episodes.at(call.tick), 0
        elif self._episode is not None and call.tick not in self._skipped:
            is_over = self._observes and end_of(inner_of(self._simulation)) is not None
            for agent in names if names is not None else self._actions:
                yield self._of_agent(self._episode, call.tick, agent, seen, is_over=is_over)
            self._step += 1

    def _of_agent(self, episode: Episode, tick: int, agent: str, seen: dict[str, Flat], *, is_over: bool) -> Transition:
        asks_reward = self._observes and REWARD in self._methods.present
        has_left = self._names is not None and agent not in self._names
        return Transition(
            episode.index,
            self._step,
            tick - 1,
            tick,
            agent,
            None,
            None,
            None,
            seen.get(agent, {}),
            self._actions.get(agent, {}),
            flatten(self._methods.reward(agent, tick)) if asks_reward else {},
            self._seen.get(agent, {}),
            is_over or has_left,
            False,
            {},
        )

    def _look(self, tick: int) -> None:
        if NAMES in self._methods.present:
            self._names = self._methods.names(tick)
        if self._observes:
            self._seen = {agent: self._methods.observation(agent, tick) for agent in self._names or ()}


def facts_of_agents(tape: Tape, simulation: Simulation) -> EnvironmentFacts:
    """The episodes on the tape of a user's simulation, and its ticks that are no steps.

    Calls of ``reset`` of a recorded object begin episodes. Everything else is one episode from tick 0.
    """
    inner = inner_of(simulation)
    starts, skipped, lost = [], [], []
    if isinstance(inner, PlainObjectSimulation):
        marks = [_ATTEMPT, *(method.key.encode() for method in inner.others.values())]
        for run in tape.recording.runs(tape.first_tick + 1, tape.last_tick):
            if run.error is not None and _RESET in inner.others:
                lost.append((run.first_tick, run.last_tick))
            for frame in run.frames:
                if not any(mark in frame.encoded_inputs for mark in marks):
                    continue
                try:
                    inputs = frame.inputs
                except CorruptError:
                    lost.append((frame.tick, frame.tick))
                    continue
                method = inner.method_of(inputs)
                if is_attempt(inputs) or method.name not in (_RESET, inner.method.name):
                    skipped.append(frame.tick)
                elif method is not inner.method:
                    starts.append(frame.tick)
    if not starts or starts[0] > tape.first_tick + 1:
        starts.insert(0, 0)
    ends = [*(start - 1 for start in starts[1:]), tape.last_tick]
    episodes = [
        Episode(index, first, last, None, None, None)
        for index, (first, last) in enumerate(zip(starts, ends, strict=True))
    ]
    name = type(subject_of(simulation)).__name__
    return EnvironmentFacts("agents", {}, None, name, episodes, skipped, lost, title=name)
