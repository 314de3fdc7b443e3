"""What the attributes of some objects are, so that each is saved where it is cheapest: the plan of a captured state.

A structure is part of the state that it describes (the blob ``structure``), so that what was learned on the way, such
as that an attribute is now a number and now None, is there again after a load. Each attribute is one of:

    cell       a number or truth value, or now and then None: a field of one number, its type in the field ``kinds``
    array      numbers, C order, memory of its own: a field
    generator  np.random.Generator over PCG64: a field of six words
    rest       any other value that values.py writes: in the blob ``rest``, all together, so that what is shared stays so
    constant   a large container that is taken not to change (looked at now and then): in the blob ``constants``
    object     an instance of a class with attributes of its own: a layer of its own, loaded in place
    trusted    saved by pickle, since the user said trust=True: in the blob ``trusted``
    member     one of an enumeration: its name, in the blob ``rest``
    same       an object that is captured already, under the name that the detail says
    fixed      functions, classes, modules: left as they were made, and watched, since another one would not be saved
    kept       left as it was made: configuration, rendering
    drawing    kept, and watched: None up to now, and by its name what will be drawn with; it may become something else
    clock      kept, too: a time of the day
    unknown    nobody knows
"""

from __future__ import annotations

import enum
import math
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from sim.adapters.capture.rng_state import is_pcg
from sim.adapters.capture.values import NotPlainError, encode_value
from sim.kernel.class_names import module_of

Category = Literal[
    "cell", "array", "generator", "rest", "constant", "member", "object", "same", "trusted", "fixed", "kept", "drawing", "clock",
    "unknown",
]  # fmt: skip
Said = Literal["kept", "clock", "drawing", "open"]
Classify = Callable[[object, str, Any], Said | None]

CONSTANT_ELEMENTS = 200  # A container with more elements than this is not written anew at each step.
LAYERS_MAX = 200  # Objects in objects; more of them are a graph, for which there is pickle.
HOLDERS_OF_A_LONE_BASE = 3  # The view, the variable here, and the call that counts.
TEXT_KINDS = "SU"  # Texts of fixed length: their fields are bytes, with one axis more.
_FOR_GOOD = ("unknown", "trusted")
# The type of a cell's value, by its number in ``kinds``. Appended to, never changed: tapes hold these numbers.
KINDS: tuple[Any, ...] = (
    type(None), bool, int, float, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
    np.float16, np.float32, np.float64,
)  # fmt: skip
KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_FLOATS = frozenset((float, np.float16, np.float32, np.float64))
_FIXED_TYPES = (
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, np.dtype, range, slice, re.Pattern,
)  # fmt: skip
NEVER_SET = "none"  # What has been None up to now may yet become a number.
_NAME_CHARS = re.compile(r"[^A-Za-z0-9_.-]")


@attrs.frozen
class Attribute:
    """One attribute of a layer.

    Attributes:
        name: of the attribute.
        category: see above.
        detail: of a cell "i" or "f"; of the rest "none" for what has never been set; of an array [dtype, shape]; of an object its class; of what is unknown its type.
    """

    name: str
    category: Category
    detail: Any = None


@attrs.frozen
class Layer:
    """One object whose attributes are captured.

    Attributes:
        name: in front of the names of its fields.
        attributes: in the order of their names.
    """

    name: str
    attributes: tuple[Attribute, ...]

    def to_plain(self) -> list[Any]:
        """As it is written into the state: without what is kept, which differs where something was drawn."""
        listed = [one for one in self.attributes if one.category not in ("kept", "clock", "drawing")]
        return [self.name, [[one.name, one.category, one.detail] for one in listed]]


@attrs.frozen
class Structure:
    """The layers of a simulation, outermost first."""

    layers: tuple[Layer, ...]

    def encode(self) -> bytes:
        """As bytes, equal for equal structures."""
        return encode_value([layer.to_plain() for layer in self.layers])

    def category_of(self) -> dict[tuple[str, str], Attribute]:
        """Each attribute by the names of its layer and its own."""
        return {(layer.name, one.name): one for layer in self.layers for one in layer.attributes}


