"""Recorded calls of plain objects as plain data for people: no class is needed, nothing of the user's is made or run.

The bytes are those of sim.adapters.capture.values and of sim.adapters.capture.arguments.object_values.
"""

from __future__ import annotations

import functools
from typing import Any

import msgpack

from sim.adapters.capture.graph.object_graph import graph_entries
from sim.adapters.capture.graph.values.trees import unpack
from sim.adapters.capture.values import decode_value, encode_value
from sim.adapters.object_view.graph_reader import GraphReader
from sim.adapters.object_view.shown_values import Word, last_name
from sim.adapters.object_view.value_text import shortened
from sim.kernel.schema import Schema
from sim.kernel.state import State

_OF_ENVIRONMENTS, _VALUES = ("action", "reset"), ("action", "options")  # See sim/adapters/gymnasium/inputs.py.
WIDTH = 200  # Characters of one value that is no list, dict or object.
_ERRORS = (ValueError, LookupError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)


def shown_inputs(inputs: Any) -> Any:
    """The inputs of a tick, with the arguments of calls, and actions and options of environments, as lists, dicts, texts and numbers; what cannot be shown as it is."""
    if type(inputs) is dict and not inputs.keys().isdisjoint(_OF_ENVIRONMENTS):
        return {key: _value(one) if key in _VALUES and type(one) is bytes else one for key, one in inputs.items()}
    if type(inputs) is not dict or not any(map(_is_method, inputs)):
        return inputs
    return {
        key: _shown(value) if type(value) is bytes and (key == "set" or _is_method(key)) else value
        for key, value in inputs.items()
    }


def _value(content: bytes) -> Any:
    """The value in the bytes of an action or of options; the bytes, if they are not those of a value."""
    try:
        tree = msgpack.unpackb(content, raw=False, strict_map_key=False)
        is_value = type(tree) is list and encode_value(decode_value(content)) == content
        return _Shown().value(tree) if is_value else content
    except _ERRORS:
        return content


def _is_method(key: Any) -> bool:
    return type(key) is str and key.endswith("()")


def _shown(content: bytes) -> Any:
    """The list in such bytes; the bytes, if there is none in them: inputs of a simulation of another kind may have any."""
    try:
        tree = msgpack.unpackb(content, raw=False, strict_map_key=False)
        return _Shown().value(tree) if type(tree) is list and tree[:1] == ["l"] else content
    except _ERRORS:
        return content


def shown_form(tree: Any) -> Any:
    """What is shown for the form of one value. Raises ValueError, LookupError, TypeError for a damaged one."""
    return _Shown().value(tree)


class _Shown:
    """One walk through a value. Objects that occur twice are shown twice, but not inside themselves."""

    def __init__(self) -> None:
        self._made: list[Any] = []

    def value(self, tree: Any) -> Any:
        """What stands for a value. Raises any of _ERRORS."""
        if type(tree) is not list:
            return tree
        match tree:
            case ["t" | "f", *items] | ["F", _, *items]:
                return [self.value(item) for item in items]
            case ["l" | "s", *items] | ["q" | "H", _, *items]:
                return self._list(items)
            case ["d" | "o" | "U", *pairs] | ["e", _, *pairs]:
                return self._dict([(self.value(key), item) for key, item in zip(pairs[::2], pairs[1::2], strict=True)])
            case ["r", int(number)] if 0 <= number < len(self._made):
                return self._made[number]
            case ["k", str(name)]:
                return name
            case ["P", *steps]:
                return "".join(self._step(*step) for step in steps).removeprefix(".") or "the recorded object"
            case ["N", str(name), *_]:
                return last_name(name)
            case ["T", str(name), *items]:
                return {last_name(name): [self.value(item) for item in items]}
            case ["O", str(name), list(names), *items]:
                whole: dict[str, Any] = {}
                self._made.append(f"the {last_name(name)} above")
                whole[last_name(name)] = {one: self.value(item) for one, item in zip(names, items, strict=True)}
                return whole
            case ["G", bytes(content)]:
                return _immutable(unpack(content))
        made = decode_value(msgpack.packb(tree, use_bin_type=True))  # Numbers, arrays, generators: no class is needed.
        if tree[0] in ("a", "v", "g", "b", "x"):
            self._made.append(made)
        return made if tree[0] != "g" else "a random generator"

    def _list(self, items: list[Any]) -> list[Any]:
        self._made.append("a list above")
        return [self.value(item) for item in items]

    def _dict(self, pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        self._made.append("a dict above")
        return {key if isinstance(key, str) else str(key): self.value(item) for key, item in pairs}

    def _step(self, kind: str, name: Any) -> str:
        shown = self.value(name)
        if kind == "n":
            return f".keys()[{shown!r}]"
        return f".{shown}" if kind in ("a", "b") else f"[{shown!r}]"


def _immutable(tree: Any) -> Any:
    value = _reader().of_tree(tree)
    return value if isinstance(value, str | int | float | bytes) else shortened(value, "", lambda *_: None, WIDTH)[0]


@functools.cache
def _reader() -> GraphReader:
    return GraphReader(State(Schema(*graph_entries())), Word)
