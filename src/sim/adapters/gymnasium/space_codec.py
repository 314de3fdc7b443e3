"""Gymnasium's spaces as plain data, and back: a tape describes the spaces of its environment with it.

Encoder and decoder of each kind of space are adjacent. Reading the plain data needs no package and runs no code:
    {"type": "Box", "dtype": "<f4", "shape": [4], "low": numbers, "high": numbers}    one number if all are equal
    {"type": "Discrete", "dtype": "<i8", "n": 2, "start": 0}
    {"type": "MultiBinary", "shape": [4], "n": 4}    n is a list if it was given as one
    {"type": "MultiDiscrete", "dtype": "<i8", "nvec": array, "start": array}
    {"type": "Text", "min_length": 1, "max_length": 8, "characters": "ab"}
    {"type": "Dict", "spaces": [[key, space], ...]}      {"type": "Tuple" or "OneOf", "spaces": [space, ...]}
    {"type": "Sequence", "feature": space, "stack": false}      {"type": "Graph", "node": space, "edge": space or None}
    {"type": "Other", "class": "module.Class"}    a space of another package, which cannot be decoded
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from sim.kernel.class_names import module_of

Plain = dict[str, Any]
LIMITS_MAX = 4096  # Limits of a Box that differ are kept up to this number, since a tape's META has to stay small.


class SpaceNotKnownError(ValueError):
    """Plain data that no space of Gymnasium can be made from."""


def space_to_plain(space: Any) -> Plain:
    """Describe a space as plain data."""
    match space:
        case spaces.Box():
            numbers = {"low": _limit(space.low), "high": _limit(space.high)}
            return {"type": "Box", "dtype": space.dtype.str, "shape": list(space.shape), **numbers}
        case spaces.Discrete():
            return {"type": "Discrete", "dtype": space.dtype.str, "n": int(space.n), "start": int(space.start)}
        case spaces.MultiBinary():
            number = space.n if isinstance(space.n, int) else list(map(int, space.n))
            return {"type": "MultiBinary", "shape": list(space.shape), "n": number}
        case spaces.MultiDiscrete():
            numbers = {"nvec": np.array(space.nvec), "start": np.array(space.start)}
            return {"type": "MultiDiscrete", "dtype": space.dtype.str, **numbers}
        case spaces.Text():
            sizes = {"min_length": int(space.min_length), "max_length": int(space.max_length)}
            return {"type": "Text", **sizes, "characters": "".join(sorted(space.character_set))}
        case spaces.Dict():
            return {"type": "Dict", "spaces": [[key, space_to_plain(one)] for key, one in space.spaces.items()]}
        case spaces.Tuple():
            return {"type": "Tuple", "spaces": [space_to_plain(one) for one in space.spaces]}
        case spaces.OneOf():
            return {"type": "OneOf", "spaces": [space_to_plain(one) for one in space.spaces]}
        case spaces.Sequence():
            return {"type": "Sequence", "feature": space_to_plain(space.feature_space), "stack": bool(space.stack)}
        case spaces.Graph():
            edge = None if space.edge_space is None else space_to_plain(space.edge_space)
            return {"type": "Graph", "node": space_to_plain(space.node_space), "edge": edge}
    return {"type": "Other", "class": f"{module_of(type(space))}.{type(space).__qualname__}"}


def space_from_plain(plain: Mapping[str, Any]) -> spaces.Space[Any]:
    """Make the space that plain data describes. Raises SpaceNotKnownError."""
    try:
        return _space(plain)
    except (AssertionError, AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
        raise SpaceNotKnownError(f"not a description of a space: {error}") from None


def _space(plain: Mapping[str, Any]) -> spaces.Space[Any]:
    match plain["type"]:
        case "Box":
            if plain["low"] is None or plain["high"] is None:
                raise SpaceNotKnownError(f"its limits are not on the tape: they are more than {LIMITS_MAX:,} numbers")
            dtype, shape = np.dtype(plain["dtype"]), tuple(plain["shape"])
            low, high = (np.broadcast_to(np.asarray(plain[end], dtype), shape) for end in ("low", "high"))
            return spaces.Box(low, high, shape, dtype.type)
        case "Discrete":
            dtype = np.dtype(plain["dtype"])  # Gymnasium before 1.2 has no other than the default.
            options = {} if dtype == np.int64 else {"dtype": dtype.type}
            return spaces.Discrete(plain["n"], start=plain["start"], **options)
        case "MultiBinary":
            return spaces.MultiBinary(plain["n"])
        case "MultiDiscrete":
            return spaces.MultiDiscrete(plain["nvec"], np.dtype(plain["dtype"]).type, start=plain["start"])
        case "Text":
            sizes = {"min_length": plain["min_length"], "max_length": plain["max_length"]}
            return spaces.Text(**sizes, charset=plain["characters"])
        case "Dict":
            return spaces.Dict([(key, _space(one)) for key, one in plain["spaces"]])
        case "Tuple":
            return spaces.Tuple([_space(one) for one in plain["spaces"]])
        case "OneOf":
            return spaces.OneOf([_space(one) for one in plain["spaces"]])
        case "Sequence":
            return spaces.Sequence(_space(plain["feature"]), stack=plain["stack"])
        case "Graph":
            return spaces.Graph(_space(plain["node"]), None if plain["edge"] is None else _space(plain["edge"]))
    raise SpaceNotKnownError(f"{plain.get('class', plain['type'])} is not a space of Gymnasium")


def _limit(numbers: Any) -> Any:
    """Limits as an array, as one number if all are equal, or as None if they are too many."""
    flat = np.asarray(numbers).reshape(-1)
    if not flat.size:
        return 0
    if np.all(flat == flat[0]):
        return flat[0]
    return np.array(numbers) if flat.size <= LIMITS_MAX else None
