"""Encode actions and resets as the inputs of a tick, so that a replay passes equal values of equal types.

A number, a text or an array is encoded as it is; a member of an enum of numbers or texts, such as IntEnum, as its value, in the
recorded run, too. Everything else is a map:
    {"<i8": 3}                    a NumPy number, by its dtype
    {"action": bytes}             any other action, as values.py writes it
    {"action": bytes, "begins": true, "ended": ...}   an action at which a new episode begins automatically
    {"reset": seed, ...}          a reset, of a vector also with a list of seeds; "options": as values.py writes them; "ended": the totals of the last episode
"""

from __future__ import annotations

import enum
import re
from typing import Any

import numpy as np

from sim.adapters.capture.values import DEPTH_MAX, NotPlainError, decode_value, encode_value

_AS_IS = frozenset((int, float, bool, str, bytes, type(None)))
_PLAIN: dict[type, Any] = {int: int.__int__, float: float.__float__, str: str.__str__}  # None asks the member's value.
_VALUES = tuple(_PLAIN)
_NUMBER = re.compile(r"[<|][biuf][1248]")


def encode_action(action: Any) -> Any:
    """An action as plain data. Raises TypeError if it cannot be recorded."""
    kind = type(action)
    if kind is np.int64:
        return {"<i8": int(action)}
    if kind in _AS_IS:
        return action
    if kind is np.ndarray and action.dtype.kind in "biuf" and action.dtype.isnative and action.flags.c_contiguous:
        # A replay has an array of its own: an environment that kept a row of a larger one would be captured with all of that,
        # and one that kept a read-only array with that flag.
        return action if action.base is None and action.flags.writeable else action.copy()
    if isinstance(action, np.generic) and _NUMBER.fullmatch(action.dtype.str):
        return {action.dtype.str: action.item()}
    if isinstance(action, enum.Enum) and isinstance(action, _VALUES):
        return encode_action(_without_enums(action))
    return {"action": _encoded(action, "the action")}


def encode_reset(seed: Any, options: Any, ended: dict[str, Any] | None) -> dict[str, Any]:
    """A reset as plain data. Raises TypeError if the options cannot be recorded."""
    several = isinstance(seed, list | tuple | np.ndarray)  # Of a vector, one for each of its environments.
    call: dict[str, Any] = {"reset": list(map(_plain_seed, seed)) if several else _plain_seed(seed)}
    if options is not None:
        call["options"] = _encoded(options, "options")
    if ended is not None:
        call["ended"] = ended
    return call


def _plain_seed(seed: Any) -> int | None:
    return seed if seed is None else int(seed)


def encode_own_reset(action: Any, ended: dict[str, Any] | None) -> dict[str, Any]:
    """An action at which the environment resets itself, as plain data. Raises TypeError if it cannot be recorded."""
    return {"action": _encoded(action, "the action"), "begins": True, "ended": ended}


def _encoded(value: Any, what: str) -> bytes:
    try:
        return encode_value(_without_enums(value))
    except NotPlainError as error:
        raise TypeError(f"{what} cannot be recorded: {error}") from None


def _without_enums(value: Any, made: dict[int, Any] | None = None, depth: int = 0) -> Any:
    """The value with members of enums of numbers and texts, and those in its containers, as these numbers and texts.

    made: what containers became so far, by their identities; one that leads to itself stays as it is.
    """
    if isinstance(value, enum.Enum) and isinstance(value, _VALUES):
        return next(plain(value) for base, plain in _PLAIN.items() if isinstance(value, base))
    kind = type(value)
    if kind not in (dict, list, tuple) or depth > DEPTH_MAX:
        return value
    made = {} if made is None else made
    if id(value) in made:
        return made[id(value)]
    made[id(value)] = value
    parts = [part for item in value.items() for part in item] if kind is dict else list(value)
    plain_parts = [_without_enums(one, made, depth + 1) for one in parts]
    if any(one is not before for one, before in zip(plain_parts, parts, strict=True)):
        pairs = zip(plain_parts[::2], plain_parts[1::2], strict=True) if kind is dict else None
        made[id(value)] = kind(plain_parts) if pairs is None else dict(pairs)
    return made[id(value)]


def passed_on(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a reset for the environment: without options, if none were given; it may have a default of its own."""
    return {name: value for name, value in arguments.items() if name != "options" or value is not None}


def decode_call(inputs: dict[str, Any]) -> tuple[str, Any]:
    """("step", action) or ("reset", keyword arguments). Raises ValueError for any other inputs."""
    if "reset" in inputs:
        options = inputs.get("options")
        return "reset", {"seed": inputs["reset"], "options": None if options is None else decode_value(options)}
    match inputs:
        case {"action": bytes(encoded)}:
            return "step", decode_value(encoded)
    [(dtype, number)] = inputs.items()
    if not _NUMBER.fullmatch(str(dtype)):
        raise ValueError("expected the inputs of an environment: an action or a reset")
    return "step", np.dtype(dtype).type(number)
