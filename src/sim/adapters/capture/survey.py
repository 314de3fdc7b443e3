"""Survey the attributes of objects and choose the cheapest storage for each: the structure of a captured state.

A structure is part of the state that it describes (the blob ``structure``). Knowledge from earlier steps, such as an
attribute that is sometimes a number and sometimes None, is thus restored by a load. The categories of attributes:

    cell       a number or boolean, or sometimes None: a field of one number, its type in the field ``kinds``
    array      numbers, C order, its own memory: a field
    foreign    an array of another library (JAX, PyTorch), or a named tuple of them: a field for each array
    generator  np.random.Generator over PCG64: a field of six words
    rest       any other value: a root of the graph of objects (see graph/), so that shared objects stay shared
    constant   a large container that has not changed so far (compared after each step): in the blob ``constants``
    object     an instance of a class with attributes: a separate layer, restored in place
    same       an object that is captured already, under the name in the detail
    fixed      functions without a name of their own: not saved, and watched, since a replacement would not be saved
    kept       not saved: configuration, rendering, and what the user left out
    drawing    kept, and watched: None until now, and a drawing object by its name; it may become something else
    clock      kept: a time of the day
    unknown    not saved, although a step may read it
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import attrs
import numpy as np

from sim.adapters.capture.constants import looks_constant
from sim.adapters.capture.foreign_fields import ensure_apart, foreign_detail, is_foreign_value
from sim.adapters.capture.graph.kinds.refusals import refusal_of_package
from sim.adapters.capture.graph.kinds.special_kinds import KINDS as SPECIAL_KINDS
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.unsavable import UnsavableError, refusal_of
from sim.adapters.capture.own_memory import OwnMemory, is_quick_array
from sim.adapters.capture.rng_state import identities_of_pcg, is_pcg, pcg_kind
from sim.adapters.capture.values import encode_value
from sim.kernel.class_names import module_of
from sim.kernel.foreign_arrays import ForeignArrayError, is_compiled_function
from sim.kernel.memory.quick_dicts import make_quick

Category = Literal[
    "cell", "array", "foreign", "generator", "rest", "constant", "object", "same", "fixed", "kept", "drawing", "clock",
    "unknown",
]  # fmt: skip
Treatment = Literal["kept", "left out", "clock", "drawing", "open"]
Classify = Callable[[object, str, Any], Treatment | None]

LAYERS_MAX = 200  # Objects in objects, each with fields of its own; further ones are nodes of the graph.
# The type of a cell's value, by its number in ``kinds``. Only append to it: tapes hold these numbers.
KINDS: tuple[Any, ...] = (
    type(None), bool, int, float, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
    np.float16, np.float32, np.float64,
)  # fmt: skip
KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_FLOATS = frozenset((float, np.float16, np.float32, np.float64))
NEVER_SET = "none"  # An attribute that was always None may still become a number.
LEFT_OUT: Final = "left out"  # By the user, not by an adapter: what saved attributes hold of it is saved all the same.
_NAME_CHARS = re.compile(r"[^A-Za-z0-9_.-]")
_NAME_CHARS_MAX = 150
FIELD_NAMES_KEPT = 1 << 13  # Those of all attributes with fields of some simulations: each survey asks for them.
_LAYER_CHARS_MAX = 100  # Of the name of an object with fields of its own: a linked list is no row of such objects.
_WITH_FIELDS = ("cell", "array", "foreign", "generator")


@attrs.frozen
class Attribute:
    """One attribute of a layer.

    Attributes:
        name: of the attribute.
        category: see above.
        detail: "i" or "f" for a cell; "none" for an attribute in the rest that was never set; [dtype, shape] for an
            array; see pcg_kind for a generator; the class of an object; the type of an unknown; "left out" for a kept
            attribute that the user chose.
    """

    name: str
    category: Category
    detail: Any = None


@attrs.frozen
class Layer:
    """One object whose attributes are captured.

    Attributes:
        name: the prefix of the names of its fields.
        attributes: in the order of their names.
    """

    name: str
    attributes: tuple[Attribute, ...]

    def to_plain(self) -> list[Any]:
        """The layer as it is written into the state: without kept attributes, which differ if something was drawn."""
        listed = [attribute for attribute in self.attributes if attribute.category not in ("kept", "clock", "drawing")]
        return [self.name, [[attribute.name, attribute.category, attribute.detail] for attribute in listed]]


@attrs.frozen
class Structure:
    """The layers of a simulation, outermost first."""

    layers: tuple[Layer, ...]

    def encode(self) -> bytes:
        """The structure as bytes, equal for equal structures."""
        return encode_value([layer.to_plain() for layer in self.layers])

    def category_of(self) -> dict[tuple[str, str], Attribute]:
        """Each attribute by the names of its layer and of the attribute."""
        return {(layer.name, attribute.name): attribute for layer in self.layers for attribute in layer.attributes}


def is_alike(one: Structure, other: Structure) -> bool:
    """Return True if the structures are encoded alike. Most are equal, which takes a tenth of the time to find out."""
    return one == other or one.encode() == other.encode()


def structure_from_plain(plain: Any) -> Structure:
    """The structure of these plain layers. Raises ValueError for anything else."""
    try:
        return Structure(
            tuple(
                Layer(name, tuple(Attribute(one, category, detail) for one, category, detail in attributes))
                for name, attributes in plain
            )
        )
    except (TypeError, ValueError):
        raise ValueError("expected the structure of a captured state") from None


@functools.lru_cache(maxsize=FIELD_NAMES_KEPT)
def field_name(layer: str, attribute: str) -> str:
    """The name of an attribute's field, in the characters that a field name may have."""
    return _NAME_CHARS.sub("_", f"{layer}.{attribute}")[:_NAME_CHARS_MAX]


