"""The layers of a Gymnasium environment, and how it is made again from what a tape says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from sim.kernel.plain_data import encode_plain

OUTPUT_ONLY = {"RecordVideo", "RenderCollection", "HumanRendering"}
_OWN_WRAPPERS = "gymnasium.wrappers."


def layers_of(env: Any) -> list[tuple[str, Any]]:
    """The wrappers and the environment, outermost first, each with a name of its own."""
    found: list[tuple[str, Any]] = []
    taken: dict[str, int] = {}
    layer = env
    while True:
        name = type(layer).__name__
        taken[name] = taken.get(name, 0) + 1
        found.append((name if taken[name] == 1 else f"{name}_{taken[name]}", layer))
        if not isinstance(layer, gymnasium.Wrapper):
            return found
        layer = layer.env


def captured_layers(env: Any) -> list[tuple[str, Any]]:
    """Those of them whose attributes are captured."""
    return [(name, layer) for name, layer in layers_of(env) if type(layer).__name__ not in OUTPUT_ONLY]


def name_of(env: Any) -> str:
    """What an environment is called."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def subject_of(env: Any) -> dict[str, Any] | None:
    """How the environment was made, if that can be said in plain data."""
    spec = env.spec
    layers = [name for name, _ in captured_layers(env)]
    if spec is None:
        return {"layers": layers}
    made = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    wrappers = [
        [one.name, dict(one.kwargs or {})]
        for one in spec.additional_wrappers
        if one.entry_point.startswith(_OWN_WRAPPERS) and one.name not in OUTPUT_ONLY
    ]
    subject = {
        "id": spec.id,
        "kwargs": made,
        "max_episode_steps": spec.max_episode_steps,
        "checked": not spec.disable_env_checker,
        "wrappers": wrappers,
        "layers": layers,
    }
    try:
        encode_plain(subject)
    except (TypeError, ValueError, OverflowError):
        return {"layers": layers}  # Made with objects: only the user can make them again.
    return subject


def rebuild(subject: Mapping[str, Any]) -> Any | None:
    """The environment of a tape, if its id is registered here and its wrappers are Gymnasium's own."""
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
            return env if [one for one, _ in captured_layers(env)] == layers else None
    return None
