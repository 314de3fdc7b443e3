"""Look at attributes after each step by one function, made for these attributes: no loop, and no call for each of them.

A step of a small environment takes a few microseconds, a loop over its attributes as long again. The source of the
function only depends on the names of the attributes; objects and values are variables of it. For one layer it is:

    if type(holder0) is not class0 or holder0.__dict__ is not dict0 or len(dict0) != 3: return False
    if dict0['seed'] is not value0 or …: return False        # Watched: the same object as before.
    value = dict0['speed']                                   # A number: written if it is another object.
    if value is not value1:
        if type(value) is not kind1:
            if not write(1, value): return False
        else:
            memory_f[place1] = value
        value1 = value
    return True

It compares identities only: equal is not the same (-0.0, True, 1.0). The values of the step before are kept alive, so that
no identity is used twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import attrs

PLANS_MAX = 128  # Compiled functions that are kept; a change of the structure needs another one.


@attrs.frozen
class WatchedValue:
    """An attribute that is expected to stay the same object.

    Attributes:
        name: of the attribute.
        value: the object.
    """

    name: str
    value: Any


@attrs.frozen
class NumberValue:
    """An attribute that is a number, written to a place of a memory when it is another object.

    Attributes:
        name: of the attribute.
        value: the object.
        letter: of the memory, "i" or "f".
        place: the index in the memory.
        kind: the type of numbers that are written as they are; any other type is left to the caller's function.
    """

    name: str
    value: Any
    letter: str
    place: int
    kind: Any


@attrs.frozen
class LayerPlan:
    """What is looked at in one layer.

    Attributes:
        holder: the object.
        watched, numbers: its attributes.
    """

    holder: Any
    watched: Sequence[WatchedValue]
    numbers: Sequence[NumberValue]


class StepPlan:
    """A function that looks at all layers, and its variables.

    Attributes:
        look: returns True if all is written; False if something else is to be done, with some numbers unwritten. Raises
            KeyError for an attribute that was removed, ValueError for a number that does not fit.
    """

    def __init__(
        self, layers: Sequence[LayerPlan], memories: dict[str, Any], write: Callable[[int, Any], bool]
    ) -> None:
        """memories: by their letters. write: takes the number of a number's variable, and a value of another type."""
        shape = tuple(
            (tuple(one.name for one in layer.watched), tuple((one.name, one.letter) for one in layer.numbers))
            for layer in layers
        )
        variables = [*memories.values(), write]
        for layer in layers:
            variables += [layer.holder, type(layer.holder), vars(layer.holder)]
            variables += [one.value for one in layer.watched]
            for number in layer.numbers:
                variables += [number.value, number.kind, number.place]
        sizes = tuple(len(vars(layer.holder)) for layer in layers)
        self.look: Callable[[], bool] = _maker(shape, sizes, "".join(memories))(*variables)
        self._cells = dict(zip(self.look.__code__.co_freevars, self.look.__closure__ or (), strict=True))

    def value(self, number: int) -> Any:
        """The value of a variable, by its number in the order of the layers, the watched ones of a layer first."""
        return self._cells[f"value{number}"].cell_contents

    def set_value(self, number: int, value: Any) -> None:
        """Have look expect another object."""
        self._cells[f"value{number}"].cell_contents = value

    def set_kind(self, number: int, kind: Any) -> None:
        """Have look write numbers of another type as they are."""
        self._cells[f"kind{number}"].cell_contents = kind


@functools.lru_cache(maxsize=PLANS_MAX)
def _maker(shape: tuple[Any, ...], sizes: tuple[int, ...], letters: str) -> Callable[..., Callable[[], bool]]:
    """A function that takes the variables and returns a function that looks at attributes of these names."""
    parameters = [*(f"memory_{letter}" for letter in letters), "write"]
    moving: list[str] = []
    lines: list[str] = []
    number = 0
    for layer, ((watched, numbers), size) in enumerate(zip(shape, sizes, strict=True)):
        held = f"dict{layer}"
        parameters += [f"holder{layer}", f"class{layer}", held]
        conditions = [
            f"type(holder{layer}) is not class{layer}",
            f"holder{layer}.__dict__ is not {held}",
            f"len({held}) != {size}",
        ]
        for name in watched:
            conditions.append(f"{held}[{str.__repr__(name)}] is not value{number}")
            parameters.append(f"value{number}")
            number += 1
        lines += [f"if {' or '.join(conditions)}:", "    return False"]
        for name, letter in numbers:
            value, kind, place = f"value{number}", f"kind{number}", f"place{number}"
            lines += [
                f"value = {held}[{str.__repr__(name)}]",
                f"if value is not {value}:",
                f"    if type(value) is {kind}:",
                f"        memory_{letter}[{place}] = value",
                f"    elif not write({number}, value):",
                "        return False",
                f"    {value} = value",
            ]
            parameters += [value, kind, place]
            moving.append(value)
            number += 1
    body = [*([f"nonlocal {', '.join(moving)}"] if moving else []), *lines, "return True"]
    source = "\n".join(
        [f"def make({', '.join(parameters)}):", " def look():", *(f"  {one}" for one in body), " return look"]
    )
    made: dict[str, Any] = {}
    # The names stand in the source as literals only, whatever characters they have.
    exec(compile(source, f"<plan of {number} attributes>", "exec"), {"__builtins__": {"type": type, "len": len}}, made)  # noqa: S102
    make: Callable[..., Callable[[], bool]] = made["make"]
    return make
