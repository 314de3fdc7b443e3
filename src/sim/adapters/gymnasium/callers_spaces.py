"""The spaces that the caller of an environment may draw from: its action and observation spaces, and those in them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from gymnasium import spaces

from sim.adapters.gymnasium.layers import layers_of

_NAMES = ("action_space", "observation_space", "single_action_space", "single_observation_space")
_CALLERS_NAME = re.compile(r"_?(single_)?(action|observation|reward|state)_spaces?")


def is_callers_name(name: str) -> bool:
    """Return True for the name of an attribute in which an environment keeps a space for its caller."""
    return _CALLERS_NAME.fullmatch(name) is not None


def callers_spaces(env: Any) -> dict[int, tuple[str, Any]]:
    """The spaces that a caller may draw from, with their names, by id. env: the outermost layer."""
    found: dict[int, tuple[str, Any]] = {}
    for layer, holder in layers_of(env):
        named = {name: value for name, value in vars(holder).items() if is_callers_name(name)}
        for name in _NAMES:
            if name not in named:
                with contextlib.suppress(
                    Exception
                ):  # A property of the user's that refuses gives no space to draw from.
                    named[name] = getattr(holder, name, None)
        for name, value in named.items():
            if isinstance(value, spaces.Space):
                for inner, space in _spaces_in(f"{layer}.{name}", value):
                    found.setdefault(id(space), (inner, space))
    return found


def _spaces_in(name: str, space: Any) -> Iterator[tuple[str, Any]]:
    """A space and the spaces inside it."""
    yield name, space
    inner = getattr(space, "spaces", ())
    for key, part in inner.items() if isinstance(inner, dict) else enumerate(inner):
        yield from _spaces_in(f"{name}[{key!r}]", part)
    for attribute in ("feature_space", "node_space", "edge_space"):
        if getattr(space, attribute, None) is not None:
            yield from _spaces_in(f"{name}.{attribute}", getattr(space, attribute))
