"""Make objects what a captured state says: the way back of captured_state.py.

Nothing is made here but plain values (see values.py): an object of a class must be there already, in the place where it
was saved, so that no tape can have a class imported or called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
    """Put what the arena holds into the objects; its structure, and all objects by name.

    detached: layers whose arrays are never written to, since others may hold them. constants_now: the large containers that the objects have, as bytes, so that equal ones are left as they are.
    Raises NotCapturedError, naming what is of another kind than was saved; ValueError for an arena of something else.
    """
    if "structure" not in state.layout.slots:
        raise ValueError("the state is not one of captured objects")
    structure = structure_from_plain(decode_value(state.blob("structure")))
    return structure, _Restoring(state, structure, surveyor, dict(layers), detached).run(constants_now, pickler)


class _Restoring:
    """One restoring."""

    def __init__(
        self, state: State, structure: Structure, surveyor: Surveyor, objects: dict[str, Any], detached: frozenset[str]
    ) -> None:
        self._state = state
        self._structure = structure
        self._surveyor = surveyor
        self._objects = objects
        self._detached = detached
        self._used: set[int] = set()  # Arrays that were written to: a second attribute gets one of its own.
        self._known: dict[str, Any] = {}
        self._cell_count = 0

    def run(self, constants_now: bytes, pickler: Any) -> dict[str, Any]:
        """Do it, layer by layer; the objects by name."""
        objects = self._objects
        for layer in self._structure.layers:
            if layer.name not in objects:
                raise NotCapturedError(f"there is no {layer.name}, whose attributes were saved")
            attributes = vars(objects[layer.name])
            self._clear(layer.name, {one.name for one in layer.attributes}, attributes)
            for one in layer.attributes:
                self._restore(layer.name, one, attributes)
        self._restore_constants(constants_now)
        values = self._values(pickler)
        for layer in self._structure.layers:
            attributes = vars(objects[layer.name])
            for one in layer.attributes:
                if one.category in ("rest", "member", "trusted"):
                    value = values[f"{layer.name}.{one.name}"]
                    attributes[one.name] = _member(layer.name, one, attributes, value)
                elif one.category == "same":
                    attributes[one.name] = objects[one.detail]
        return objects

    def _restore_constants(self, constants_now: bytes) -> None:
        constants = self._state.blob("constants")
        values = None if constants == constants_now else decode_value(constants)
        for layer in self._structure.layers:
            attributes = vars(self._objects[layer.name])
            for one in layer.attributes:
                if one.category == "constant":
                    full = f"{layer.name}.{one.name}"
                    if values is not None:
                        attributes[one.name] = values[full]
                    self._known[full] = attributes[one.name]

    def _values(self, pickler: Any) -> dict[str, Any]:
        """What was written as bytes, by full name."""
        values = dict(decode_value(self._state.blob("rest"), self._known))
        if "trusted" not in self._state.layout.slots:
            return values
        if pickler is None:
            raise NotCapturedError(
                "some of the state was saved by pickle, which may run any code: if you trust the tape, make the "
                "simulation with adapt(..., trust=True)"
            )
        return values | dict(pickler.load(self._state.blob("trusted"), self._known | values | self._objects))

    def _clear(self, layer: str, saved: set[str], attributes: dict[str, Any]) -> None:
        """Take away what a used instance has and the saved one had not."""
        for name in attributes.keys() - saved:
            if self._surveyor.category(self._objects[layer], f"{layer}.{name}", attributes[name]) not in _LEFT_ALONE:
                del attributes[name]

    def _restore(self, layer: str, one: Attribute, attributes: dict[str, Any]) -> None:
        full = f"{layer}.{one.name}"
        if one.category == "cell":
            kind = KINDS[int(self._state["kinds"][self._cell_count])]
            self._cell_count += 1
            number = self._state[field_name(layer, one.name)][()].item()
            attributes[one.name] = None if kind is type(None) else kind(number)
        elif one.category == "array":
            saved, present = self._state[field_name(layer, one.name)], attributes.get(one.name)
            dtype = np.dtype(one.detail[0])
            if dtype.kind in TEXT_KINDS:
                saved = saved.view(dtype)[..., 0]
            made = saved.copy() if layer in self._detached else self._array(saved, present)
            attributes[one.name] = self._known[full] = made
        elif one.category == "generator":
            words = self._state[field_name(layer, one.name)].tolist()
            attributes[one.name] = self._known[full] = self._generator(words, one.detail, attributes.get(one.name))
        elif one.category == "object":
            present = attributes.get(one.name)
            if type_name(present) != one.detail:
                raise NotCapturedError(
                    f"{full} was a {one.detail} when it was saved and is {type_name(present)} here: "
                    "an object cannot be made from a tape; with trust=True it is saved by pickle"
                )
            self._objects[full] = present

    def _array(self, saved: np.ndarray[Any, Any], present: Any) -> np.ndarray[Any, Any]:
        if present is not None and type(present) is np.ndarray and present.dtype.kind in TEXT_KINDS:
            present = None  # Texts are not written to in place.
        fits = is_quick_array(present) and present.shape == saved.shape and present.dtype == saved.dtype
        if not fits or not present.flags.writeable or id(present) in self._used:
            present = saved.copy()
        else:
            present[...] = saved  # In place: what else looks at this memory goes on doing so.
        self._used.add(id(present))
        return present  # type: ignore[no-any-return]

    def _generator(self, words: list[int], kind: str, present: Any) -> Any:
        if kind not in BIT_GENERATORS:
            raise ValueError(f"{kind!r} is no bit generator of NumPy's")
        fits = type(present) is np.random.Generator and type(present.bit_generator).__name__ == kind
        if not fits or id(present) in self._used:
            present = np.random.Generator(BIT_GENERATORS[kind](0))
        set_pcg_words(present, words)
        self._used.add(id(present))
        return present


def _member(layer: str, one: Attribute, attributes: dict[str, Any], value: Any) -> Any:
    """What is set: the value itself, or the member of the enumeration that it names."""
    if one.category != "member":
        return value
    kind: Any = type(attributes.get(one.name))
    if f"{kind.__module__}.{kind.__qualname__}" != one.detail:
        raise NotCapturedError(f"{layer}.{one.name} was a {one.detail} when it was saved, and is no such thing here")
    return kind[value]
