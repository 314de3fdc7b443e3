"""The optional methods of a user's simulation that give the data of its agents, and checks of what they return.

    agent_names()             -> the agents at the present tick: a list of texts
    agent_observation(agent)  -> numbers, texts or arrays, or dicts or tuples of them
    agent_actions(inputs)     -> {agent: action}, asked before the step of these inputs; actions as observations
    agent_reward(agent)       -> a number, of the last step, also for an agent that left in it

A function that the user gives takes the place of the method, and gets the simulation as its first argument.

Invariants:
    1. A wrong return is an ExtractionError that names the method, the tick and what to return instead.
    2. What is returned here shares no memory with the simulation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, KeysView, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from recorder.factory_spec import load_factory
from replayer.datasets.functions import guarded
from replayer.datasets.plan import TapeInput, open_source
from replayer.datasets.request import ExtractionError, Request, name_of_function
from replayer.datasets.transitions.flat_values import Flat, flatten
from replayer.playback.make_simulation import Factory, make_simulation
from sim.kernel.hooks import ensure_parameters
from sim.kernel.simulation import subject_of

NAMES, OBSERVATION, ACTIONS_METHOD, REWARD = "agent_names", "agent_observation", "agent_actions", "agent_reward"
OF_TRANSITIONS = (NAMES, OBSERVATION, ACTIONS_METHOD)  # Without a reward the column is null.
# Those of agent_actions are the step's own: only its call shows if they fit.
_PARAMETERS: dict[str, tuple[str, ...]] = {NAMES: (), OBSERVATION: ("agent",), REWARD: ("agent",)}
_VALUES = "numbers, texts or arrays, or dicts or tuples of them"


def names_of_methods(subject: object, request: Request) -> frozenset[str]:
    """The names of the methods that an object has, or a function for. What cannot be called is the object's own."""
    names = (NAMES, OBSERVATION, ACTIONS_METHOD, REWARD)
    given = request.agent_functions
    return frozenset(name for name in names if name in given or callable(getattr(subject, name, None)))


def methods_of_tapes(sources: Sequence[TapeInput], request: Request, factory: Factory | None) -> frozenset[str]:
    """The names of the methods of the simulation that the user gave for these tapes; empty if no table needs them.

    Raises ExtractionError if functions are given for tapes that cannot have them, and as making the simulation does.
    """
    is_used = not request.tables or {"transitions", "actions"} & set(request.tables)
    environment = next((source for source in sources if source.environment), None)
    given = next(iter(request.agent_functions), None)
    if given is not None and environment is not None:
        raise ExtractionError(
            f"{environment.name} is the tape of an environment, which has its own agents: leave {given} out"
        )
    if given is not None and factory is None:
        raise ExtractionError(f"{given} is for your own simulation: give what makes it as world (--sim module:factory)")
    if factory is None or not is_used or environment is not None:
        return frozenset()
    with open_source(sources[0]) as tape:
        return names_of_methods(subject_of(make_simulation(tape, factory)), request)


def ensure_functions_used(request: Request, tables: Sequence[str]) -> None:
    """Raise ExtractionError if a function is given for tables that have nothing of it."""
    given = next(iter(request.agent_functions), None)
    if given is not None and not {"transitions", "actions"} & set(tables):
        raise ExtractionError(
            f"{given} gives the tables transitions and actions, and the tables are {', '.join(tables)}: choose one with "
            f"--table; transitions need {', '.join(OF_TRANSITIONS)}"
        )


class AgentMethods:
    """Asks the methods of one simulation. Every method raises ExtractionError (invariant 1)."""

    def __init__(self, subject: object, request: Request) -> None:
        self._class = type(subject).__name__
        self.present = names_of_methods(subject, request)
        self._labels = {name: f"{self._class}.{name}" for name in self.present}
        self._labels |= {name: f"{name} ({name_of_function(one)})" for name, one in request.agent_functions.items()}
        self._methods: dict[str, Callable[..., Any]] = {}
        for name in self.present:
            if name in request.agent_functions:
                method = _function_of(name, request.agent_functions[name], self._labels[name], subject)
            else:
                method = _method_of(name, subject)
            self._methods[name] = guarded(method, self._labels[name])

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
        return f"{self._labels[name]} at tick {tick:,}"


def _method_of(name: str, subject: object) -> Callable[..., Any]:
    if name in _PARAMETERS:
        try:
            ensure_parameters(subject, name, _PARAMETERS[name])
        except TypeError as error:
            raise ExtractionError(str(error)) from None
    return getattr(subject, name)  # type: ignore[no-any-return]


def _function_of(name: str, function: Callable[..., Any] | str, label: str, subject: object) -> Callable[..., Any]:
    """Load a function, and bind it to the simulation. Raises ExtractionError."""
    try:
        loaded: Callable[..., Any] = load_factory(function) if isinstance(function, str) else function
    except ValueError as error:
        raise ExtractionError(f"{name} {error}") from None
    bound = partial(loaded, subject)
    if name in _PARAMETERS:
        expected = ("simulation", *_PARAMETERS[name])
        try:
            signature = inspect.signature(loaded)
        except (TypeError, ValueError):
            return bound  # Functions of extension modules may not expose their parameters.
        try:
            signature.bind(*expected)
        except TypeError as error:
            raise ExtractionError(
                f"{label}: expected a function that can be called with ({', '.join(expected)}), got {signature}: {error}"
            ) from None
    return bound


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