def type_name(value: Any) -> str:
    """The type of value as users write it."""
    return f"{module_of(type(value))}.{type(value).__qualname__}".removeprefix("builtins.").removeprefix(".")


def cell_of(value: Any) -> str | None:
    """The letter of the cell that can hold value; None if no cell can."""
    kind = type(value)
    if kind not in KIND_NUMBERS or kind is type(None):
        return None
    if kind in _FLOATS:
        return "f"
    return "i" if kind is not int or -(1 << 63) <= value < 1 << 63 else None


class Surveyor:
    """Determines the categories of the attributes of objects.

    Attributes:
        unknown: the full names of attributes that turned out to hold something that cannot be saved, with the reason.
        memory: tells which arrays have memory of their own.
    """

    def __init__(
        self,
        classify: Classify,
        finder: ClassFinder,
        *,
        ignored: frozenset[str],
        detached: frozenset[str],
        opens_objects: bool,
    ) -> None:
        """Set the options of all surveys.

        classify: the treatment that an adapter prescribes for an attribute, from the object, the attribute's name and
        its value; "open" makes the value a layer. ignored: full names that the user has excluded. detached: layers
        whose arrays count as copies. opens_objects: make objects of other classes layers.
        """
        self._detached, self._opens_objects, self._ignored = detached, opens_objects, ignored
        self._classify, self._finder = classify, finder
        self.unknown: dict[str, str] = {}
        self.memory = OwnMemory(self._is_left_alone, finder.names_beside)

    def survey(self, layers: Sequence[tuple[str, Any]], before: Structure | None) -> tuple[Structure, dict[str, Any]]:
        """The structure of these objects and of the objects inside them, and all these objects by name.

        before: the previous structure, whose knowledge is kept.

        Raises UnsavableError for an array of another library whose memory another attribute shares.
        """
        previous = before.category_of() if before is not None else {}
        self.memory.holders = [holder for _, holder in layers]
        surveyed: list[Layer] = []
        objects: dict[str, Any] = {}
        waiting = list(layers)
        seen: dict[int, str] = {id(holder): name for name, holder in layers}
        fields: set[str] = set()  # Two attributes may have the same name in the characters of a field name.
        taken: set[int] = set()  # Arrays and generators that have a field: a second occurrence goes to the rest.
        while waiting:
            name, holder = waiting.pop(0)
            objects[name] = holder
            make_quick(vars(holder))
            attributes = []
            taken_here = set() if name in self._detached else taken
            for attribute, value in sorted(vars(holder).items()):
                full = f"{name}.{attribute}"
                earlier = previous.get((name, attribute))
                is_new = before is not None and earlier is None
                category, detail = self._category(holder, full, attribute, value, earlier, taken_here, is_new=is_new)
                if category in _WITH_FIELDS:
                    if field_name(name, attribute) in fields:
                        category, detail = "rest", None
                    fields.add(field_name(name, attribute))
                if category == "object":
                    if id(value) in seen and seen[id(value)] != full:
                        category, detail = "same", seen[id(value)]  # Captured already under its first name.
                    elif earlier is not None and earlier.category == "same":
                        category, detail = "rest", None  # It refers to another object than before.
                    elif len(seen) < LAYERS_MAX and (len(full) <= _LAYER_CHARS_MAX or _was_object(earlier)):
                        seen[id(value)] = full
                        waiting.append((full, value))
                    else:
                        category, detail = "rest", None
                attributes.append(Attribute(attribute, category, detail))
            surveyed.append(Layer(name, tuple(attributes)))
        foreign = {f"{of.name}.{one.name}" for of in surveyed for one in of.attributes if one.category == "foreign"}
        if foreign:
            values = {full: vars(objects[of.name])[one.name] for full, of, one in _listed(surveyed)}
            ensure_apart({full: values[full] for full in foreign}, values)
        return Structure(tuple(surveyed)), objects

    def is_as_before(self, holder: Any, layer: str, before: Attribute) -> bool:
        """Return True if an attribute that has no array of its own would be described as it was."""
        full, value = f"{layer}.{before.name}", vars(holder)[before.name]
        found = self._category(holder, full, before.name, value, before, set(), is_new=False)
        return found == (before.category, before.detail)

    def described(self, holder: Any, full: str, value: Any) -> Attribute:
        """A new attribute of an object."""
        name = full.rpartition(".")[2]
        return Attribute(name, *self._category(holder, full, name, value, None, set(), is_new=False))

    def _category(self, holder: Any, full: str, *arguments: Any, is_new: bool) -> tuple[Category, Any]:
        try:
            return self._find_category(holder, full, *arguments, is_new=is_new)
        except Exception as error:  # noqa: BLE001 - of code of the user's classes; others are raised again
            raise refusal_of(error, full, arguments[1]) from error.__cause__

    def _find_category(
        self,
        holder: Any,
        full: str,
        attribute: str,
        value: Any,
        before: Attribute | None,
        taken: set[int],
        *,
        is_new: bool,
    ) -> tuple[Category, Any]:
        was = before.category if before is not None else None
        treatment = self._classify(holder, attribute, value)
        if treatment in ("kept", "clock", "drawing"):
            return treatment, None
        if treatment == LEFT_OUT or (
            self._ignored and (full in self._ignored or self._is_ignored(type(holder), attribute))
        ):
            return "kept", LEFT_OUT
        if full in self.unknown:
            return "unknown", self.unknown[full]
        if before is not None and was == "rest" and before.detail != NEVER_SET:
            return "rest", None  # See invariant 1 of captured_state.py.
        letter = cell_of(value)
        if was == "cell" and before is not None:
            if value is None or letter == before.detail:
                return "cell", before.detail
            if letter is not None or isinstance(value, int):
                return "rest", None
        if letter is not None:
            return "cell", letter
        is_copy = full.rpartition(".")[0] in self._detached
        own = self._own_field(value, taken, is_copy=is_copy, had_field=was == "array")
        if own is not None:
            return own
        if was == "constant" and type(value) in (dict, list, set, tuple):
            return "constant", None  # It is compared completely at intervals.
        if treatment == "open":
            return "object", self._finder.name_of(type(value))
        return self._by_type(value, before, is_new=is_new)

    def _own_field(self, value: Any, taken: set[int], *, is_copy: bool, had_field: bool) -> tuple[Category, Any] | None:
        """The field of an array or a generator of its own; None for others, and if another field shares a part of it."""
        is_own = self.memory.is_kept if had_field else self.memory.is_own
        if id(value) not in taken and is_quick_array(value, is_own, is_copy=is_copy):
            if not is_copy and value.base is not None:
                if id(value.base) in taken:
                    return None
                taken.add(id(value.base))
            taken.add(id(value))
            return "array", [value.dtype.str, list(value.shape)]
        if is_pcg(value):
            parts = identities_of_pcg(value)
            if not parts & taken:
                taken |= parts
                return "generator", pcg_kind(value)
        return None

    def _is_left_alone(self, holder: Any, name: str, value: Any) -> bool:
        is_ignored = bool(self._ignored) and self._is_ignored(type(holder), name)
        return is_ignored or self._classify(holder, name, value) in ("kept", LEFT_OUT, "clock", "drawing")

    def _is_ignored(self, kind: type, attribute: str) -> bool:
        """Return True for an attribute that is left out of all objects of a class, as it is of those in the graph."""
        return any(f"{base.__name__}.{attribute}" in self._ignored for base in kind.__mro__)

    def _by_type(self, value: Any, before: Attribute | None, *, is_new: bool) -> tuple[Category, Any]:
        was = before.category if before is not None else None
        if is_compiled_function(value):
            return "fixed", type_name(value)
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType) and not self._has_name(value):
            return "fixed", type_name(value)
        if is_foreign_value(value):
            return _foreign(value)
        if refusal_of_package(type(value)) is not None:
            return "rest", None  # Which refuses it.
        if looks_constant(value):
            return "constant", None
        # What appears later is made by a restore, since a fresh object may not have it yet.
        is_own = was in ("object", "same") or (before is None and not is_new)
        if self._opens_objects and is_open_object(value) and (is_own or self._holds_kept(value)):
            name = self._finder.name_of(type(value))
            if not self._finder.is_of_a_variable(value, [*map(type, self.memory.holders)]):  # The graph names these.
                return "object", name
        return "rest", NEVER_SET if value is None and (before is None or before.detail == NEVER_SET) else None

    def _holds_kept(self, value: Any) -> bool:
        """Return True for an object with an attribute that only the user's own object can have."""
        held = vars(value).items()
        return any(
            self._classify(value, name, one) in ("kept", LEFT_OUT)
            for name, one in held
            if module_of(type(one)) != "builtins"
        )

    def _has_name(self, function: Any) -> bool:
        try:
            self._finder.name_of_function(function)
        except UnsavableError:
            return isinstance(getattr(function, "__self__", None), object) and not isinstance(
                function, types.FunctionType
            )
        return True


