"""Write attributes after each step by one function, made for these attributes: no loop, and no call for each of them.

A step of a small environment takes a few microseconds, a loop over its attributes as long again. The source of the
function only depends on the names of the attributes; objects and values are variables of it. For one layer it is:

    if now0_0 != was0_0 or now0_1 != was0_1 or …:            # Quiet: most attributes, by the memory of the dict.
        if not look_closely(0, steps): return False          # One by one.
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

Which attributes are quiet is found out: all are expected to be, at first. Those that prove not to be have lines of their own
in the next plan, which is made once there were many close looks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.plan.quiet_attributes import QuietAttribute, QuietAttributes
from sim.kernel.memory.made_code import note_made

SELDOM = 32  # An attribute that is another object more often than once in so many steps is not quiet.
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
        moving: the names of attributes that are no quiet ones.
    """

    holder: Any
    watched: Sequence[WatchedValue]
    numbers: Sequence[NumberValue]
    arrays: Sequence[ArrayValue] = ()
    moving: Collection[str] = ()


@attrs.frozen(eq=False)
class PlannedMemory:
    """Where a plan writes to, besides the numbers.

    Attributes:
        memory: of the arena, as bytes.
        hot: what is written at once.
        parts: what is joined for it.
        steps_place: the index of the count of steps in the memory "i".
        seeds: seed sequences, each with the index of the part for the number of its children.
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
        is_worn: True if another plan should be made, since too many close looks are needed with this one.
    """

    def __init__(
        self,
        layers: Sequence[LayerPlan],
        memories: dict[str, Any],
        to: PlannedMemory,
        write: Callable[[int, Any], bool],
        is_like: Callable[[int, Any], bool],
        others: Callable[[], bool] | None,
        close_looks_max: int,
    ) -> None:
        """memories: by their letters; one is "i".

        write: takes the number of a number's variable, and a value of another type. is_like: takes the number of an
        array's variable, and another array; may the one replace the other? others: writes what is not planned here.
        close_looks_max: until the plan is worn.
        """
        variables = [*memories.values(), to.memory, to.hot, to.parts, b"".join, to.steps_place]
        variables += [write, is_like, others, np.ndarray, self._look_closely]
        shape = []
        self._write, self._quiet, self._by_number = write, list[QuietAttributes](), dict[int, QuietAttribute]()
        first = 0
        for layer in layers:
            attributes = vars(layer.holder)
            moving = {*layer.moving, *(one.name for one in layer.arrays)}
            quiet = QuietAttributes(layer.holder, list(_quiet_of(layer, first)), moving)
            self._quiet.append(quiet)
            self._by_number |= {one.number: one for one in quiet.listed}
            variables += [layer.holder, type(layer.holder), attributes, *[None] * (2 * quiet.pair_count)]
            watched, numbers, arrays = [], [], []
            for number, one in enumerate(_all_of(layer), first):
                if isinstance(one, ArrayValue):
                    value = one.value
                    arrays.append((number, one.name, one.is_lone))
                    own_flags = np.empty(value.shape, value.dtype).flags.num
                    variables += [value, value.dtype, value.shape, own_flags, one.part]
                elif number not in self._by_number:
                    variables.append(one.value)
                    if isinstance(one, NumberValue):
                        numbers.append((number, one.name, one.letter))
                        variables += [one.kind, one.place]
                    else:
                        watched.append((number, one.name))
            first += len(layer.watched) + len(layer.numbers) + len(layer.arrays)
            shape.append((quiet.pair_count, len(attributes), tuple(watched), tuple(numbers), tuple(arrays)))
        for seeds, part in to.seeds:
            variables += [seeds, part, None]
        made = _maker(tuple(shape), "".join(memories), len(to.seeds), int(others is not None))
        self.look: Callable[[int], bool] = made(*variables)
        self._cells = dict(zip(self.look.__code__.co_freevars, self.look.__closure__ or (), strict=True))
        self.is_worn, self._close_looks, self._close_looks_max = False, 0, close_looks_max
        self._begun_at: int | None = None
        for number in range(len(layers)):
            self._watch(number)

    def end(self) -> None:
        """Keep nothing alive any more: the plan and its function refer to each other."""
        vars(self).clear()

    def moved(self) -> Iterator[tuple[int, str]]:
        """The layers, by number, and names of the quiet attributes that were other objects too often."""
        least = max(2, (self._looked_at - (self._begun_at or 0)) // SELDOM)
        return ((layer, name) for layer, quiet in enumerate(self._quiet) for name in quiet.moved(least))

    def _look_closely(self, layer: int, steps: int) -> bool:
        """Look at the quiet attributes of a layer. Return False if a step plan cannot do it, or another one does it better."""
        if not self._quiet[layer].look(self._write):
            return False
        self._watch(layer)
        if self._begun_at is None:
            self._begun_at = steps
        self._looked_at, self._close_looks = steps, self._close_looks + 1
        self.is_worn = self._close_looks > self._close_looks_max
        return not self.is_worn

    def _watch(self, layer: int) -> None:
        for number, (now, was) in enumerate(self._quiet[layer].watch()):
            self._cells[f"now{layer}_{number}"].cell_contents = now
            self._cells[f"was{layer}_{number}"].cell_contents = was

    def value(self, number: int) -> Any:
        """The value of a variable, by its number in the order of the layers, the watched ones of a layer first."""
        quiet = self._by_number.get(number)
        return self._cells[f"value{number}"].cell_contents if quiet is None else quiet.value

    def set_value(self, number: int, value: Any) -> None:
        """Have look expect another object."""
        quiet = self._by_number.get(number)
        if quiet is None:
            self._cells[f"value{number}"].cell_contents = value
        elif value is not quiet.value:
            quiet.value = value
            quiet.moves += 1

    def set_holder(self, layer: int, holder: Any) -> None:
        """Have look read the attributes of another object of the same class, for the layer of this number."""
        for name, one in (("holder", holder), ("dict", vars(holder))):
            cell = self._cells.get(f"{name}{layer}")  # Not all are used where attributes are watched.
            if cell is not None:
                cell.cell_contents = one
        self._quiet[layer].move_to(holder)
        self._watch(layer)

    def set_kind(self, number: int, kind: Any) -> None:
        """Have look write numbers of another type as they are."""
        if number not in self._by_number:
            self._cells[f"kind{number}"].cell_contents = kind


def _all_of(layer: LayerPlan) -> tuple[WatchedValue | NumberValue | ArrayValue, ...]:
    return (*layer.watched, *layer.numbers, *layer.arrays)


def _quiet_of(layer: LayerPlan, first: int) -> Iterator[QuietAttribute]:
    """The quiet attributes of a layer. first: the number of its first variable."""
    for number, one in enumerate(_all_of(layer), first):
        if not isinstance(one, ArrayValue) and one.name not in layer.moving:
            yield QuietAttribute(number, one.name, one.value, isinstance(one, NumberValue))


@functools.lru_cache(maxsize=PLANS_MAX)
def _maker(
    shape: tuple[Any, ...], letters: str, seed_count: int, other_count: int
) -> Callable[..., Callable[[int], bool]]:
    """A function that takes the variables and returns a function that looks at attributes of these names."""
    note_made(_maker, (shape, letters, seed_count, other_count))
    parameters = [*(f"memory_{letter}" for letter in letters), "memory", "hot", "parts", "join", "steps_place"]
    parameters += ["write", "is_like", "others", "ndarray", "look_closely"]
    moving: list[str] = []
    lines: list[str] = []
    for layer, (pair_count, size, watched, numbers, arrays) in enumerate(shape):
        held = f"dict{layer}"
        parameters += [f"holder{layer}", f"class{layer}", held]
        conditions = [f"type(holder{layer}) is not class{layer}", f"holder{layer}.__dict__ is not {held}"]
        conditions.append(f"len({held}) != {size}")
        if pair_count:
            pairs = [(f"now{layer}_{one}", f"was{layer}_{one}") for one in range(pair_count)]
            parameters += [name for pair in pairs for name in pair]
            # The comparisons follow each other: see watched_items.py.
            lines.append(f"if {' or '.join(f'{now} != {was}' for now, was in pairs)}:")
            lines += [f"    if not look_closely({layer}, steps):", "        return False"]
            conditions = []
        conditions += [f"{held}[{str.__repr__(name)}] is not value{number}" for number, name in watched]
        parameters += [f"value{number}" for number, _ in watched]
        if conditions:
            lines += [f"if {' or '.join(conditions)}:", "    return False"]
        for number, name, letter in numbers:
            lines += _number_lines(f"{held}[{str.__repr__(name)}]", number, letter)
            parameters += [f"value{number}", f"kind{number}", f"place{number}"]
            moving.append(f"value{number}")
        for number, name, is_lone in arrays:
            lines += _array_lines(f"{held}[{str.__repr__(name)}]", number, is_lone=is_lone)
            parameters += [f"{what}{number}" for what in ("value", "dtype", "shape", "flags", "part")]
            moving.append(f"value{number}")
    if other_count:
        lines += ["if not others():", "    return False"]
    for one in range(seed_count):
        lines += [f"value = seeds{one}.n_children_spawned", f"if value is not spawned{one}:"]
        lines.append(f"    parts[seeds_part{one}], spawned{one} = value.to_bytes(8, 'little'), value")
        parameters += [f"seeds{one}", f"seeds_part{one}", f"spawned{one}"]
        moving.append(f"spawned{one}")
    lines += ["memory_i[steps_place] = steps", "memory[hot] = join(parts)"]
    body = [*([f"nonlocal {', '.join(moving)}"] if moving else []), *lines, "return True"]
    source = "\n".join(
        [f"def make({', '.join(parameters)}):", " def look(steps):", *(f"  {one}" for one in body), " return look"]
    )
    made: dict[str, Any] = {}
    # The names stand in the source as literals only, whatever characters they have.
    exec(compile(source, f"<plan of {len(shape)} layers>", "exec"), {"__builtins__": {"type": type, "len": len}}, made)  # noqa: S102
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
    other = f"type(value) is not ndarray or {unlike} or value.flags.num != flags{number}"
    return [
        f"value = {value}",
        f"if value is not value{number}:",
        f"    if ({other if is_lone else True}) and not is_like({number}, value):",
        "        return False",
        f"    parts[part{number}] = value{number} = value",
        f"elif {unlike} or not value.flags.writeable:",
        "    return False",
    ]
