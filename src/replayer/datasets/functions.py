"""Find the functions that a request names: the world's own, or the user's as module:function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from recorder.errors import RecordingError
from recorder.exception_text import raised_text
from recorder.factory_spec import load_factory
from replayer.datasets.request import ExtractionError
from sim.kernel.registry import Config, ConfigError, EncodeActions, Observe, Readable, ReadActions, Reward, World

Arrays = dict[str, "np.ndarray[Any, Any]"]


@attrs.frozen
class Setting:
    """The world and the configuration that functions are made for; None and {} for the user's own simulation."""

    world: World | None
    config: Config

    def observation(self, name: str, agent: str) -> Callable[[Readable], Arrays]:
        """The function that observes a state for the agent. Raises ExtractionError."""
        if ":" in name:
            function = _load(name, "observation", ("state", "agent"))
            return lambda state: _as_arrays(function(state, agent), name)
        observe: Observe = guarded(self._of_world("observation", name, agent), f"the observation {name}")
        return lambda state: _as_arrays(observe(state), name)

    def encoding(self, name: str, agent: str) -> Callable[[Any, Readable], Arrays]:
        """The function that encodes the agent's actions in a tick as arrays. Raises ExtractionError."""
        if ":" in name:
            function, own = _load(name, "encoding of actions", ("inputs", "state", "agent")), self.own_inputs(agent)
            return lambda inputs, state: _as_arrays(function(own(inputs, state), state, agent), name)
        encode: EncodeActions = guarded(self._of_world("action array", name, agent), f"the action array {name}")
        return lambda inputs, state: _as_arrays(encode(inputs, state), name)

    def reward(self, name: str, agent: str) -> Reward:
        """The function that computes the agent's reward of a pair. Raises ExtractionError."""
        if ":" in name:
            function = _load(name, "reward", ("before", "after", "agent"))
            return lambda before, after: _as_number(function(before, after, agent), name)
        reward: Reward = guarded(self._of_world("reward", name, agent), f"the reward {name}")
        return lambda before, after: _as_number(reward(before, after), name)

    def own_inputs(self, agent: str) -> ReadActions:
        """The function that picks the agent's part of a tick's inputs; all inputs for "" or if they name no agents."""
        if agent and self.world is not None and self.world.actions is not None:
            return self._made(self.world.actions, agent)  # type: ignore[no-any-return]
        return lambda inputs, _: inputs.get(agent) if agent and isinstance(inputs, Mapping) else inputs

    def agents(self) -> tuple[str, ...]:
        """The names of the agents; ("",) if the world names none."""
        if self.world is None or self.world.agents is None:
            return ("",)
        return tuple(self.world.agents(self.config)) or ("",)

    def _of_world(self, kind: str, name: str, agent: str) -> Any:
        known: Mapping[str, Any] = {}
        if self.world is not None:
            known = {
                "observation": self.world.observations,
                "action array": self.world.action_arrays,
                "reward": self.world.rewards,
            }[kind]
        if name not in known:
            owner = self.world.name if self.world is not None else "your own simulation"
            choices = f"it has {', '.join(known)}" if known else "give module:function"
            raise ExtractionError(f"{owner} has no {kind} {name}; {choices}")
        try:
            return self._made(known[name], agent)
        except ExtractionError as error:
            if agent or self.agents() != ("",):
                raise
            raise ExtractionError(
                f"the {kind} {name}: {error}, and this run has no agents: choose a different {kind}, or give module:function"
            ) from None

    def default(self, kind: str) -> str | None:
        """The name of the world's first observation or action array that its first agent can have; None without one."""
        if self.world is None:
            return None
        known = self.world.observations if kind == "observation" else self.world.action_arrays
        for name, make in known.items():
            try:
                make(self.config, self.agents()[0])
            except ConfigError:
                continue  # It needs an agent, and the run has none.
            return name
        return None

    def _made(self, make: Callable[[Config, str], Any], agent: str) -> Any:
        try:
            return make(self.config, agent)
        except ConfigError as error:
            raise ExtractionError(str(error)) from None


def _load(name: str, what: str, parameters: tuple[str, ...]) -> Callable[..., Any]:
    """Load the user's function, to be called with as many of the parameters as it takes."""
    try:
        function = load_factory(name)
    except ValueError as error:
        raise ExtractionError(f"{what} {error}") from None
    function = guarded(function, f"the {what} {name}")
    try:
        own = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # A built-in without a signature; it gets everything.
        return function
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in own):
        return function
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter for parameter in own if parameter.kind in kinds]
    needed = sum(parameter.default is parameter.empty for parameter in positional)
    count = min(len(positional), len(parameters))
    if needed > len(parameters) or not count:
        expected = ", ".join(parameters)
        raise ExtractionError(f"{what} {name}: expected a function of some of ({expected}), in this order")
    return lambda *values: function(*values[:count])


def guarded(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    """Return the function, raising ExtractionError where it raises anything else: a user's mistake is one line."""

    @functools.wraps(function)
    def called(*values: Any, **named: Any) -> Any:
        try:
            return function(*values, **named)
        except RecordingError:
            raise
        except Exception as error:
            raise ExtractionError(raised_text(what, error)) from error

    return called


def _as_arrays(result: Any, name: str) -> Arrays:
    """Copy what a function returned into arrays by name. Raises ExtractionError for anything but numbers."""
    own = name.rpartition(":")[2]
    values = result if isinstance(result, Mapping) else {own: result}
    arrays = {}
    for key, value in values.items():
        try:
            array = np.array(value)
        except ValueError:  # Lists of different lengths.
            raise ExtractionError(
                f"{name}, {key}: expected arrays of one shape, got lists of different lengths"
            ) from None
        if array.dtype.kind not in "biufc":
            raise ExtractionError(f"{name}, {key}: expected numbers or arrays of numbers, got {type(value).__name__}")
        arrays[str(key)] = array
    return arrays


def _as_number(result: Any, name: str) -> float:
    array = np.asarray(result)
    if array.shape != () or array.dtype.kind not in "biuf":
        raise ExtractionError(f"the reward {name}: expected a number, got {result!r}")
    return float(array)