def _was_object(before: Attribute | None) -> bool:
    return before is not None and before.category == "object"


def _foreign(value: Any) -> tuple[Category, Any]:
    try:
        return "foreign", foreign_detail(value)
    except ForeignArrayError:
        return "rest", None  # Which refuses it with the reason.


def _listed(layers: Sequence[Layer]) -> Iterator[tuple[str, Layer, Attribute]]:
    """All attributes, each with its full name."""
    for layer in layers:
        for one in layer.attributes:
            yield f"{layer.name}.{one.name}", layer, one


def slots_of(value: Any) -> list[str]:
    """The names of an object's attributes that are not in its ``__dict__``."""
    listed = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__]
    names = [name for slots in listed for name in ((slots,) if isinstance(slots, str) else slots)]
    return sorted({*names} - {"__dict__", "__weakref__"})


def is_open_object(value: Any) -> bool:
    """Return True if ``__dict__`` holds the complete object: it is made and copied as ordinary Python objects are."""
    kind = type(value)
    if isinstance(value, type) or not hasattr(value, "__dict__") or callable(value) or kind in SPECIAL_KINDS:
        return False
    if any(vars(base).get("__slots__") for base in kind.__mro__):
        return False  # Attributes in slots are not in the dict.
    return all(getattr(kind, name) is getattr(object, name) for name in ("__new__", "__reduce__", "__reduce_ex__"))
