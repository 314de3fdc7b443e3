"""The name of a tape's environment with its arguments: the same for tapes of the same environment, as far as they tell.

    CartPole-v1(max_episode_steps=500)
    FrozenLake-v1(map_name="8x8", max_episode_steps=100)
    Corridor 3f2a9c                    an object of the user, by its class, layers and spaces

Invariant: the label depends on the tape alone, so that rows that are added to a data set later have the same one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from replayer.value_text import to_json

LENGTH_MAX = 120
_ONLY_OUTPUT = (
    "render_mode",
    "RecordVideo",
    "RenderCollection",
    "HumanRendering",
)  # Change nothing that a step returns.
_LIMIT = "max_episode_steps"


def environment_label(title: str, spec: str | None, adapter: Mapping[str, Any]) -> str:
    """The label of an environment.

    title: see EnvironmentFacts. spec: the specification of one environment as JSON text; None without one. adapter: the
    entry of the tape's META.
    """
    subject = adapter.get("subject")
    subject = subject if isinstance(subject, Mapping) else {}
    label = _of_spec(spec) if spec is not None else _of_arguments(subject.get("id"), subject.get("kwargs"))
    if label is not None and len(label) <= LENGTH_MAX:
        return label
    about = label or json.dumps(to_json([adapter.get(key) for key in ("class", "subject", "spaces")]), default=repr)
    return f"{title or 'environment'} {hashlib.blake2b(about.encode(), digest_size=3).hexdigest()}"


def _of_spec(text: str) -> str | None:
    try:
        spec = json.loads(text)
        arguments = spec["kwargs"] | ({} if spec.get(_LIMIT) is None else {_LIMIT: spec[_LIMIT]})
        parts = [_of_arguments(spec["id"], arguments)]
        wrappers = [(one["name"], one["kwargs"] or {}) for one in spec.get("additional_wrappers") or ()]
    except (KeyError, TypeError, ValueError):  # The text is the tape's, which may hold anything.
        return None
    parts += [_of_arguments(name, own) for name, own in wrappers if name not in _ONLY_OUTPUT]
    return None if None in parts else " + ".join(map(str, parts))


def _of_arguments(name: Any, arguments: Any) -> str | None:
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        return None
    shown = {str(key): json.dumps(to_json(value), default=repr) for key, value in arguments.items()}
    listed = ", ".join(f"{key}={shown[key]}" for key in sorted(shown) if key not in _ONLY_OUTPUT)
    return f"{name}({listed})" if listed else name
