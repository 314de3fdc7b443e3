"""Flatten observations, actions and infos into values of columns, by the dotted path inside the value.

    {"image": array, "pose": {"x": 1.0}}     ->  "image": array, "pose.x": 1.0
    (array, "text")                          ->  "0": array, "1": "text"
    a single array or number                 ->  "": array

The space decides where it is known and the value fits it, or else the value itself:

    Box, Discrete, MultiBinary, MultiDiscrete  array     Text      text
    Sequence   an array of a first axis of any length, or texts; of Dict or Tuple one for each path inside its items
    Graph      "nodes", "edges", "edge_links", likewise      OneOf     "choice", and the chosen value under its number
    complex numbers   "real" and "imag"                      anything else    JSON text

Invariant: a flat value shares no memory with the value, which the environment may overwrite at its next step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt

from replayer.datasets.request import ExtractionError
from replayer.value_text import to_json

Array = npt.NDArray[Any]
_ADDRESS = re.compile(r"(?<=[\w>)]) at 0x[0-9a-f]+(?=>)")
Kind = Literal["array", "list", "text", "texts", "json"]
Space = Mapping[str, Any]  # As sim.adapters.gymnasium.space_codec describes it.

NUMBER_SPACES = ("Box", "Discrete", "MultiBinary", "MultiDiscrete")
_NUMBERS = "biuf"
# Most values are one of these, and need no look at their parts.
_QUICK_DTYPES = frozenset(map(np.dtype, ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")))
_QUICK_NUMBERS = frozenset((float, np.float64, np.float32, np.int64, np.bool_, bool))


@attrs.frozen(eq=False)
class FlatValue:
    """One value of a column.

    Attributes:
        kind: "array" of one shape, "list" whose first axis has any length, "text", "texts", or "json" text.
        data: an array, a str, or a list of str.
    """

    kind: Kind
    data: Any


Flat = dict[str, FlatValue]  # By path.


def flatten(value: Any, space: Space | None = None) -> Flat:
    """Flatten a value into copies of its parts, by path. None has no parts. space: None if it is unknown.

    Raises ExtractionError if two parts have one path, such as those under the keys "a.b" and "a" with "b" inside.
    """
    kind = type(value)
    if kind is np.ndarray and value.dtype in _QUICK_DTYPES and (space is None or space["type"] in NUMBER_SPACES):
        return {"": FlatValue("array", value.copy())}
    if kind in _QUICK_NUMBERS and (space is None or space["type"] in NUMBER_SPACES):
        return {"": FlatValue("array", np.array(value))}
    parts: Flat = {}
    for path, part in _parts(value, space, ""):
        if path in parts:
            raise ExtractionError(
                f"two parts of a value would be in one column, {path}: rename one of their keys with a wrapper"
            )
        parts[path] = part
    return parts


def _parts(value: Any, space: Space | None, path: str) -> Iterator[tuple[str, FlatValue]]:
    match space:
        case {"type": "Dict", "spaces": list(inner)} if isinstance(value, Mapping):
            known = {str(key): one for key, one in inner}
            for key, item in value.items():
                yield from _parts(item, known.get(str(key)), joined(path, key))
        case {"type": "Tuple", "spaces": list(inner)} if isinstance(value, tuple | list) and len(value) == len(inner):
            for index, item in enumerate(value):
                yield from _parts(item, inner[index], joined(path, index))
        case {"type": "OneOf", "spaces": list(inner)} if isinstance(value, tuple) and len(value) == 2:
            yield joined(path, "choice"), FlatValue("array", np.array(value[0]))
            yield from _parts(value[1], inner[int(value[0])], joined(path, int(value[0])))
        case {"type": "Sequence", "feature": dict(feature)} if isinstance(value, tuple | list | np.ndarray | Mapping):
            yield from _sequence(value, feature, path)
        case {"type": "Graph"} if hasattr(value, "nodes"):
            for name in ("nodes", "edges", "edge_links"):
                if getattr(value, name) is not None:
                    yield joined(path, name), FlatValue("list", np.array(getattr(value, name)))
        case _:
            yield from _by_value(value, path, is_number=space is not None and space["type"] in NUMBER_SPACES)


def _sequence(value: Any, feature: Space, path: str) -> Iterator[tuple[str, FlatValue]]:
    """The items of a Sequence: a tuple of them, or stacked as their space does it."""
    match feature:
        case {"type": "Text"} if isinstance(value, tuple | list):
            yield path, FlatValue("texts", list(map(str, value)))
        case {"type": str(kind)} if kind in NUMBER_SPACES and not isinstance(value, Mapping):
            dtype, shape = number_form(feature)
            yield path, FlatValue("list", np.array(value) if len(value) else np.zeros((0, *shape), dtype))
        case {"type": "Dict", "spaces": list(inner)}:
            for key, one in inner:
                items = value[key] if isinstance(value, Mapping) else [item[key] for item in value]
                yield from _sequence(items, one, joined(path, key))
        case {"type": "Tuple", "spaces": list(inner)} if not isinstance(value, np.ndarray):
            is_stacked = len(value) == len(inner) and all(isinstance(item, np.ndarray | Mapping) for item in value)
            for index, one in enumerate(inner):
                items = value[index] if is_stacked else [item[index] for item in value]
                yield from _sequence(items, one, joined(path, index))
        case _:
            yield path, FlatValue("json", json_text(value))


def _by_value(value: Any, path: str, *, is_number: bool = False) -> Iterator[tuple[str, FlatValue]]:
    if isinstance(value, str):
        yield path, FlatValue("text", str(value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _by_value(item, joined(path, key))
    elif isinstance(value, tuple) and not is_number:
        names = getattr(value, "_fields", range(len(value)))
        for name, item in zip(names, value, strict=True):
            yield from _by_value(item, joined(path, name))
    elif value is not None:
        yield from _numbers(value, path)


def _numbers(value: Any, path: str) -> Iterator[tuple[str, FlatValue]]:
    try:
        array = np.array(value)
    except ValueError:  # A list of lists of different lengths.
        array = np.array(None)
    if array.dtype.kind in _NUMBERS and array.dtype.itemsize <= 8:
        yield path, FlatValue("array", array.astype(array.dtype.newbyteorder("<"), copy=False))
    elif array.dtype.kind == "c" and array.dtype.itemsize <= 16:
        yield joined(path, "real"), FlatValue("array", array.real.copy())
        yield joined(path, "imag"), FlatValue("array", array.imag.copy())
    elif array.dtype.kind == "U" and array.ndim == 1:
        yield path, FlatValue("texts", array.tolist())
    else:
        yield path, FlatValue("json", json_text(value))


def number_form(space: Space) -> tuple[str, tuple[int, ...]]:
    """The dtype and shape of the values of one of NUMBER_SPACES."""
    if space["type"] == "MultiDiscrete":
        return space["dtype"], np.shape(space["nvec"])
    return space.get("dtype", "|i1"), tuple(space.get("shape", ()))


def json_text(value: Any) -> str:
    """Any value as JSON text; objects of other classes as Python prints them, without the addresses, which runs differ in."""
    text = json.dumps(to_json(value), ensure_ascii=False, default=repr)
    return _ADDRESS.sub("", text) if " at 0x" in text else text


def joined(path: str, key: Any) -> str:
    """The path of a part of a value."""
    return f"{path}.{key}" if path else str(key)


def unbatch(value: Any, space: Space | None, index: int) -> Any:
    """The part of a vector's value, of observations or actions, that belongs to one of its environments.

    space: of that environment. Arrays are views.
    """
    match space:
        case {"type": "Dict", "spaces": list(inner)} if isinstance(value, Mapping):
            return {key: unbatch(value[key], one, index) for key, one in inner if key in value}
        case {"type": "Tuple", "spaces": list(inner)} if isinstance(value, tuple) and len(value) == len(inner):
            return tuple(unbatch(item, one, index) for item, one in zip(value, inner, strict=True))
    return value[index]


def info_of(info: Mapping[str, Any], index: int, left_out: Sequence[str] = ()) -> dict[str, Any]:
    """The info of one environment of a vector, which has an array for each key and a mask of who has the key."""
    own: dict[str, Any] = {}
    for key, values in info.items():
        mask = info.get(f"_{key}")
        is_mask = key.startswith("_") and key[1:] in info
        if is_mask or key in left_out or (mask is not None and not mask[index]):
            continue
        if isinstance(values, Mapping):
            own[key] = info_of(values, index)
        else:
            own[key] = values[index] if isinstance(values, np.ndarray | list | tuple) else values
    return own
