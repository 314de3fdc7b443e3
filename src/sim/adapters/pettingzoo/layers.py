"""What PettingZoo environments are made of: their layers, what of these no step reads, and how they are made again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pettingzoo
from gymnasium import spaces
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from sim.adapters.capture.rng_state import is_generator
from sim.adapters.capture.survey import Said, cell_of
from sim.kernel.class_names import package_of
from sim.kernel.plain_data import encode_plain

KINDS = {"aec": pettingzoo.AECEnv, "parallel": pettingzoo.ParallelEnv}
OUTPUT_ONLY = {"RecordVideo", "RecordVideoParallel", "CaptureStdoutWrapper"}

# What no step reads: how the environment was made, what only watches the caller's loop. Never by a name alone that others
# may use for something else: the card games of another library keep the whole game in ``env``.
_CONFIGURATION = {"metadata", "render_mode", "_has_updated"}
_DRAWING_NAMES = {"screen", "clock", "window"}  # None until the first picture is drawn.
_DRAWING_PACKAGES = ("pygame", "PIL", "OpenGL", "glfw", "matplotlib")


def classify(_: object, name: str, value: Any) -> Said | None:
    """What is known of the attributes of PettingZoo's own classes."""
    if name in _CONFIGURATION or isinstance(value, spaces.Space | pettingzoo.AECEnv | pettingzoo.ParallelEnv):
        return "kept"
    if type(value) is dict and value and all(isinstance(one, spaces.Space) for one in value.values()):
        return "kept"
    if package_of(type(value)) in _DRAWING_PACKAGES:
        return "kept"
    return "drawing" if value is None and name in _DRAWING_NAMES else None


def classify_coarsely(holder: object, name: str, value: Any) -> Said | None:
    """The same for an environment that is not saved: of itself only what a reset may leave as it is."""
    if isinstance(holder, BaseWrapper | BaseParallelWrapper):
        return classify(holder, name, value)
    return None if cell_of(value) is not None or is_generator(value) else "kept"


def layers_of(env: Any) -> list[tuple[str, Any]]:
    """The wrappers, converters and the environment, outermost first, each with a name of its own."""
    found: list[tuple[str, Any]] = []
    taken: dict[str, int] = {}
    layer = env
    while layer is not None:
        name = type(layer).__name__
        taken[name] = taken.get(name, 0) + 1
        found.append((name if taken[name] == 1 else f"{name}_{taken[name]}", layer))
        within = (vars(layer).get("env"), vars(layer).get("aec_env"))
        layer = next((one for one in within if isinstance(one, tuple(KINDS.values()))), None)
    return found


def name_of(env: Any) -> str:
    """What people call the environment."""
    return str((getattr(env.unwrapped, "metadata", None) or {}).get("name") or type(env.unwrapped).__name__)


# --- making an environment again


def subject_of(env: Any) -> dict[str, Any] | None:
    """How the environment was made, if it is registered under its name and says what it was made with."""
    inner, kind = env.unwrapped, "parallel" if isinstance(env, pettingzoo.ParallelEnv) else "aec"
    layers = [name for name, _ in layers_of(env)]
    subject: dict[str, Any] = {"layers": layers}
    ids = [one for one in _registry(kind) if one.rpartition("/")[2].replace("-v", "_v") == name_of(env)]
    if len(ids) != 1 or not hasattr(inner, "_ezpickle_args"):
        return subject
    names = list(inspect.signature(type(inner)).parameters)
    made = dict(zip(names, inner._ezpickle_args, strict=False)) | inner._ezpickle_kwargs  # noqa: SLF001 - its only place
    made.pop("render_mode", None)
    told = {**subject, "kind": kind, "id": ids[0], "kwargs": made}
    try:
        encode_plain(told)
    except (TypeError, ValueError, OverflowError):
        return subject  # Made with objects: only the user can make it again.
    return told


def rebuild(subject: Mapping[str, Any]) -> Any | None:
    """The environment of a tape, if its id is registered here and making it gives the same layers."""
    match subject:
        case {
            "kind": ("aec" | "parallel") as kind,
            "id": str(name),
            "kwargs": dict(arguments),
            "layers": list(layers),
        } if name in _registry(kind):
            make: Any = pettingzoo.make
            env = make(kind, name, **arguments)
            return env if [one for one, _ in layers_of(env)] == layers else None
    return None


def _registry(kind: str) -> Mapping[str, Any]:
    """What is registered: nothing in versions that have no registry."""
    return getattr(pettingzoo, f"{kind}_registry", {})