def structure_from_plain(plain: Any) -> Structure:
    """The structure that to_plain gave. Raises ValueError for anything else."""
    try:
        return Structure(
            tuple(
                Layer(name, tuple(Attribute(one, category, detail) for one, category, detail in attributes))
                for name, attributes in plain
            )
        )
    except (TypeError, ValueError):
        raise ValueError("no structure of a captured state") from None


def field_name(layer: str, attribute: str) -> str:
    """The name of an attribute's field, in the letters that a field's name may have."""
    return _NAME_CHARS.sub("_", f"{layer}.{attribute}")[:150]


def type_name(value: Any) -> str:
    """How a user would call the type of value."""
    return f"{module_of(type(value))}.{type(value).__qualname__}".removeprefix("builtins.").removeprefix(".")


def described(value: Any) -> str:
    """Its type; of what would be saved but for something inside of it, where that is and what."""
    try:
        encode_value(value)
    except NotPlainError as error:
        inside = error.path.removeprefix("value")
        if inside and error.value is not value:
            place = inside if inside.startswith("[") else error.path.replace(" of value", " of it")
            return f"{type_name(value)}, where {place} is {type_name(error.value)}"
    return type_name(value)


def is_quick_array(value: Any) -> bool:
    """Whether it is an array that is copied into a field as it is: numbers, C order, memory of its own."""
    if type(value) is not np.ndarray or not value.flags.c_contiguous or value.ndim > 8 or not has_own_memory(value):
        return False
    dtype = value.dtype
    if dtype.kind in TEXT_KINDS:
        return dtype.isnative and dtype.itemsize > 0 and value.ndim < 8
    return dtype.kind in "biufc" and dtype.isnative and dtype.itemsize <= (16 if dtype.kind == "c" else 8)


def has_own_memory(array: np.ndarray[Any, Any]) -> bool:
    """Whether nobody else can see the memory of an array: it is its own, or that of one whom nobody else holds."""
    base = array.base
    if base is None:
        return True
    return type(base) is np.ndarray and base.base is None and sys.getrefcount(base) <= HOLDERS_OF_A_LONE_BASE


def cell_of(value: Any) -> str | None:
    """The letter of the cell that can hold value; None if none can."""
    kind = type(value)
    if kind not in KIND_NUMBERS or kind is type(None):
        return None
    if kind in _FLOATS:
        return "f"
    return "i" if kind is not int or -(1 << 63) <= value < 1 << 63 else None


