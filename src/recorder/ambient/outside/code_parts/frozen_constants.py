"""The values of globals and of closures that are constants of machine code, and that a module no longer has when a recording begins.

A function that was called before, by a demo or a menu, was compiled with what the module had then. A replay compiles it again, with
what the module has by that time. Numba has no call that tells them: they are read from what it keeps of each function that it compiled
in this process. Where they are not as expected there, nothing is known of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from recorder.ambient.outside.code_parts.machine_code import NAME_CHARS_MAX, MachineCode, place_of
from recorder.ambient.outside.code_parts.places import Place
from recorder.ambient.outside.code_text import is_constant

KEY = "frozen"  # In the note on the outside world, in the end of a tape.
FROZEN_MAX = 32  # In a note.
UNKNOWN: Any = object()  # Compiled more than once, with different values.


@attrs.frozen
class FrozenConstant:
    """A value that a function was compiled with before the recording began, and that its module no longer had then.

    Attributes:
        function: its name, with its module.
        place: the file and the line of the function.
        name: that it takes the value of.
        value: it, as a literal; empty for one that is not a number: a text may be a secret.
        then: what the module had when the recording began, in the same way.
    """

    function: str
    place: str
    name: str
    value: str
    then: str

    @property
    def is_known(self) -> bool:
        """True if the value can be put in."""
        return isinstance(self.number, bool | int | float)

    @property
    def number(self) -> Any:
        """The value; None for one that is not known."""
        try:
            return ast.literal_eval(self.value)
        except (ValueError, SyntaxError):
            return None


def decode_frozen(plain: Any) -> FrozenConstant | None:
    """What attrs.astuple gives, as a list; None for anything else."""
    match plain:
        case [str(), str(), str(), str(), str()]:
            return FrozenConstant(*(one[:NAME_CHARS_MAX] for one in plain))
    return None


def frozen_before(places: Iterable[Place]) -> list[FrozenConstant]:
    """Those of the compiled functions at these places, now."""
    found = []
    for one in MachineCode(places).functions:
        for name, value in constants_of(one).items():
            present = current_value(one, name)
            if not are_same(value, present):
                label = f"{one.py_func.__module__}.{one.py_func.__qualname__}"
                found.append(FrozenConstant(label, place_of(one.py_func), name, _literal(value), _literal(present)))
    return found[:FROZEN_MAX]


def _literal(value: Any) -> str:
    return repr(value) if type(value) in (bool, int, float) else ""


def overloads_of(function: Any) -> list[Any]:
    """What numba keeps of each signature that it compiled."""
    overloads = getattr(function, "overloads", None)
    return list(overloads.values()) if isinstance(overloads, Mapping) else []


def names_taken(function: Any) -> Iterator[tuple[str, Any]]:
    """The names that a function was compiled with, and their values."""
    for one in overloads_of(function):
        blocks = getattr(getattr(one, "type_annotation", None), "blocks", None)  # A text for one from numba's files.
        for block in blocks.values() if isinstance(blocks, dict) else ():
            for statement in block.body:
                taken: Any = getattr(statement, "value", None)
                if type(taken).__name__ in ("Global", "FreeVar"):
                    yield taken.name, taken.value


def constants_of(function: Any) -> dict[str, Any]:
    """The plain values that it took as constants, each the same one in all of its signatures."""
    found: dict[str, Any] = {}
    for name, value in names_taken(function):
        # Of an array, what it held when it was compiled is not kept.
        if is_constant(value) or isinstance(value, np.generic):
            found[name] = value if are_same(found.get(name, value), value) else UNKNOWN
    return {name: value for name, value in found.items() if value is not UNKNOWN}


def current_value(function: Any, name: str) -> Any:
    """The value that a name of a function has now; UNKNOWN without one."""
    plain = function.py_func
    if name in plain.__code__.co_freevars:
        try:
            return plain.__closure__[plain.__code__.co_freevars.index(name)].cell_contents
        except ValueError:
            return UNKNOWN
    return plain.__globals__.get(name, UNKNOWN)


def are_same(one: Any, other: Any) -> bool:
    """Of one type and one value; a NaN is itself."""
    return type(one) is type(other) and (one is other or repr(one) == repr(other))
