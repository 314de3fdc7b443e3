"""The optional methods of a user's simulation that give the data of its agents, and checks of what they return.

    agent_names()             -> the agents at the present tick: a list of texts
    agent_observation(agent)  -> numbers, texts or arrays, or dicts or tuples of them
    agent_actions(inputs)     -> {agent: action}, asked before the step of these inputs; actions as observations
    agent_reward(agent)       -> a number, of the last step, also for an agent that left in it

Invariants:
    1. A wrong return is an ExtractionError that names the method, the tick and what to return instead.
    2. What is returned here shares no memory with the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView, Mapping, Sequence
from typing import Any

import numpy as np

from replayer.datasets.functions import guarded
from replayer.datasets.plan import TapeInput, open_source
from replayer.datasets.request import ExtractionError, Request
from replayer.datasets.transitions.flat_values import Flat, flatten
from replayer.playback.make_simulation import Factory, make_simulation
from sim.kernel.hooks import ensure_parameters
from sim.kernel.simulation import subject_of

NAMES, OBSERVATION, ACTIONS_METHOD, REWARD = "agent_names", "agent_observation", "agent_actions", "agent_reward"
OF_TRANSITIONS = (NAMES, OBSERVATION, ACTIONS_METHOD)  # Without a reward the column is null.
# Those of agent_actions are the step's own: only its call shows if they fit.
_PARAMETERS: dict[str, tuple[str, ...]] = {NAMES: (), OBSERVATION: ("agent",), REWARD: ("agent",)}
_VALUES = "numbers, texts or arrays, or dicts or tuples of them"


def names_of_methods(subject: object) -> frozenset[str]:
    """The names of the methods that an object has. An attribute that cannot be called is the object's own."""
    names = (NAMES, OBSERVATION, ACTIONS_METHOD, REWARD)
    return frozenset(name for name in names if callable(getattr(subject, name, None)))


def methods_of_tapes(sources: Sequence[TapeInput], request: Request, factory: Factory | None) -> frozenset[str]:
    """The names of the methods of the simulation that the user gave for these tapes; empty if no table needs them.

    Raises as making the simulation does.
    """
    is_used = not request.tables or {"transitions", "actions"} & set(request.tables)
    if factory is None or not is_used or any(source.environment for source in sources):
        return frozenset()
    with open_source(sources[0]) as tape:
        return names_of_methods(subject_of(make_simulation(tape, factory)))


class AgentMethods:
    """Asks the methods of one simulation. Every method raises ExtractionError (invariant 1)."""

    def __init__(self, subject: object) -> None:
        self._class = type(subject).__name__
        self.present = names_of_methods(subject)
        self._methods: dict[str, Callable[..., Any]] = {}
        for name in self.present:
            if name in _PARAMETERS:
                try:
                    ensure_parameters(subject, name, _PARAMETERS[name])
                except TypeError as error:
                    raise ExtractionError(str(error)) from None
            self._methods[name] = guarded(getattr(subject, name), f"{self._class}.{name}")

    def names(self, tick: int) -> tuple[str, ...]:
        """The agents at the present tick, in order."""
        names = self._methods[NAMES]()
        is_ordered = isinstance(names, list | tuple | KeysView)
        if not is_ordered or not all(isinstance(name, str) for name in names) or len({*names}) != len(names):
            raise ExtractionError(
                f"{self._at(NAMES, tick)}: expected a list of different texts, got {names!r:.60}: return the names of the "
                "agents that are there now, always in the same order, such as ['fox', 'hare']"
            )
        return tuple(names)

    def observation(self, agent: str, tick: int) -> Flat:
        """What an agent sees at the present tick, by path."""
        value = self._methods[OBSERVATION](agent)
        if value is None:
            raise ExtractionError(
                f"{self._at(OBSERVATION, tick)}: expected {_VALUES}, got None for {agent!r}: return what the agent sees, or "
                f"leave the agent out of {NAMES}()"
            )
        return self._flat(OBSERVATION, tick, agent, value)

    def actions(
        self, tick: int, arguments: Sequence[Any], keywords: Mapping[str, Any], names: Sequence[str] | None
    ) -> dict[str, Flat]:
        """The action of each agent that acts in the step that follows, by path.

        arguments, keywords: of the step. names: the agents at the present tick; None if the simulation does not name them.
        """
        made = self._methods[ACTIONS_METHOD](*arguments, **keywords)
        if not isinstance(made, Mapping) or not all(isinstance(agent, str) for agent in made):
            raise ExtractionError(
                f"{self._at(ACTIONS_METHOD, tick)}: expected a dict from names of agents to their actions, got {made!r:.60}: "
                "return {} if no agent acts"
            )
        absent = next((agent for agent in made if names is not None and agent not in names), None)
        if absent is not None:
            raise ExtractionError(
                f"{self._at(ACTIONS_METHOD, tick)}: expected agents of {NAMES}() ({', '.join(names or ()) or 'none'}), got "
                f"{absent!r}: leave out agents that are not there"
            )
        return {
            agent: self._flat(ACTIONS_METHOD, tick, agent, action)
            for agent, action in made.items()
            if action is not None
        }

    def reward(self, agent: str, tick: int) -> float:
        """The reward of an agent for the step that led to the present tick."""
        value = self._methods[REWARD](agent)
        try:
            array = np.asarray(value)
        except ValueError:  # Lists of different lengths.
            array = np.asarray(None)
        if array.shape != () or array.dtype.kind not in "biuf":
            raise ExtractionError(
                f"{self._at(REWARD, tick)}: expected a number, got {value!r:.60} for {agent!r}: return 0.0 for no reward"
            )
        return float(array)

    def _flat(self, name: str, tick: int, agent: str, value: Any) -> Flat:
        flat = flatten(value)
        path = next((path for path, one in flat.items() if one.kind == "json"), None)
        if path is not None:
            place = f"{agent!r}, {path}" if path else repr(agent)
            raise ExtractionError(
                f"{self._at(name, tick)}: expected {_VALUES}, got {_at_path(value, path)!r:.60} for {place}: return its "
                "numbers, as arrays of one shape"
            )
        return flat

    def _at(self, name: str, tick: int) -> str:
        return f"{self._class}.{name} at tick {tick:,}"


def _at_path(value: Any, path: str) -> Any:
    """The part of a value at a path of flatten; the whole value if a key has a dot in it."""
    for key in path.split(".") if path else ():
        named = {str(name): one for name, one in value.items()} if isinstance(value, Mapping) else {}
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", range(len(value)))
            named = {str(name): one for name, one in zip(fields, value, strict=True)}
        if key not in named:
            break
        value = named[key]
    return value
