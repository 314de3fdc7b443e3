"""The attributes of foreign objects as a state of ours: packed into an arena after each step, unpacked after a load.

Packing is what each recorded step pays for, so most of it is finding out, cheaply, that most attributes are what they
were: a number or text that cannot be equal to another one is compared, all in one; what could be (0 and False and
-0.0) is known by its identity; only what moves is looked at one by one.

Invariants:
    1. The arena is a function of the objects and of the arena before, so that the same steps from the same state give
       the same hash, whoever takes them.
    2. unpack(pack()) gives objects whose every further step is the same, as far as the structure has no unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_not, itemgetter
from typing import Any, Protocol

import attrs
import numpy as np

from sim.adapters.generators import PCG_WORDS, PcgMemory, pcg_words
from sim.adapters.registry import NotCapturedError
from sim.adapters.report import Part
from sim.adapters.restoring import restore_objects
from sim.adapters.structure import (
    KIND_NUMBERS,
    Attribute,
    Classify,
    Structure,
    Surveyor,
    cell_of,
    field_name,
    is_quiet_by_equality,
)
from sim.adapters.values import decode_value, encode_value
from sim.kernel.schema import Blob, Field, Schema
from sim.kernel.state import State

STEPS_FIELD, KINDS_FIELD = "steps", "kinds"
STRUCTURE, REST, CONSTANTS, TRUSTED = "structure", "rest", "constants", "trusted"
CONSTANT_CHECK_STEPS = (
    256  # So often large containers are compared with what they were; that takes up to a millisecond.
)
BLOB_BYTES_MIN = 256


class Pickler(Protocol):
    """What saves that which values.py does not; see pickled.py."""

    def dump(self, values: Mapping[str, Any]) -> bytes:
        """The values as bytes. Raises NotCapturedError for what cannot be saved so."""

    def load(self, data: bytes) -> Mapping[str, Any]:
        """The values again."""


class CapturedWarning(UserWarning):
    """What was taken to stay as it is has changed; the message says what that costs."""


@attrs.define(eq=False)
class _Watch:
    """One layer while it is packed: its attributes, and what those had that do not move."""

    attributes: dict[str, Any]
    size: int
    get_equal: Callable[[Any], tuple[Any, ...]] | None
    equal: tuple[Any, ...]
    get_same: Callable[[Any], tuple[Any, ...]] | None
    same: tuple[Any, ...]


@attrs.define(eq=False)
class _Cell:
    """A number that moves."""

    attributes: dict[str, Any]
    name: str
    letter: str
    view: Any
    kind_index: int
    kind: type
    value: Any


@attrs.define(eq=False)
class _Array:
    """An array and the field that it is copied to."""

    attributes: dict[str, Any]
    name: str
    value: Any
    view: Any


class CapturedState:
    """The attributes of some objects, and of those in them, in an arena.

    Attributes:
        state: the arena; another one when the structure has changed.
        structure: what each attribute is.
        objects: by the names of their layers.
    """

    state: State

    def __init__(
        self,
        layers: Sequence[tuple[str, Any]],
        classify: Classify,
        *,
        pickler: Pickler | None = None,
        ignored: Iterable[str] = (),
    ) -> None:
        """layers: the outermost objects by their names. classify: see Surveyor. pickler: for what cannot be saved
        otherwise; only where the user trusts it. ignored: full names of attributes to be kept as they are.

        Raises NotCapturedError for what pickle does not take.
        """
        self._layers = list(layers)
        self._pickler = pickler
        self._surveyor = Surveyor(classify, trust=pickler is not None, ignored=frozenset(ignored))
        self._restless: set[tuple[str, str]] = set()
        self._steps = 0
        self._constants = b""
        self.structure, self.objects = self._surveyor.survey(self._layers, None)
        self._lay_out()

    def parts(self) -> tuple[Part, ...]:
        """What is captured, layer by layer."""
        saved = {"cell", "array", "generator", "rest", "constant", "member", "object", "same", "trusted"}

        def names(layer: Any, *categories: str) -> tuple[str, ...]:
            return tuple(one.name for one in layer.attributes if one.category in categories)

        return tuple(
            Part(
                name=layer.name,
                captured=names(layer, *saved),
                kept=names(layer, "kept", "fixed"),
                clocks=names(layer, "clock"),
                unknown={one.name: str(one.detail) for one in layer.attributes if one.category == "unknown"},
            )
            for layer in self.structure.layers
        )

    def ensure_all_known(self, subject: str) -> None:
        """Raise NotCapturedError, naming what, if there is anything that cannot be saved."""
        unknown = [f"{part.name}.{name} ({kind})" for part in self.parts() for name, kind in part.unknown.items()]
        if unknown:
            raise NotCapturedError(
                f"{subject} cannot be saved exactly because of {', '.join(unknown)}. Choose: trust=True (these are saved "
                "by pickle), ignore=[...] (names of those that no step reads), or level='inputs_only' (a seek repeats the "
                "inputs since the last reset)"
            )

    # --- after a step

    def pack(self) -> None:
        """Write what the objects are now into the arena.

        Raises NotCapturedError if something has become what cannot be captured.
        """
        self._steps = steps = self._steps + 1
        self._steps_view[()] = steps
        for watch in self._watches:
            attributes = watch.attributes
            if (
                len(attributes) != watch.size
                or (watch.get_equal is not None and _differ(watch.get_equal, attributes, watch.equal))
                or (watch.get_same is not None and any(map(is_not, watch.get_same(attributes), watch.same)))
            ):
                self._refresh()
                return
        for cell in self._cells:
            value = cell.attributes[cell.name]
            if value is not cell.value and not self._write(cell, value):
                self._refresh()
                return
        for array in self._arrays:
            value = array.attributes[array.name]
            if value is not array.value and not self._is_like(array, value):
                self._refresh()
                return
            array.view[...] = value
        for attributes, name, generator, read, words in self._generators:
            if attributes[name] is not generator:
                self._refresh()
                return
            read(words)
        if self._moving_rest and not self._write_rest():
            return
        if self._trusted:
            self._write_blob(TRUSTED, self._pickled())
        if self._constant_names and steps % CONSTANT_CHECK_STEPS == 0:
            self._check_constants()

    def _write(self, cell: _Cell, value: Any) -> bool:
        """Put another number into its cell; False if it does not fit there."""
        kind = type(value)
        if kind is not cell.kind:
            if value is not None and cell_of(value) != cell.letter:
                return False
            self._kinds[cell.kind_index] = KIND_NUMBERS[kind]
            cell.kind = kind
        elif kind is int and cell_of(value) is None:
            return False
        cell.view[()] = 0 if value is None else value
        cell.value = value
        return True

    def _is_like(self, array: _Array, value: Any) -> bool:
        """Whether another array can take the place of the one that was there."""
        view = array.view
        if type(value) is not np.ndarray or value.base is not None or value.shape != view.shape:
            return False
        if value.dtype != view.dtype or not value.flags.c_contiguous:
            return False
        if any(value is other.attributes.get(other.name) for other in self._arrays if other is not array):
            return False
        array.value = value
        return True

    def _write_rest(self) -> bool:
        """Write the blob of all other values; False if there is something new among them, which is written then, too."""
        try:
            encoded = self._encoded_rest()
        except (TypeError, KeyError):
            self._refresh()
            return False
        self._write_blob(REST, encoded)
        return True

    def _write_blob(self, name: str, content: bytes) -> None:
        if self._blobs.get(name) != content:
            self.state.set_blob(name, content)
            self._blobs[name] = content
            if self.state.arena is not self._arena:
                self._take_views()  # The blob has grown, and the arena with it.

    # --- when something is another thing than before

    def _refresh(self) -> None:
        """Look at everything anew. Raises NotCapturedError."""
        self._note_what_moved()
        structure, self.objects = self._surveyor.survey(self._layers, self.structure)
        if structure == self.structure:
            self._bind()
            self._write_everything()
            return
        for (layer, name), one in structure.category_of().items():
            if one.category == "unknown" and self.structure.category_of().get((layer, name)) != one:
                warnings.warn(
                    f"{layer}.{name} is now {one.detail}, which cannot be saved: what depends on it is not exact",
                    CapturedWarning,
                    stacklevel=4,
                )
        self.structure = structure
        self._lay_out()

    def _note_what_moved(self) -> None:
        for watch, layer in zip(self._watches, self.structure.layers, strict=True):
            for one in layer.attributes:
                before = self._before.get((layer.name, one.name), self)
                if before is not self and watch.attributes.get(one.name, self) is not before:
                    self._restless.add((layer.name, one.name))
                    if one.category == "fixed":
                        raise NotCapturedError(
                            f"{layer.name}.{one.name} ({one.detail}) was replaced in a step: such a thing is not saved"
                        )

    def _check_constants(self) -> None:
        if self._encoded_constants() == self._constants:
            return
        before = decode_value(self._constants)
        moved = set()
        for full, (layer, name) in self._constant_names.items():
            if encode_value(vars(self.objects[layer])[name]) != encode_value(before[full]):
                moved.add((layer, name))
                warnings.warn(
                    f"{full} was taken not to change and has changed in the last {CONSTANT_CHECK_STEPS} steps: "
                    "it is saved at each step from now on; a seek into these steps may not be exact",
                    CapturedWarning,
                    stacklevel=4,
                )
        learned = [
            attrs.evolve(
                layer,
                attributes=tuple(
                    attrs.evolve(one, category="rest") if (layer.name, one.name) in moved else one
                    for one in layer.attributes
                ),
            )
            for layer in self.structure.layers
        ]
        self.structure, self.objects = self._surveyor.survey(self._layers, Structure(tuple(learned)))
        self._lay_out()

    # --- laying out

    def _lay_out(self) -> None:
        """Make an arena for the structure and write everything into it."""
        entries: list[Field | Blob] = [Field(STEPS_FIELD, "i8")]
        cells = 0
        for layer in self.structure.layers:
            for one in layer.attributes:
                name = field_name(layer.name, one.name)
                if one.category == "cell":
                    entries.append(Field(name, f"{one.detail}8"))
                    cells += 1
                elif one.category == "array":
                    entries.append(Field(name, one.detail[0], tuple(one.detail[1])))
                elif one.category == "generator":
                    entries.append(Field(name, "u8", (PCG_WORDS,)))
        entries.append(Field(KINDS_FIELD, "u1", (cells,)))
        self._bind(with_views=False)
        self._constants = self._encoded_constants()
        contents = {STRUCTURE: self.structure.encode(), REST: self._encoded_rest(), CONSTANTS: self._constants}
        if self._trusted:
            contents[TRUSTED] = self._pickled()
        entries += [Blob(name, _room(content)) for name, content in contents.items()]
        self.state = State(Schema(*entries))
        self._blobs: dict[str, bytes] = {}
        for name, content in contents.items():
            self.state.set_blob(name, content)
            self._blobs[name] = content
        self.state[STEPS_FIELD][()] = self._steps
        self._bind()
        self._write_everything()

    def _bind(self, *, with_views: bool = True) -> None:
        """Find the attributes in the objects, and their places in the arena."""
        self._watches: list[_Watch] = []
        self._rest: list[tuple[str, dict[str, Any], str]] = []
        self._members: set[str] = set()
        self._trusted: list[tuple[str, dict[str, Any], str]] = []
        self._constant_names: dict[str, tuple[str, str]] = {}
        self._moving_rest = False
        self._before: dict[tuple[str, str], Any] = {}
        for layer in self.structure.layers:
            attributes = vars(self.objects[layer.name])
            equal, same = [], []
            for one in layer.attributes:
                if one.category in ("kept", "clock", "unknown", "trusted"):
                    if one.category == "trusted":
                        self._trusted.append((f"{layer.name}.{one.name}", attributes, one.name))
                    continue
                key, full, value = (layer.name, one.name), f"{layer.name}.{one.name}", attributes[one.name]
                self._before[key] = value
                self._sort(one, full, key, attributes)
                if one.category in ("array", "generator"):
                    continue  # Looked at, each, when they are copied.
                if key in self._restless or (one.category == "rest" and not _is_immutable(value)):
                    self._moving_rest = self._moving_rest or one.category in ("rest", "member")
                elif is_quiet_by_equality(value):
                    equal.append(one.name)
                else:
                    same.append(one.name)
            get_equal, get_same = _getter(equal), _getter(same)
            self._watches.append(
                _Watch(
                    attributes,
                    len(attributes),
                    get_equal,
                    get_equal(attributes) if get_equal else (),
                    get_same,
                    get_same(attributes) if get_same else (),
                )
            )
        if with_views:
            self._take_views()

    def _sort(self, one: Attribute, full: str, key: tuple[str, str], attributes: dict[str, Any]) -> None:
        if one.category in ("rest", "member"):
            self._rest.append((full, attributes, one.name))
            if one.category == "member":
                self._members.add(full)
        elif one.category == "constant":
            self._constant_names[full] = key

    def _take_views(self) -> None:
        """Take the views of the arena anew; it may be another one than it was."""
        state = self.state
        self._arena = state.arena
        self._steps_view = state[STEPS_FIELD]
        self._kinds = state[KINDS_FIELD]
        self._cells: list[_Cell] = []
        self._arrays: list[_Array] = []
        self._generators: list[tuple[dict[str, Any], str, Any, Callable[[Any], None], Any]] = []
        self._all_cells: list[_Cell] = []
        for layer in self.structure.layers:
            attributes = vars(self.objects[layer.name])
            for one in layer.attributes:
                if one.category not in ("cell", "array", "generator"):
                    continue
                view, value = state[field_name(layer.name, one.name)], attributes[one.name]
                if one.category == "cell":
                    cell = _Cell(attributes, one.name, one.detail, view, len(self._all_cells), type(value), value)
                    self._all_cells.append(cell)
                    if (layer.name, one.name) in self._restless:
                        self._cells.append(cell)
                elif one.category == "array":
                    self._arrays.append(_Array(attributes, one.name, value, view))
                else:
                    self._generators.append((attributes, one.name, value, _reader(value), view))

    def _write_everything(self) -> None:
        for cell in self._all_cells:
            self._kinds[cell.kind_index] = KIND_NUMBERS[cell.kind]
            cell.view[()] = 0 if cell.value is None else cell.value
        for array in self._arrays:
            array.view[...] = array.value
        for _, _, _, read, words in self._generators:
            read(words)
        self._write_blob(REST, self._encoded_rest())
        if self._trusted:
            self._write_blob(TRUSTED, self._pickled())

    # --- as bytes

    def _known(self) -> dict[int, str]:
        """Arrays, generators and large containers that are kept elsewhere than in the rest."""
        known = {}
        for layer in self.structure.layers:
            attributes = vars(self.objects[layer.name])
            for one in layer.attributes:
                if one.category in ("array", "generator", "constant"):
                    known[id(attributes[one.name])] = f"{layer.name}.{one.name}"
        return known

    def _encoded_rest(self) -> bytes:
        values = {
            full: attributes[name].name if full in self._members else attributes[name]
            for full, attributes, name in self._rest
        }
        return encode_value(values, self._known())

    def _encoded_constants(self) -> bytes:
        return encode_value(
            {full: vars(self.objects[layer])[name] for full, (layer, name) in self._constant_names.items()}
        )

    def _pickled(self) -> bytes:
        assert self._pickler is not None
        return self._pickler.dump({full: attributes[name] for full, attributes, name in self._trusted})

    # --- after a load

    def unpack(self) -> None:
        """Make the objects what the arena says.

        Raises NotCapturedError if they are not of the kind that was saved, ValueError for an arena of something else.
        """
        state = self.state
        self.structure, self.objects = restore_objects(
            state, self._layers, self._surveyor, self._constants, self._pickler
        )
        self._steps = int(state[STEPS_FIELD])
        self._constants = state.blob(CONSTANTS)
        self._blobs = {name: state.blob(name) for name in (STRUCTURE, REST, CONSTANTS)}
        self._bind()


def _room(content: bytes) -> int:
    """Room for a blob: a power of two, so that it does not depend on what was there before."""
    return max(BLOB_BYTES_MIN, 1 << (len(content) - 1).bit_length())


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]] | None:
    if not names:
        return None
    return itemgetter(*names) if len(names) > 1 else itemgetter(names[0], names[0])


def _differ(get: Callable[[Any], tuple[Any, ...]], attributes: dict[str, Any], before: tuple[Any, ...]) -> bool:
    try:
        return bool(get(attributes) != before)
    except (ValueError, TypeError, KeyError):  # An array in the place of a number; an attribute that has gone.
        return True


def _is_immutable(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_immutable, value))
    return value is None or isinstance(value, bool | int | float | str | bytes | complex | np.generic)


def _reader(generator: np.random.Generator) -> Callable[[Any], None]:
    """What writes the state of a generator into six words."""
    memory = PcgMemory.make(generator)
    if memory is not None:
        return memory.read

    def read(words: Any) -> None:
        words[:] = pcg_words(generator)

    return read
