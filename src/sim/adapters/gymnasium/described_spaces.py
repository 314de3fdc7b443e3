"""Describe the spaces of an environment for its tape, and the specification that makes it again.

    {"observation": space, "action": space}                    an environment
    {"envs": 4, "autoreset": "NextStep", "observation": space, "action": space}    a vector: of each environment in it
    {"agents": {"player_0": {"observation": space, "action": space}, ...}}         of several agents

A recording never fails for want of these: what cannot be described is None.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from sim.adapters.gymnasium.space_codec import space_to_plain
from sim.kernel.plain_data import encode_plain

BYTES_MAX = 256 << 10  # The spaces of a tape's META, which holds 1 MiB.
_OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers", "max_episode_steps")  # Of make_vec.
SPACES, ENV_SPEC = "spaces", "env_spec"


def describe_env(env: Any) -> dict[str, Any]:
    """The entries for the tape of an environment, or of a vector of them."""
    return {SPACES: _small(_spaces_of(env)), ENV_SPEC: _spec_text(env)}


def describe_agents(env: Any) -> dict[str, Any]:
    """The entry for the tape of an environment of several agents."""
    try:
        agents = {
            str(agent): {
                "observation": space_to_plain(env.observation_space(agent)),
                "action": space_to_plain(env.action_space(agent)),
            }
            for agent in env.possible_agents
        }
    except Exception:  # noqa: BLE001 - the user's code, which the recording itself does not need
        agents = {}
    return {SPACES: _small({"agents": agents})}


def _spaces_of(env: Any) -> dict[str, Any]:
    if isinstance(env, VectorEnv):
        mode = (env.metadata or {}).get(
            "autoreset_mode"
        )  # Gymnasium 1.0 has none: each vector resets at the next step.
        shared: dict[str, Any] = {"envs": int(env.num_envs), "autoreset": getattr(mode, "value", mode) or "NextStep"}
        prefix = "single_"
    else:
        shared, prefix = {}, ""
    for name in ("observation", "action"):
        space = getattr(env, f"{prefix}{name}_space", None)  # An environment works without, if its user knows better.
        shared[name] = None if space is None else space_to_plain(space)
    return shared


def _small(described: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return described if len(encode_plain(described)) <= BYTES_MAX else None
    except (TypeError, ValueError, OverflowError):
        return None  # A key of a Dict space may be any object.


def describe_each(vector: Any) -> str | None:
    """The specification of the environments in a vector as text: it makes one of them.

    None if they differ or have none, or if a wrapper of the vector changes what they return.
    """
    while isinstance(vector, VectorWrapper):
        if type(vector) is not RecordEpisodeStatistics:
            return None
        vector = vector.env
    inside = getattr(vector, "envs", None)
    if inside:
        texts = {_spec_text(env) for env in inside}
        return texts.pop() if len(texts) == 1 else None
    spec = getattr(vector, "spec", None)
    if spec is None:
        return None
    # A vector that is one object has the limit of steps among its arguments; gymnasium.make has it in the specification.
    own = {name: value for name, value in spec.kwargs.items() if name not in _OF_VECTORS}
    limit = spec.kwargs.get("max_episode_steps", spec.max_episode_steps)
    return _text_of(dataclasses.replace(spec, kwargs=own, max_episode_steps=limit))


def _spec_text(env: Any) -> str | None:
    """The environment's specification as text; None if it has none, or one made with objects."""
    return _text_of(getattr(env, "spec", None))


def _text_of(spec: Any) -> str | None:
    try:
        return None if spec is None else str(spec.to_json())
    except (AttributeError, TypeError, ValueError):
        return None
