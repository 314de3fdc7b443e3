"""Write attributes after each step by one function, made for these attributes: no loop, and no call for each of them.

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
    value = dict0['position']                                # A small array, of which the next line joins the memory.
    …
    memory_i[place] = steps
    memory[hot] = join(parts)
    return True

It compares identities only: equal is not the same (-0.0, True, 1.0). The values of the step before are kept alive, so that
no identity is used twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from sim.kernel.memory.made_code import note_made

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


@attrs.frozen(eq=False)
class ArrayValue:
    """An attribute that is a small array: a part of the memory that is written at once.

    Attributes:
        name: of the attribute.
        value: the array.
        part: the index among the parts.
        is_lone: True if no other attribute can be the same array.
    """

    name: str
    value: np.ndarray[Any, Any]
    part: int
    is_lone: bool


@attrs.frozen
class LayerPlan:
    """What is looked at in one layer.

    Attributes:
        holder: the object.
        watched, numbers, arrays: its attributes.
    """

    holder: Any
    watched: Sequence[WatchedValue]
    numbers: Sequence[NumberValue]
    arrays: Sequence[ArrayValue] = ()


@attrs.frozen(eq=False)
class PlannedMemory:
    """Where a plan writes to, besides the numbers.

    Attributes:
        memory: of the arena, as bytes.
        hot: what is written at once.
        parts: what is joined for it.
        steps_place: the index of the count of steps in the memory "i".
        seeds: seed sequences, each with the index of the number of its children in the memory "i".
    """

    memory: memoryview
    hot: slice
    parts: list[Any]
    steps_place: int
    seeds: Sequence[tuple[Any, int]]


class StepPlan:
    """A function that looks at all layers, and its variables.

    Attributes:
        look: takes the count of steps. Returns True if all is written; False if something else is to be done, with some
            of it unwritten. Raises KeyError for an attribute that was removed, ValueError for what does not fit.
    """

    def __init__(
        self,
        layers: Sequence[LayerPlan],
        memories: dict[str, Any],
        to: PlannedMemory,
        write: Callable[[int, Any], bool],
        is_like: Callable[[int, Any], bool],
        others: Callable[[], bool] | None,
    ) -> None:
        """memories: by their letters; one is "i".

        write: takes the number of a number's variable, and a value of another type. is_like: takes the number of an
        array's variable, and another array; may the one replace the other? others: writes what is not planned here.
        """
        shape = tuple(
            (
                tuple(one.name for one in layer.watched),
                tuple((one.name, one.letter) for one in layer.numbers),
                tuple((one.name, one.is_lone) for one in layer.arrays),
            )
            for layer in layers
        )
        variables = [*memories.values(), to.memory, to.hot, to.parts, b"".join, to.steps_place]
        variables += [write, is_like, others, np.ndarray]
        for layer in layers:
            variables += [layer.holder, type(layer.holder), vars(layer.holder)]
            variables += [one.value for one in layer.watched]
            for number in layer.numbers:
                variables += [number.value, number.kind, number.place]
            for array in layer.arrays:
                variables += [array.value, array.value.dtype, array.value.shape, array.part]
        for seeds, place in to.seeds:
            variables += [seeds, place]
        sizes = tuple(len(vars(layer.holder)) for layer in layers)
        made = _maker(shape, sizes, "".join(memories), len(to.seeds), int(others is not None))
        self.look: Callable[[int], bool] = made(*variables)
        self._cells = dict(zip(self.look.__code__.co_freevars, self.look.__closure__ or (), strict=True))

    def value(self, number: int) -> Any:
        """The value of a variable, by its number in the order of the layers, the watched ones of a layer first."""
        return self._cells[f"value{number}"].cell_contents

    def set_value(self, number: int, value: Any) -> None:
        """Have look expect another object."""
        self._cells[f"value{number}"].cell_contents = value

    def set_holder(self, layer: int, holder: Any) -> None:
        """Have look read the attributes of another object of the same class, for the layer of this number."""
        self._cells[f"holder{layer}"].cell_contents = holder
        self._cells[f"dict{layer}"].cell_contents = vars(holder)

    def set_kind(self, number: int, kind: Any) -> None:
        """Have look write numbers of another type as they are."""
        self._cells[f"kind{number}"].cell_contents = kind


@functools.lru_cache(maxsize=PLANS_MAX)
def _maker(
    shape: tuple[Any, ...], sizes: tuple[int, ...], letters: str, seed_count: int, other_count: int
) -> Callable[..., Callable[[int], bool]]:
    """A function that takes the variables and returns a function that looks at attributes of these names."""
    note_made(_maker, (shape, sizes, letters, seed_count, other_count))
    parameters = [*(f"memory_{letter}" for letter in letters), "memory", "hot", "parts", "join", "steps_place"]
    parameters += ["write", "is_like", "others", "ndarray"]
    moving: list[str] = []
    lines: list[str] = []
    number = 0
    for layer, ((watched, numbers, arrays), size) in enumerate(zip(shape, sizes, strict=True)):
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
            lines += _number_lines(f"{held}[{str.__repr__(name)}]", number, letter)
            parameters += [f"value{number}", f"kind{number}", f"place{number}"]
            moving.append(f"value{number}")
            number += 1
        for name, is_lone in arrays:
            lines += _array_lines(f"{held}[{str.__repr__(name)}]", number, is_lone=is_lone)
            parameters += [f"value{number}", f"dtype{number}", f"shape{number}", f"part{number}"]
            moving.append(f"value{number}")
            number += 1
    if other_count:
        lines += ["if not others():", "    return False"]
    lines += ["memory_i[steps_place] = steps", "memory[hot] = join(parts)"]
    for one in range(seed_count):
        parameters += [f"seeds{one}", f"seeds_place{one}"]
        lines.append(f"memory_i[seeds_place{one}] = seeds{one}.n_children_spawned")
    body = [*([f"nonlocal {', '.join(moving)}"] if moving else []), *lines, "return True"]
    source = "\n".join(
        [f"def make({', '.join(parameters)}):", " def look(steps):", *(f"  {one}" for one in body), " return look"]
    )
    made: dict[str, Any] = {}
    # The names stand in the source as literals only, whatever characters they have.
    exec(compile(source, f"<plan of {number} attributes>", "exec"), {"__builtins__": {"type": type, "len": len}}, made)  # noqa: S102
    make: Callable[..., Callable[[int], bool]] = made["make"]
    return make


def _number_lines(value: str, number: int, letter: str) -> list[str]:
    return [
        f"value = {value}",
        f"if value is not value{number}:",
        f"    if type(value) is kind{number}:",
        f"        memory_{letter}[place{number}] = value",
        f"    elif not write({number}, value):",
        "        return False",
        f"    value{number} = value",
    ]


def _array_lines(value: str, number: int, *, is_lone: bool) -> list[str]:
    """NumPy lets the shape, the type and the flags of an array be set: they are compared for the same array, too."""
    unlike = f"value.dtype is not dtype{number} or value.shape != shape{number}"
    # An array that owns its memory, is writable and in C order replaces another one; any other is looked at in detail.
    other = f"type(value) is not ndarray or {unlike} or value.base is not None or not value.flags.carray"
    return [
        f"value = {value}",
        f"if value is not value{number}:",
        f"    if ({other if is_lone else True}) and not is_like({number}, value):",
        "        return False",
        f"    parts[part{number}] = value{number} = value",
        f"elif {unlike} or not value.flags.writeable:",
        "    return False",
    ]
