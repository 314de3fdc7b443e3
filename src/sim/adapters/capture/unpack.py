"""Restore objects from a captured state: the counterpart of pack.py.

Only plain values are created here (see values.py). An object of a class must exist already, under the name under which
it was saved, so that no tape can import or call a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.foreign_fields import restore_foreign
from sim.adapters.capture.rng_state import BIT_GENERATORS, set_pcg_words
from sim.adapters.capture.survey import (
    KINDS,
    TEXT_KINDS,
    Attribute,
    Structure,
    Surveyor,
    field_name,
    is_quick_array,
    structure_from_plain,
    type_name,
)
from sim.adapters.capture.values import decode_value
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.state import State

_LEFT_ALONE = ("kept", "clock", "drawing", "fixed", "unknown")


def restore_objects(
    state: State,
    layers: Sequence[tuple[str, Any]],
    surveyor: Surveyor,
    constants_now: bytes,
    pickler: Any,
    detached: frozenset[str],
) -> tuple[Structure, dict[str, Any]]:
    """Restore the objects from the arena, and return its structure and all objects by name.

    detached: layers whose arrays are never written to, since others may hold them. constants_now: the present large
    containers of the objects, as bytes: equal ones are not replaced.

    Raises NotCapturedError, naming an object of a different kind than was saved; ValueError for an arena of anything
    else.
    """
    if "structure" not in state.layout.slots:
        raise ValueError("expected a state of captured objects, got one without the field 'structure'")
    structure = structure_from_plain(decode_value(state.blob("structure")))
    return structure, _Restoring(state, structure, surveyor, dict(layers), detached).run(constants_now, pickler)


class _Restoring:
    """One restore of all objects."""

    def __init__(
        self, state: State, structure: Structure, surveyor: Surveyor, objects: dict[str, Any], detached: frozenset[str]
    ) -> None:
        self._state = state
        self._structure = structure
        self._surveyor = surveyor
        self._objects = objects
        self._detached = detached
        self._used: set[int] = set()  # Arrays that were written to: a second attribute gets its own array.
        self._known: dict[str, Any] = {}
        self._cell_count = 0

    def run(self, constants_now: bytes, pickler: Any) -> dict[str, Any]:
        """Restore layer by layer, and return the objects by name."""
        objects = self._objects
        for layer in self._structure.layers:
            if layer.name not in objects:
                raise NotCapturedError(
                    f"the recorded layer {layer.name} is missing: make the simulation as it was made for the recording"
                )
            attributes = vars(objects[layer.name])
            self._clear(layer.name, {attribute.name for attribute in layer.attributes}, attributes)
            for attribute in layer.attributes:
                self._restore(layer.name, attribute, attributes)
        self._restore_constants(constants_now)
        values = self._values(pickler)
        for layer in self._structure.layers:
            attributes = vars(objects[layer.name])
            for attribute in layer.attributes:
                if attribute.category in ("rest", "member", "trusted"):
                    value = values[f"{layer.name}.{attribute.name}"]
                    attributes[attribute.name] = _member(layer.name, attribute, attributes, value)
                elif attribute.category == "same":
                    attributes[attribute.name] = objects[attribute.detail]
        return objects

    def _restore_constants(self, constants_now: bytes) -> None:
        constants = self._state.blob("constants")
        values = None if constants == constants_now else decode_value(constants)
        for layer in self._structure.layers:
            attributes = vars(self._objects[layer.name])
            for attribute in layer.attributes:
                if attribute.category == "constant":
                    full = f"{layer.name}.{attribute.name}"
                    if values is not None:
                        attributes[attribute.name] = values[full]
                    self._known[full] = attributes[attribute.name]

    def _values(self, pickler: Any) -> dict[str, Any]:
        """The values that were written as bytes, by full name."""
        values = dict(decode_value(self._state.blob("rest"), self._known))
        if "trusted" not in self._state.layout.slots:
            return values
        if pickler is None:
            raise NotCapturedError(
                "a part of the state was saved by pickle, which may run any code: if you trust the tape, make the "
                "simulation with adapt(..., trust=True)"
            )
        return values | dict(pickler.load(self._state.blob("trusted"), self._known | values | self._objects))

    def _clear(self, layer: str, saved: set[str], attributes: dict[str, Any]) -> None:
        """Remove the attributes that a used instance has and the saved one did not have."""
        for name in attributes.keys() - saved:
            if self._surveyor.category(self._objects[layer], f"{layer}.{name}", attributes[name]) not in _LEFT_ALONE:
                del attributes[name]

    def _restore(self, layer: str, attribute: Attribute, attributes: dict[str, Any]) -> None:
        full = f"{layer}.{attribute.name}"
        if attribute.category == "cell":
            kind = KINDS[int(self._state["kinds"][self._cell_count])]
            self._cell_count += 1
            number = self._state[field_name(layer, attribute.name)][()].item()
            attributes[attribute.name] = None if kind is type(None) else kind(number)
        elif attribute.category == "array":
            saved, present = self._state[field_name(layer, attribute.name)], attributes.get(attribute.name)
            dtype = np.dtype(attribute.detail[0])
            if dtype.kind in TEXT_KINDS:
                saved = saved.view(dtype)[..., 0]
            restored = saved.copy() if layer in self._detached else self._array(saved, present)
            attributes[attribute.name] = self._known[full] = restored
        elif attribute.category == "foreign":
            present, field = attributes.get(attribute.name), field_name(layer, attribute.name)
            fresh = None if id(present) in self._used else present
            holder = self._objects[layer]
            restored = restore_foreign(
                full, attribute.detail, fresh, holder, lambda suffix: self._state[f"{field}{suffix}"]
            )
            attributes[attribute.name] = restored
            self._used.add(id(restored))
        elif attribute.category == "generator":
            words = self._state[field_name(layer, attribute.name)].tolist()
            attributes[attribute.name] = self._known[full] = self._generator(
                words, attribute.detail, attributes.get(attribute.name)
            )
        elif attribute.category == "object":
            present = attributes.get(attribute.name)
            if type_name(present) != attribute.detail:
                raise NotCapturedError(
                    f"{full}: expected a {attribute.detail}, as it was saved, got {type_name(present)}: an object "
                    "cannot be made from a tape; with trust=True it is saved by pickle"
                )
            self._objects[full] = present

    def _array(self, saved: np.ndarray[Any, Any], present: Any) -> np.ndarray[Any, Any]:
        if present is not None and type(present) is np.ndarray and present.dtype.kind in TEXT_KINDS:
            present = None  # Texts are not written to in place.
        fits = is_quick_array(present) and present.shape == saved.shape and present.dtype == saved.dtype
        if not fits or not present.flags.writeable or id(present) in self._used:
            present = saved.copy()
        else:
            present[...] = saved  # In place: other views of this memory stay valid.
        self._used.add(id(present))
        return present  # type: ignore[no-any-return]

    def _generator(self, words: list[int], kind: str, present: Any) -> Any:
        if kind not in BIT_GENERATORS:
            raise ValueError(f"expected a bit generator of NumPy, got {kind!r}")
        fits = type(present) is np.random.Generator and type(present.bit_generator).__name__ == kind
        if not fits or id(present) in self._used:
            present = np.random.Generator(BIT_GENERATORS[kind](0))
        set_pcg_words(present, words)
        self._used.add(id(present))
        return present


def _member(layer: str, attribute: Attribute, attributes: dict[str, Any], value: Any) -> Any:
    """The value, or the member of the enumeration that it names."""
    if attribute.category != "member":
        return value
    kind: Any = type(attributes.get(attribute.name))
    if f"{kind.__module__}.{kind.__qualname__}" != attribute.detail:
        raise NotCapturedError(
            f"{layer}.{attribute.name}: expected a {attribute.detail}, as it was saved, got {kind.__qualname__}"
        )
    return kind[value]
