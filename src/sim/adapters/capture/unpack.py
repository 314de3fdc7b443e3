"""Restore objects from a captured state: the counterpart of pack.py.

Only plain values are created here (see values.py). An object of a class must exist already, under the name under which
it was saved, so that no tape can import or call a class.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.foreign_fields import restore_foreign
from sim.adapters.capture.graph.names.classes import NotFoundError
from sim.adapters.capture.graph.names.python_class import in_order, make_shell
from sim.adapters.capture.graph.object_graph import ObjectGraph
from sim.adapters.capture.graph.restored.restore_graph import Restoring
from sim.adapters.capture.known_objects import kept_values
from sim.adapters.capture.own_memory import TEXT_KINDS, is_only_holder, is_quick_array
from sim.adapters.capture.rng_state import (
    BIT_GENERATORS,
    PCG_WORDS,
    identities_of_pcg,
    parts_of_pcg,
    set_pcg_words,
    with_seeds,
)
from sim.adapters.capture.survey import (
    KINDS,
    LEFT_OUT,
    Attribute,
    Classify,
    Layer,
    Structure,
    Surveyor,
    field_name,
    structure_from_plain,
)
from sim.adapters.capture.values import decode_value
from sim.adapters.interface.adapter_registry import MissingPartError, NotCapturedError
from sim.adapters.interface.capture_report import Part
from sim.kernel.memory.weak_counts import is_referred_weakly
from sim.kernel.state import State

_SAVED = frozenset(("cell", "array", "generator", "rest", "constant", "object", "same"))
_LEFT_ALONE = ("kept", "clock", "drawing", "fixed")


def restore_objects(
    state: State,
    layers: Sequence[tuple[str, Any]],
    surveyor: Surveyor,
    constants: Sequence[Any],
    graph: ObjectGraph,
    detached: frozenset[str],
) -> tuple[Structure, dict[str, Any]]:
    """Restore the objects from the arena, and return its structure and all objects by name.

    detached: layers whose arrays are never written to, since others may hold them. constants: the large
    containers, in order. graph: an empty one over the state, for the rest.

    Raises NotCapturedError, naming an object of a different kind than was saved; ValueError for an arena of anything
    else.
    """
    if "structure" not in state.layout.slots:
        raise ValueError("expected a state of captured objects, got one without the field 'structure'")
    structure = structure_from_plain(decode_value(state.blob("structure")))
    return structure, _Restoring(state, structure, surveyor, dict(layers), detached, graph).run(constants)


class _Restoring:
    """One restore of all objects."""

    def __init__(
        self,
        state: State,
        structure: Structure,
        surveyor: Surveyor,
        objects: dict[str, Any],
        detached: frozenset[str],
        graph: ObjectGraph,
    ) -> None:
        self._state = state
        self._structure = structure
        self._surveyor = surveyor
        self._objects = objects
        self._detached = detached
        self._graph = graph
        self._placed = set(map(id, objects.values()))  # The objects that have their place, all of them alive.
        self._made: list[Any] = []
        self._used: set[int] = set()  # Arrays that were written to: a second attribute gets its own array.
        self._known: dict[str, Any] = {}
        self._left_alone: dict[
            str, Any
        ] = {}  # What is not saved, as the objects have it now: saved values may refer to it.
        self._cell_count = 0

    def run(self, constants: Sequence[Any]) -> dict[str, Any]:
        """Restore layer by layer, and return the objects by name."""
        objects = self._objects
        for layer in self._structure.layers:
            if layer.name not in objects:
                raise MissingPartError(layer.name, tuple(objects))
            attributes = vars(objects[layer.name])
            self._clear(layer.name, {attribute.name for attribute in layer.attributes}, attributes)
            for attribute in layer.attributes:
                self._restore(layer.name, attribute, attributes)
        self._restore_constants(constants)
        rest = self._rest_values()
        for layer in self._structure.layers:
            attributes = vars(objects[layer.name])
            for attribute in layer.attributes:
                if attribute.category == "rest":
                    attributes[attribute.name] = next(rest)
                elif attribute.category == "same":
                    attributes[attribute.name] = objects[attribute.detail]
        for made in self._made:
            attributes = vars(made)
            values = {name: attributes[name] for name in in_order(type(made), attributes)}
            attributes.clear()
            attributes.update(values)
        return objects

    def _rest_values(self) -> Iterator[Any]:
        """The values of all other attributes, in their order. Raises NotCapturedError for a lost class."""
        known = self._left_alone | self._known | self._objects | kept_values(self._structure, self._objects)
        try:
            return iter(Restoring(self._graph, known).run())
        except NotFoundError as error:
            raise NotCapturedError(str(error)) from None

    def _restore_constants(self, constants: Sequence[Any]) -> None:
        values = iter(constants)
        for layer in self._structure.layers:
            attributes = vars(self._objects[layer.name])
            for attribute in layer.attributes:
                if attribute.category == "constant":
                    attributes[attribute.name] = self._known[f"{layer.name}.{attribute.name}"] = next(values)

    def _clear(self, layer: str, saved: set[str], attributes: dict[str, Any]) -> None:
        """Remove the attributes that a used instance has and the saved one did not have."""
        for name in attributes.keys() - saved:
            full = f"{layer}.{name}"
            found = self._surveyor.described(self._objects[layer], full, attributes[name])
            if found.category not in _LEFT_ALONE:
                del attributes[name]
            elif found.detail != LEFT_OUT:
                self._left_alone[full] = attributes[name]

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
            attributes[attribute.name] = self._known[full] = restored
            self._used.add(id(restored))
        elif attribute.category == "generator":
            words = self._state[field_name(layer, attribute.name)].tolist()
            restored = self._generator(full, words, attribute.detail, attributes.get(attribute.name))
            attributes[attribute.name] = self._known[full] = restored
            self._known |= parts_of_pcg(full, restored)
        elif attribute.category == "object":
            present, finder = attributes.get(attribute.name), self._graph.finder
            finder.register(type(present))
            try:
                cls = finder.find(attribute.detail)
            except NotFoundError as error:
                raise NotCapturedError(f"{full}: {error}") from None
            # In a used instance one object may be in two places that had different ones.
            if type(present) is not cls or id(present) in self._placed:
                present = attributes[attribute.name] = make_shell(cls)
                self._made.append(present)
            self._objects[full] = present
            self._placed.add(id(present))

    def _array(self, saved: np.ndarray[Any, Any], present: Any) -> np.ndarray[Any, Any]:
        if present is not None and type(present) is np.ndarray and present.dtype.kind in TEXT_KINDS:
            present = None  # Texts are not written to in place.
        # Another holder of the memory may be a part of the objects that is restored later: a new array is as good.
        fits = is_quick_array(present, is_only_holder) and present.shape == saved.shape and present.dtype == saved.dtype
        if not fits or not present.flags.writeable or id(present) in self._used:
            present = saved.copy()
        else:
            present[...] = saved  # In place: other views of this memory stay valid.
        self._used.add(id(present))
        return present  # type: ignore[no-any-return]

    def _generator(self, full: str, words: list[int], detail: Any, present: Any) -> Any:
        match detail:
            case [str(kind), list(seeds)] if kind in BIT_GENERATORS and len(words) == PCG_WORDS:
                pass
            case str(kind) if kind in BIT_GENERATORS:
                raise NotCapturedError(
                    f"{full}: the state was recorded without the generator's seed sequence, by an older version: restore "
                    "it with that version"
                )
            case _:
                raise ValueError(f"expected a bit generator of NumPy, got {str(detail)[:40]}")
        fits = type(present) is np.random.Generator and type(present.bit_generator).__name__ == kind
        if not fits or self._used & identities_of_pcg(present):
            present = np.random.Generator(BIT_GENERATORS[kind](0))
        present = with_seeds(present, [*seeds, words[-1]])
        set_pcg_words(present, words)
        self._used |= identities_of_pcg(present)
        return present


def with_rest(structure: Structure, moved: Collection[tuple[str, str]]) -> Structure:
    """The structure with these attributes moved to the rest."""
    return Structure(
        tuple(
            attrs.evolve(
                layer,
                attributes=tuple(
                    attrs.evolve(one, category="rest", detail=None) if (layer.name, one.name) in moved else one
                    for one in layer.attributes
                ),
            )
            for layer in structure.layers
        )
    )


def releasable(
    structure: Structure, objects: Mapping[str, Any], met: Mapping[str, Any], classify: Classify, *, lets_go: bool
) -> set[tuple[str, str]]:
    """The attributes whose objects have to be nodes of the graph instead of layers, since their end can be seen.

    Those of which something is not saved stay layers, and so do those that an adapter opens.

    met: the objects at the last look; the end of others can be seen if they have weak references, or a __del__.
    classify: as for a Surveyor. lets_go: the graph has found such objects already.
    """
    inner = [f"{layer.name}.{one.name}" for layer in structure.layers for one in layer.attributes
             if one.category == "object"]  # fmt: skip
    fresh = [objects[name] for name in inner if met.get(name) is not objects[name]]
    if not lets_go and not any(is_referred_weakly(one) or hasattr(type(one), "__del__") for one in fresh):
        return set()
    layers = {layer.name: layer for layer in structure.layers}
    return {
        (layer.name, one.name)
        for layer in structure.layers
        for one in layer.attributes
        if one.category == "object" and _is_releasable(layer.name, one, layers, objects, classify)
    }


def _is_releasable(
    holder: str, attribute: Attribute, layers: Mapping[str, Layer], objects: Mapping[str, Any], classify: Classify
) -> bool:
    """Return True if everything in the object of an attribute is saved. No closure, which would hold the objects."""
    name = f"{holder}.{attribute.name}"
    if classify(objects[holder], attribute.name, objects[name]) == "open":
        return False
    return all(
        one.category in _SAVED and (one.category != "object" or _is_releasable(name, one, layers, objects, classify))
        for one in layers[name].attributes
    )


def parts_of(structure: Structure) -> tuple[Part, ...]:
    """The attributes of each layer, by what a restore does with them."""
    saved = {*_SAVED, "foreign"}

    def names(layer: Any, *categories: str) -> tuple[str, ...]:
        return tuple(one.name for one in layer.attributes if one.category in categories)

    return tuple(
        Part(
            name=layer.name,
            captured=names(layer, *saved),
            kept=names(layer, "kept", "fixed", "drawing"),
            clocks=names(layer, "clock"),
            unknown={one.name: str(one.detail) for one in layer.attributes if one.category == "unknown"},
        )
        for layer in structure.layers
    )
