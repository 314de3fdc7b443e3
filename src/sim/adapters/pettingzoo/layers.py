"""The layers of PettingZoo environments, their attributes that no step reads, and the way to rebuild an environment."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pettingzoo
from gymnasium import spaces

from sim.adapters.capture.native_objects import is_drawing
from sim.adapters.capture.survey import Treatment
from sim.adapters.gymnasium.layers import QUIET_RENDER_MODES
from sim.kernel.plain_data import encode_plain

KINDS = {"aec": pettingzoo.AECEnv, "parallel": pettingzoo.ParallelEnv}
OUTPUT_ONLY = {"RecordVideo", "RecordVideoParallel", "CaptureStdoutWrapper"}

# Attributes that no step reads: the configuration, and checks of the caller's loop. A name that others may use for
# something else is never enough: the card games of a different library keep the complete game in ``env``.
_CONFIGURATION = {"metadata", "render_mode", "_has_updated"}
_LINKS = ("env", "aec_env")  # Attributes that may hold the next layer.
_DRAWING_NAMES = {"screen", "clock", "window"}  # None until the first picture is drawn.


def classify(_: object, name: str, value: Any) -> Treatment | None:
    """The treatment of an attribute of PettingZoo's own classes; None if unknown."""
    if name in _CONFIGURATION or isinstance(value, spaces.Space):
        return "kept"
    if name in _LINKS and isinstance(value, tuple(KINDS.values())):
        return "kept"  # The next layer. An environment in any other attribute is state as any object is.
    if type(value) is dict and value and all(isinstance(item, spaces.Space) for item in value.values()):
        return "kept"
    if is_drawing(value):
        return "kept"
    return "drawing" if value is None and name in _DRAWING_NAMES else None


def layers_of(env: Any) -> list[tuple[str, Any]]:
    """The wrappers, converters and the environment, outermost first, each with a unique name."""
    layers: list[tuple[str, Any]] = []
    counts: dict[str, int] = {}
    layer = env
    while layer is not None:
        name = type(layer).__name__
        counts[name] = counts.get(name, 0) + 1
        layers.append((name if counts[name] == 1 else f"{name}_{counts[name]}", layer))
        inner = (vars(layer).get(link) for link in _LINKS)
        layer = next((env for env in inner if isinstance(env, tuple(KINDS.values()))), None)
    return layers


def name_of(env: Any) -> str:
    """The usual name of the environment."""
    return str((getattr(env.unwrapped, "metadata", None) or {}).get("name") or type(env.unwrapped).__name__)


# --- rebuilding an environment


def subject_of(env: Any) -> dict[str, Any] | None:
    """The id and arguments of the environment, if it is registered under its name and exposes its arguments."""
    inner, kind = env.unwrapped, "parallel" if isinstance(env, pettingzoo.ParallelEnv) else "aec"
    layers = [name for name, _ in layers_of(env)]
    subject: dict[str, Any] = {"layers": layers}
    ids = [entry for entry in _registry(kind) if entry.rpartition("/")[2].replace("-v", "_v") == name_of(env)]
    if len(ids) != 1 or not hasattr(inner, "_ezpickle_args"):
        return subject
    names = list(inspect.signature(type(inner)).parameters)
    arguments = dict(zip(names, inner._ezpickle_args, strict=False)) | inner._ezpickle_kwargs  # noqa: SLF001 - its only place
    if arguments.get("render_mode") not in QUIET_RENDER_MODES:
        arguments.pop("render_mode", None)
    full_subject = {**subject, "kind": kind, "id": ids[0], "kwargs": arguments}
    try:
        encode_plain(full_subject)
    except (TypeError, ValueError, OverflowError):
        return subject  # Made with objects: only the user can rebuild it.
    return full_subject


def rebuild(subject: Mapping[str, Any]) -> Any | None:
    """Make the environment of a tape; None if its id is not registered, or it would have different layers."""
    match subject:
        case {
            "kind": ("aec" | "parallel") as kind,
            "id": str(name),
            "kwargs": dict(arguments),
            "layers": list(layers),
        } if name in _registry(kind):
            make: Any = pettingzoo.make
            env = make(kind, name, **arguments)
            return env if [layer for layer, _ in layers_of(env)] == layers else None
    return None


def _registry(kind: str) -> Mapping[str, Any]:
    """The registered environments: none in versions without a registry."""
    return getattr(pettingzoo, f"{kind}_registry", {})
