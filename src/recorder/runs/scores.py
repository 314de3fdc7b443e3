"""The scores of a run: what its world says that it was worth to each player, and how the end of a tape states them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sim.kernel.registry import UnknownWorldError, World, find_world
from sim.kernel.state import State

SCORES = "scores"  # The key of the end of a tape.


def world_of(meta: Mapping[str, Any]) -> tuple[World, dict[str, Any]] | None:
    """Return the installed world of a tape, and its configuration; None if this version is not installed."""
    match meta.get("world"):
        case {"name": str(name), "version": int(version), "config": dict(config)}:
            try:
                world = find_world(name)
            except UnknownWorldError:
                return None
            return (world, config) if world.version == version else None
    return None


def scores_of(world: World, config: Mapping[str, Any], state: State) -> dict[str, float]:
    """Return the world's score of each player; empty if the world has no scores."""
    return plain_scores(world.outcome(config, state)) if world.outcome is not None else {}


def plain_scores(scores: Mapping[Any, Any]) -> dict[str, float]:
    """Return the scores that are finite numbers, by name."""
    numbers = {name: score for name, score in scores.items() if isinstance(name, str) and _is_number(score)}
    return {name: float(score) for name, score in numbers.items()}


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool | str | bytes) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
