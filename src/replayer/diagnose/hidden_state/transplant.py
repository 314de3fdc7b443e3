"""Give a restored copy of a simulation what the live run kept outside of its state, so that its effect can be seen.

Values come from what was taken down of the live run at that moment, since it has gone on. The copy's own objects are
filled with them, so that whoever knows these goes on knowing them; what the copy lacks is made anew.
"""

from __future__ import annotations

import ast
import itertools
from collections import deque
from typing import Any

import numpy as np

from replayer.diagnose.hidden_state.ambient import ABSENT, INSTANCE, Ambient, Path, set_child
from replayer.diagnose.hidden_state.value_kinds import kind_of, put_content
from sim.kernel.state import State

_IN_PLACE = {"dict", "list", "set", "deque", "bytearray", "array", "generator", "bit generator", "random", "object"}


class Transplant:
    """From one ambient of the live run to one of a copy."""

    def __init__(self, live: Ambient, copy: Ambient, copy_state: State) -> None:
        self._live = live
        self._copy = copy
        self._state = copy_state
        self._made: dict[Path, Any] = {}

    def give(self, path: Path) -> None:
        """Let the copy have at path what the live run had."""
        live, copy = self._live, self._copy
        step = path[-1]
        if step[0] == "closure" and path in copy.objects:
            set_child(copy.objects[path], ("cell", ""), self._value((*path, ("cell", ""))))
            return
        there = copy.objects.get(path)
        mine = live.objects.get(live.aliases.get(path, path))
        if there is not None and type(there) is type(mine) and self._fill(path, there):
            return
        holder = copy.objects.get(path[:-1])
        if step[0] == "item" and not (
            isinstance(holder, list | deque) or (isinstance(holder, dict) and step[1] in holder)
        ):
            self.give(path[:-1])  # A tuple or a set cannot get back one of its items.
        elif holder is not None:
            set_child(holder, step, self._value(path) if self._has(path) else ABSENT)

    def join(self, first: Path, path: Path) -> None:
        """Let two names of the copy share memory as they do in the live run, or have memory of their own as there."""
        live, copy = self._live, self._copy
        holder = copy.objects.get(path[:-1])
        if holder is None:
            return
        base, one, other = live.objects.get(first), live.objects.get(path), copy.objects.get(first)
        if live.aliases.get(path) != first:
            self._made.pop(path, None)
            set_child(holder, path[-1], self._value(path))
        elif isinstance(base, np.ndarray) and isinstance(one, np.ndarray):
            if isinstance(other, np.ndarray) and other.flags.c_contiguous and other.nbytes == base.nbytes:
                offset = one.__array_interface__["data"][0] - base.__array_interface__["data"][0]
                memory = other.reshape(-1).view(np.uint8)
                joined = np.ndarray(one.shape, one.dtype, memory.data, offset, one.strides)
                set_child(holder, path[-1], joined)
        else:
            set_child(holder, path[-1], other)

    def _has(self, path: Path) -> bool:
        live = self._live
        return path in live.leaves or path in live.objects or path in live.aliases

    def _fill(self, path: Path, there: Any) -> bool:
        """Give an object of the copy the content that its counterpart had, in place; say whether that could be done."""
        kind = kind_of(type(there))
        real = self._live.aliases.get(path, path)
        if kind not in _IN_PLACE or real not in self._live.contents:
            return False
        self._made[real] = there
        return put_content(kind, there, self._content(real, kind))

    def _value(self, path: Path) -> Any:
        live = self._live
        real = live.aliases.get(path, path)
        if real in self._made:
            return self._made[real]
        if real not in live.objects:
            return live.leaves[real]
        original, there = live.objects[real], self._copy.objects.get(real)
        if real[0][0] != INSTANCE:
            return original  # Of the surroundings there is only one.
        if len(real) == 1 or isinstance(original, State):
            return there if there is not None else original
        leaf = live.leaves.get(real)
        kind = kind_of(type(original))
        if kind == "array" and isinstance(leaf, tuple) and leaf[0] == "view of the state":
            _, dtype, shape, strides, offset = leaf
            made: Any = np.ndarray(shape, dtype, self._state.arena.data, offset, strides)
        elif kind == "count":
            made = itertools.count(*ast.literal_eval(f"({str(leaf)[len('count(') : -1]},)"))
        elif kind == "tuple":
            made = type(original)(self._items(real, list(original))) if type(original) is tuple else original
        elif type(there) is type(original) and self._fill(real, there):
            return there  # Whoever else in the copy knows it goes on knowing it.
        elif kind in _IN_PLACE:
            return self._new(real, kind, original)
        elif kind == "opaque" and type(there) is type(original):
            made = there  # A body of a physics engine, say, that is of no use in another one's world.
        else:
            made = original  # Functions, files, what is written in C: nothing that could be made anew.
        self._made[real] = made
        return made

    def _new(self, path: Path, kind: str, original: Any) -> Any:
        """An object like the original, known before its content is made: it may hold itself."""
        if kind == "array":
            made: Any = np.empty_like(original)
        elif kind == "generator":
            made = np.random.Generator(type(original.bit_generator)())
        else:
            kind_: Any = type(original)
            made = kind_() if kind in ("bit generator", "random") else kind_.__new__(kind_)
        if kind == "deque":
            made.__init__([], original.maxlen)
        self._made[path] = made
        return made if put_content(kind, made, self._content(path, kind)) else original

    def _content(self, path: Path, kind: str) -> Any:
        """The kept content with all that is in it made anew."""
        _, content = self._live.contents[path]
        match kind:
            case "dict":
                pairs = zip(content, self._items(path, list(content.values()), list(content)), strict=True)
                return dict(pairs)
            case "object":
                names = list(content)
                return {
                    name: self._child((*path, ("attribute", name)), one)
                    for name, one in zip(names, content.values(), strict=True)
                }
            case "list" | "deque":
                return self._items(path, content)
            case "array" if content is not None and content.dtype.hasobject:
                filled = content.copy()
                filled.reshape(-1)[:] = self._items(path, content.reshape(-1).tolist())
                return filled
        return content

    def _items(self, path: Path, content: list[Any], keys: list[Any] | None = None) -> list[Any]:
        names = range(len(content)) if keys is None else keys
        return [
            self._child((*path, ("item", self._shown(name, index))), one)
            for index, (name, one) in enumerate(zip(names, content, strict=True))
        ]

    @staticmethod
    def _shown(key: Any, index: int) -> Any:
        return key if kind_of(type(key)) == "atom" else f"{type(key).__qualname__} no. {index}"

    def _child(self, path: Path, value: Any) -> Any:
        return self._value(path) if self._has(path) else value
