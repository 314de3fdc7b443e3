"""The layers of a Gymnasium environment, and the way to rebuild it from the description in a tape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from sim.kernel.plain_data import encode_plain

OUTPUT_ONLY = {"RecordVideo", "RenderCollection", "HumanRendering"}
_OWN_WRAPPERS = "gymnasium.wrappers."


def layers_of(env: Any) -> list[tuple[str, Any]]:
    """The wrappers and the environment, outermost first, each with a unique name."""
    layers: list[tuple[str, Any]] = []
    counts: dict[str, int] = {}
    layer = env
    while True:
        name = type(layer).__name__
        counts[name] = counts.get(name, 0) + 1
        layers.append((name if counts[name] == 1 else f"{name}_{counts[name]}", layer))
        if not isinstance(layer, gymnasium.Wrapper):
            return layers
        layer = layer.env


def captured_layers(env: Any) -> list[tuple[str, Any]]:
    """The layers whose attributes are captured."""
    return [(name, layer) for name, layer in layers_of(env) if type(layer).__name__ not in OUTPUT_ONLY]


def name_of(env: Any) -> str:
    """The name of an environment."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def subject_of(env: Any) -> dict[str, Any] | None:
    """The id, arguments and wrappers of the environment, if they are plain data; otherwise only its layers."""
    spec = env.spec
    layers = [name for name, _ in captured_layers(env)]
    if spec is None:
        return {"layers": layers}
    arguments = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
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
    try:
        encode_plain(subject)
    except (TypeError, ValueError, OverflowError):
        return {"layers": layers}  # Made with objects: only the user can rebuild it.
    return subject


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
    return None
