"""The layers of a Gymnasium environment, and the way to rebuild it from the description in a tape."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv, VectorWrapper

from sim.kernel.plain_data import encode_plain

OUTPUT_ONLY = {"RecordVideo", "RenderCollection", "HumanRendering"}
_OWN_WRAPPERS = "gymnasium.wrappers."
# Draw when they are asked. An observation may need it, and a viewer shows it. Others open windows, or draw at each step.
QUIET_RENDER_MODES = ("rgb_array", "ansi")

being_recorded: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # By id of the innermost.


def layers_of(env: Any) -> list[tuple[str, Any]]:
    """The wrappers and the environment, outermost first, each with a unique name; then those of sub-environments."""
    layers: list[tuple[str, Any]] = []
    counts: dict[str, int] = {}
    layer = env
    while True:
        name = type(layer).__name__
        counts[name] = counts.get(name, 0) + 1
        layers.append((name if counts[name] == 1 else f"{name}_{counts[name]}", layer))
        if not isinstance(layer, gymnasium.Wrapper | VectorWrapper):
            break
        layer = layer.env
    for number, inner in enumerate(sub_environments(layer)):
        layers += [(f"env{number}.{name}", one) for name, one in layers_of(inner)]
    return layers


def sub_environments(env: Any) -> list[Any]:
    """The environments that a vector steps one after the other, with their wrappers; none of any other environment."""
    envs = getattr(env, "envs", None) if isinstance(env, VectorEnv) else None
    return [one for one in envs if isinstance(one, gymnasium.Env)] if isinstance(envs, list | tuple) else []


def captured_layers(env: Any) -> list[tuple[str, Any]]:
    """The layers whose attributes are captured."""
    return [(name, layer) for name, layer in layers_of(env) if type(layer).__name__ not in OUTPUT_ONLY]


def end_checks_without_data(env: Any) -> None:
    """Have a checker that was restored in the middle of an episode compare nothing: it lacks the data of the last call."""
    for _, layer in layers_of(env):
        if type(layer).__name__ == "PassiveEnvChecker" and vars(layer).get("_previous_data", layer) is None:
            layer.checked_step = layer.checked_data_reuse = True


def name_of(env: Any) -> str:
    """The name of an environment."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def subject_of(env: Any) -> dict[str, Any] | None:
    """The id, arguments and wrappers of the environment, if they are plain data; otherwise only its layers."""
    spec = env.spec
    layers = [name for name, _ in captured_layers(env)]
    if spec is None:
        return {"layers": layers}
    arguments = {
        key: value for key, value in spec.kwargs.items() if key != "render_mode" or value in QUIET_RENDER_MODES
    }
    if isinstance(env, VectorEnv):
        return _plain_or_layers({"vector": spec.id, "kwargs": _without_enums(arguments), "layers": layers}, layers)
    wrappers = [
        [wrapper.name, dict(wrapper.kwargs or {})]
        for wrapper in spec.additional_wrappers
        if wrapper.entry_point.startswith(_OWN_WRAPPERS) and wrapper.name not in OUTPUT_ONLY
    ]
    subject = {
        "id": spec.id,
        "kwargs": arguments,
        "max_episode_steps": spec.max_episode_steps,
        "checked": not spec.disable_env_checker,
        "wrappers": wrappers,
        "layers": layers,
    }
    return _plain_or_layers(subject, layers)


def _plain_or_layers(subject: dict[str, Any], layers: list[str]) -> dict[str, Any]:
    """The subject if a tape can give it back as it is; otherwise its layers."""
    if _has_tuple(subject):
        return {"layers": layers}  # It would come back as a list, which environments tell from a tuple.
    try:
        encode_plain(subject)
    except (TypeError, ValueError, OverflowError):
        return {"layers": layers}  # Made with objects: only the user can rebuild it.
    return subject


def _has_tuple(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_tuple, value.values() if isinstance(value, dict) else value))
    return isinstance(value, tuple)


def _without_enums(arguments: Any) -> Any:
    """The arguments with the autoreset mode as its name, which the vector takes, too."""
    if isinstance(arguments, dict):
        return {name: _without_enums(value) for name, value in arguments.items()}
    return arguments.value if isinstance(arguments, enum.Enum) else arguments


def rebuild(subject: Mapping[str, Any]) -> Any | None:
    """Make the environment of a tape; None if its id is not registered, or its wrappers are not Gymnasium's own."""
    match subject:
        case {
            "id": str(name),
            "kwargs": dict(arguments),
            "max_episode_steps": int() | None as limit,
            "checked": bool(checked),
            "wrappers": list(wrappers),
            "layers": list(layers),
        } if name in gymnasium.registry and ":" not in name:
            env = gymnasium.make(name, max_episode_steps=limit, disable_env_checker=not checked, **arguments)
            for wrapper, options in wrappers:
                if wrapper not in gymnasium.wrappers.__all__:
                    return None
                env = getattr(gymnasium.wrappers, wrapper)(env, **options)
            return env if [layer for layer, _ in captured_layers(env)] == layers else None
        case {"vector": str(name), "kwargs": dict(arguments), "layers": list(layers)} if (
            name in gymnasium.registry and ":" not in name
        ):
            envs = gymnasium.make_vec(name, **arguments)
            return envs if [layer for layer, _ in captured_layers(envs)] == layers else None
    return None