class Surveyor:
    """Looks at objects and says what their attributes are."""

    def __init__(
        self, classify: Classify, *, trust: bool, ignored: frozenset[str], detached: frozenset[str], opens_objects: bool
    ) -> None:
        """What is known beforehand.

        classify: what an adapter knows of an attribute, from the object, its name and its value; "open" says that the
        attributes of the value are to be looked at, too. ignored: full names that are kept at the user's word.
        detached: layers whose arrays count as copies. opens_objects: look into objects of other classes.
        """
        self._detached = detached
        self._opens_objects = opens_objects
        self._classify = classify
        self._trust = trust
        self._ignored = ignored

    def survey(self, layers: Sequence[tuple[str, Any]], before: Structure | None) -> tuple[Structure, dict[str, Any]]:
        """The structure of these objects and of those inside of them, and all of these objects by name.

        before: the structure until now, from which is kept what was learned.
        """
        known = before.category_of() if before is not None else {}
        found: list[Layer] = []
        objects: dict[str, Any] = {}
        waiting = list(layers)
        seen: dict[int, str] = {id(one): name for name, one in layers}
        taken: set[int] = set()  # Arrays and generators that have a field: what is met again goes to the rest.
        while waiting:
            name, one = waiting.pop(0)
            objects[name] = one
            attributes = []
            mine = set() if name in self._detached else taken
            for attribute, value in sorted(vars(one).items()):
                full = f"{name}.{attribute}"
                category, detail = self._category(one, full, attribute, value, known.get((name, attribute)), mine)
                if category == "object":
                    if id(value) in seen and seen[id(value)] != full:
                        category, detail = "same", seen[id(value)]  # Captured already, under its first name.
                    elif len(seen) < LAYERS_MAX:
                        seen[id(value)] = full
                        waiting.append((full, value))
                    else:
                        category, detail = self._last_resort(value)
                attributes.append(Attribute(attribute, category, detail))
            found.append(Layer(name, tuple(attributes)))
        return Structure(tuple(found)), objects

    def category(self, one: Any, full: str, value: Any) -> Category:
        """What an attribute of an object would be that was not there before."""
        return self._category(one, full, full.rpartition(".")[2], value, None, set())[0]

    def _category(
        self, one: Any, full: str, attribute: str, value: Any, before: Attribute | None, taken: set[int]
    ) -> tuple[Category, Any]:
        was = before.category if before is not None else None
        said = self._classify(one, attribute, value)
        if said in ("kept", "clock", "drawing"):
            return said, None
        if full in self._ignored:
            return "kept", None
        if before is not None and (was in _FOR_GOOD or (was == "rest" and before.detail != NEVER_SET)):
            return self._as_before(before, value)
        letter = cell_of(value)
        if was == "cell" and before is not None:
            if value is None or letter == before.detail:
                return "cell", before.detail
            if letter is not None or isinstance(value, int):
                return "rest", None
        if letter is not None:
            return "cell", letter
        if id(value) not in taken and (is_quick_array(value) or is_pcg(value)):
            taken.add(id(value))
            if is_pcg(value):
                return "generator", type(value.bit_generator).__name__
            return "array", [value.dtype.str, list(value.shape)]
        if was == "constant" and type(value) in (dict, list, set, tuple):
            return "constant", None  # It is compared whole now and then.
        if said == "open":
            return "object", type_name(value)
        return self._by_type(value, before)

    def _as_before(self, before: Attribute, value: Any) -> tuple[Category, Any]:
        """What was once written with the rest stays there, if it can, and so on: see invariant 1 of captured_state.py."""
        if before.category == "rest":
            try:
                encode_value(value)
            except NotPlainError:
                return self._last_resort(value)
        return before.category, before.detail

    def _by_type(self, value: Any, before: Attribute | None) -> tuple[Category, Any]:
        if isinstance(value, enum.Enum):
            return "member", type_name(value)
        if isinstance(value, _FIXED_TYPES):
            return "fixed", type_name(value)
        try:
            encode_value(value)
        except NotPlainError:
            comes_and_goes = before is not None and before.category != "object"  # Elsewhere there may be none to load.
            opened = self._opens_objects and is_open_object(value) and not (self._trust and comes_and_goes)
            return ("object", type_name(value)) if opened else self._last_resort(value)
        if type(value) in (dict, list, set, tuple) and element_count(value) > CONSTANT_ELEMENTS:
            return "constant", None
        return "rest", NEVER_SET if value is None and (before is None or before.detail == NEVER_SET) else None

    def _last_resort(self, value: Any) -> tuple[Category, Any]:
        return ("trusted" if self._trust else "unknown"), type_name(value)


def slots_of(value: Any) -> list[str]:
    """The names of an object's attributes that are not in its ``__dict__``."""
    listed = [vars(one).get("__slots__", ()) for one in type(value).__mro__]
    names = [name for one in listed for name in ((one,) if isinstance(one, str) else one)]
    return sorted({*names} - {"__dict__", "__weakref__"})


def is_open_object(value: Any) -> bool:
    """Whether all that an object is lies in its ``__dict__``: it is made and copied as Python's own classes are."""
    kind = type(value)
    if isinstance(value, type) or not hasattr(value, "__dict__") or callable(value):
        return False
    if any(vars(one).get("__slots__") for one in kind.__mro__):
        return False  # What is in slots is not in the dict.
    return all(getattr(kind, name) is getattr(object, name) for name in ("__new__", "__reduce__", "__reduce_ex__"))


def element_count(value: Any, limit: int = CONSTANT_ELEMENTS) -> int:
    """How many elements a container has, those of the containers in it included; counted no further than limit."""
    count, waiting = 0, [value]
    seen: set[int] = set()
    while waiting and count <= limit:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        count += len(one)
        items = one.values() if isinstance(one, Mapping) else one
        waiting += [item for item in items if type(item) in (dict, list, set, tuple)]
    return count


def is_quiet_by_equality(value: Any) -> bool:
    """Whether a value of the same type that is equal to this one is the same, in sign, too."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value) and not value.is_integer()
    return kind in (type(None), bool, str, bytes)
