"""Find the functions that an extraction is told by name: of the tape's world, or the user's own as module:function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from recorder.factory_spec import load_factory
from replayer.datasets.request import ExtractionError
from sim.kernel.registry import Config, ConfigError, EncodeActions, Observe, Readable, ReadActions, Reward, World

Arrays = dict[str, "np.ndarray[Any, Any]"]


@attrs.frozen
class Setting:
    """The world and the configuration that functions are made for; None and {} for a simulation of the user's."""

    world: World | None
    config: Config

    def observation(self, name: str, agent: str) -> Callable[[Readable], Arrays]:
        """What the agent sees by the observation of this name. Raises ExtractionError."""
        if ":" in name:
            given = _load(name, "observation", ("state", "agent"))
            return lambda state: _as_arrays(given(state, agent), name)
        observe: Observe = self._of_world("observation", name, agent)
        return lambda state: _as_arrays(observe(state), name)

    def encoding(self, name: str, agent: str) -> Callable[[Any, Readable], Arrays]:
        """What the agent did in a tick, as arrays. Raises ExtractionError."""
        if ":" in name:
            given, own = _load(name, "encoding of actions", ("inputs", "state", "agent")), self.own_inputs(agent)
            return lambda inputs, state: _as_arrays(given(own(inputs, state), state, agent), name)
        encode: EncodeActions = self._of_world("action array", name, agent)
        return lambda inputs, state: _as_arrays(encode(inputs, state), name)

    def reward(self, name: str, agent: str) -> Reward:
        """What a pair is worth to the agent. Raises ExtractionError."""
        if ":" in name:
            given = _load(name, "reward", ("before", "after", "agent"))
            return lambda before, after: _as_number(given(before, after, agent), name)
        reward: Reward = self._of_world("reward", name, agent)
        return lambda before, after: _as_number(reward(before, after), name)

    def own_inputs(self, agent: str) -> ReadActions:
        """The part of a tick's inputs that an agent sent; all of them for "" and where nobody knows whose they are."""
        if agent and self.world is not None and self.world.actions is not None:
            return self._made(self.world.actions, agent)  # type: ignore[no-any-return]
        return lambda inputs, _: inputs.get(agent) if agent and isinstance(inputs, Mapping) else inputs

    def agents(self) -> tuple[str, ...]:
        """Who acts; nobody in particular where the world names nobody."""
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
            whose = f"{self.world.name} has" if self.world is not None else "a simulation of your own has"
            there = f"it has {', '.join(known)}" if known else "give module:function"
            raise ExtractionError(f"{whose} no {kind} {name}; {there}")
        return self._made(known[name], agent)

    def _made(self, make: Callable[[Config, str], Any], agent: str) -> Any:
        try:
            return make(self.config, agent)
        except ConfigError as error:
            raise ExtractionError(str(error)) from None


def _load(name: str, what: str, parameters: tuple[str, ...]) -> Callable[..., Any]:
    """The user's function, called with as many of the parameters as it takes."""
    try:
        found = load_factory(name)
    except ValueError as error:
        raise ExtractionError(f"{what} {error}") from None
    try:
        taken = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):  # Something built in, which does not say; it gets everything.
        return found
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in taken):
        return found
    positional = [one for one in taken if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in positional)
    count = min(len(positional), len(parameters))
    if needed > len(parameters) or not count:
        expected = ", ".join(parameters)
        raise ExtractionError(f"{what} {name}: a function of some of ({expected}), in this order, was expected")
    return lambda *values: found(*values[:count])


def _as_arrays(found: Any, name: str) -> Arrays:
    """What a function gave, as arrays of its own by name. Raises ExtractionError for anything but numbers."""
    own = name.rpartition(":")[2]
    given = found if isinstance(found, Mapping) else {own: found}
    arrays = {}
    for key, value in given.items():
        array = np.array(value)
        if array.dtype.kind not in "biuf":
            raise ExtractionError(
                f"{name} gave {type(value).__name__} for {key}: numbers, or arrays of numbers, were expected"
            )
        arrays[str(key)] = array
    return arrays


def _as_number(found: Any, name: str) -> float:
    array = np.asarray(found)
    if array.shape != () or array.dtype.kind not in "biuf":
        raise ExtractionError(f"the reward {name} gave {found!r}: a number was expected")
    return float(array)
